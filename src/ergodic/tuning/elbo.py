"""The evidence lower bound of a diagonal Gaussian and its reparameterised gradient (equations 1 and 7).

    ELBO(P) = E_p[log π*(x)] + H(P),    ∂_φ0 ELBO ≈ 1/N Σ_i ∂_φ0 log π*(f_φ0(ε_i)) + ∂_φ0 H(P)

A particle with a non-finite log π* or force counts for nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from ..initial import DiagonalGaussian
from ..kernels import Ensemble, start
from ..target import Density
from .adam import Adam


def elbo_gradient(
    initial: DiagonalGaussian, noise: Float[Array, "particles dim"], ensemble: Ensemble
) -> DiagonalGaussian:
    """∂ELBO along mean and log scale, from forces at x = f_φ0(ε): equation 7."""
    force = averaged(ensemble.gradient, ensemble.usable())
    along_scale = jnp.sum(force * noise, axis=0) * jnp.exp(initial.log_scale)
    return DiagonalGaussian(jnp.sum(force, axis=0), along_scale + 1)  # ∂H/∂log scale = 1


@dataclass(frozen=True)
class Elbo:
    """Equation 1 as `ascent.maximise` takes it: mean-field variational inference.

    Attributes:
      particles: N, draws of P per iteration.
    """

    particles: int

    def estimate(
        self, density: Density, params: DiagonalGaussian, carry: PyTree, key: Array
    ) -> tuple[dict[str, Array], DiagonalGaussian, PyTree]:
        """One estimate of the bound, its gradient, and the carry as it was."""
        noise = jax.random.normal(key, (self.particles, params.mean.shape[0]), params.mean.dtype)
        ensemble = start(density.batched, params.transform(noise))
        expected, entropy = average(ensemble.logdensity, ensemble.usable()), params.entropy()
        row = {"objective": expected + entropy, "final": expected, "entropy": entropy}
        return row, elbo_gradient(params, noise, ensemble), carry

    def settle(self, current: DiagonalGaussian, updated: DiagonalGaussian) -> DiagonalGaussian:
        """Every update is taken as it is: there is no constraint."""
        return updated


def climb(
    density: Density, first: DiagonalGaussian, key: Array, rates: Float[Array, "iterations"], particles: int
) -> DiagonalGaussian:
    """Mean-field variational inference as one pure function: Adam on the ELBO, one learning rate per iteration."""
    adam, objective = Adam(), Elbo(particles)

    def step(
        carry: tuple[DiagonalGaussian, PyTree], inputs: tuple[Array, Array]
    ) -> tuple[tuple[DiagonalGaussian, PyTree], None]:
        q, state = carry
        _, gradient, _ = objective.estimate(density, q, (), inputs[0])
        direction, state = adam.step(gradient, state)
        return (jax.tree_util.tree_map(lambda p, d: p + inputs[1] * d, q, direction), state), None

    keys = jax.random.split(key, rates.shape[0])
    return jax.lax.scan(step, (first, adam.init(first)), (keys, rates))[0][0]


def averaged(gradient: Float[Array, "particles dim"], ok: Bool[Array, "particles"]) -> Float[Array, "particles dim"]:
    """Each usable particle's share of the average force; zero for the others."""
    count = jnp.maximum(jnp.sum(ok.astype(gradient.dtype)), 1)
    return jnp.where(ok[:, None], gradient, 0) / count


def average(values: Float[Array, "particles"], ok: Bool[Array, "particles"]) -> Float[Array, ""]:
    """The mean over usable particles; zero, without a gradient, when there is none."""
    return jnp.sum(jnp.where(ok, values, 0)) / jnp.maximum(jnp.sum(ok.astype(values.dtype)), 1)
