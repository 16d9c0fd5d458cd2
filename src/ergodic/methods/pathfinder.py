"""Multi-path Pathfinder from BlackJAX: Gaussians along L-BFGS paths, importance-weighted.

From each of several starts L-BFGS climbs log π*; at every point of its path the inverse Hessian it has built gives a
Gaussian, and the one with the largest ELBO is kept. Draws come from the equal mixture q of the paths' Gaussians, and
are weighted by π*/q: the weights also give log Z. (The paper weights a draw by the Gaussian it came from, and smooths
the largest weights; weights by the mixture have less variance, and unsmoothed ones are unbiased for Z.)

Constants are BlackJAX's defaults, 200 draws an ELBO, 30 iterations, history 10; the paper's multi-path has 20 paths.
Paths are run one after the other, so that memory is that of one. A path whose approximations are all unusable (not
finite, or of a covariance that is not positive) is replaced by the best of the others.

Zhang, Carpenter, Gelman & Vehtari 2022, JMLR 23.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from ..initial import DiagonalGaussian
from ..protocols import Fact, FixedShapes, Independent
from ..runtime.drawing import Batch, Kind
from ..runtime.errors import ConfigError
from ..runtime.programs import Stopwatch, compiled
from ..sampler import Sampler
from ..target import Density, Target
from ..tuning.checks import require_usable
from .from_gaussian import FromGaussian
from .peers import blackjax, lenient


class PathfinderParams(NamedTuple):
    """The paths' Gaussians, N(mean, root root')."""

    mean: Float[Array, "paths dim"]
    root: Float[Array, "paths dim dim"]
    """Lower triangular."""


@dataclass(frozen=True)
class Pathfinder(FromGaussian, FixedShapes, Independent):
    """Settings of Pathfinder; ``Pathfinder().fit(target, key)`` gives a `Sampler` of weighted draws.

    Attributes:
      paths: independent L-BFGS runs.
      elbo_draws: draws from which each ELBO is estimated.
      iterations: of L-BFGS, at most.
      history: pairs that L-BFGS keeps.
    """

    paths: int = 20
    elbo_draws: int = 200
    iterations: int = 30
    history: int = 10

    name: ClassVar[str] = "Pathfinder"
    title: ClassVar[str] = "Multi-path Pathfinder, importance-weighted (Zhang et al.; BlackJAX)"

    def begin(self, target: Target, key: Array) -> PathfinderParams:
        """P0 on every path; also the shapes of what is fitted, for reading a file."""
        start = self.initial(target)
        root = jnp.diag(jnp.exp(start.log_scale))
        return PathfinderParams(*(jnp.stack([leaf] * self.paths) for leaf in (start.mean, root)))

    def fit(self, target: Target, key: Array, *, progress: bool | None = None) -> Sampler:
        """Follow every path. One compiled program, so there is no progress to show."""
        clock = Stopwatch()
        check_key, path_key = jax.random.split(key)
        initial = self.initial(target)
        require_usable(target, check_key, initial)
        program = compiled(_follow, (target.density, self), initial, path_key)
        params, elbo, steps = program(initial, path_key)
        elbo, steps = jax.device_get((elbo, steps))
        if not (elbo > -math.inf).any():
            raise ConfigError(f"Pathfinder found no usable Gaussian on any of {self.paths} paths of '{target.name}'")
        # Two gradients per iteration (BlackJAX takes the new point's again), and at least one in its line search.
        gradients = 3 * steps + 1
        return Sampler(target, self, params, {"elbo": elbo}, clock.cost(int(gradients.sum()), int(gradients.max())))

    def kind(self, params: PyTree) -> Kind:
        """Weighted: every draw has its log-weight."""
        return Kind.WEIGHTED

    def depth(self, params: PyTree) -> int:
        """One evaluation per draw."""
        return 1

    def simulate(self, density: Density, params: PathfinderParams, key: Array, particles: int) -> Batch:
        """Draws of the mixture, the paths in turn, with log π*/q."""
        paths, dim = params.mean.shape
        which = jnp.arange(particles) % paths
        noise = jax.random.normal(key, (particles, dim), params.mean.dtype)
        position = params.mean[which] + jnp.einsum("nij,nj->ni", params.root[which], noise)
        logdensity = jax.vmap(density)(position)
        log_weight = logdensity - _log_mixture(params, position)
        trace = {"expected_logdensity": jnp.mean(logdensity)[None]}
        return Batch(position, logdensity, {"log_weight": log_weight}, trace)

    def facts(self, params: PyTree) -> dict[str, Fact]:
        """Plain facts for the draws' attributes."""
        return {"paths": self.paths}


def _follow(
    density: Density, method: Pathfinder, initial: DiagonalGaussian, key: Array
) -> tuple[PathfinderParams, Array, Array]:
    """Every path's Gaussian, its ELBO, and the L-BFGS steps that were made."""
    start_key, path_key = jax.random.split(key)

    def path(inputs: tuple[Array, Array]) -> tuple[PathfinderParams, Array, Array]:
        position, key = inputs
        state, info = blackjax().vi.pathfinder.approximate(
            key, density, position, method.elbo_draws, maxiter=method.iterations, maxcor=method.history
        )
        moved = jnp.any(jnp.diff(info.path.position, axis=0) != 0, axis=1)
        covariance = jnp.diag(state.alpha) + state.beta @ state.gamma @ state.beta.T
        root = jnp.linalg.cholesky(0.5 * (covariance + covariance.T))
        mean = state.position + covariance @ state.grad_position
        usable = jnp.all(jnp.isfinite(root)) & jnp.all(jnp.isfinite(mean))
        return PathfinderParams(mean, root), jnp.where(usable, state.elbo, -jnp.inf), jnp.sum(moved)

    with lenient(initial.mean.dtype):
        inputs = initial.sample(start_key, method.paths), jax.random.split(path_key, method.paths)
        params, elbo, steps = jax.lax.map(path, inputs)
        chosen = jnp.where(elbo > -jnp.inf, jnp.arange(method.paths), jnp.argmax(elbo))
        return jax.tree_util.tree_map(lambda leaf: leaf[chosen], params), elbo, steps


def _log_mixture(params: PathfinderParams, x: Float[Array, "n dim"]) -> Float[Array, "n"]:
    """log of the equal mixture of the paths' Gaussians."""
    paths, dim = params.mean.shape

    def component(mean: Array, root: Array) -> Array:
        z = jax.scipy.linalg.solve_triangular(root, (x - mean[None, :]).T, lower=True)
        return -0.5 * jnp.sum(z**2, axis=0) - jnp.sum(jnp.log(jnp.diagonal(root)))

    each = jax.lax.map(lambda leaf: component(*leaf), (params.mean, params.root))
    return jax.nn.logsumexp(each, axis=0) - math.log(paths) - 0.5 * dim * math.log(2 * math.pi)
