"""The bound of Hamiltonian variational inference (Salimans, Kingma & Welling 2015; the paper's equation 6).

A chain without a Metropolis step, z_0 ~ q0, v'_t ~ N(0, diag φ1_t), (z_t, v_t) = leapfrog(z_{t-1}, v'_t), and an
auxiliary reverse model r_t(v_t | z_t), Gaussian with mean and log-variance from a network:

    L = E[ log π*(z_T) - log q0(z_0) + Σ_t ( log r_t(v_t | z_t) - log q_t(v'_t) ) ] <= log Z

The leapfrog preserves volume, so no Jacobian enters. The bound is tight when r_t is the exact conditional and z_T ~ π;
otherwise it is looser by a KL divergence that grows with T. Gradients are by reverse mode through the chain.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from ..initial import DiagonalGaussian
from ..kernels import HMCParams, leapfrog, start
from ..kernels.ensemble import BatchedDensity, Ensemble
from ..target import Density
from .mlp import MLP


class HVIParams(NamedTuple):
    """What Hamiltonian variational inference learns."""

    initial: DiagonalGaussian
    """q0, where the chain starts."""
    transitions: HMCParams
    """Step sizes and momentum variances, one row per transition."""
    reverse: MLP
    """The networks of r_t, stacked over transitions."""


def hvi_bound(
    density: BatchedDensity, leapfrogs: int, params: HVIParams, key: Array, particles: int
) -> tuple[Float[Array, "particles"], Ensemble]:
    """The bound's integrand for each particle, and the ensemble at z_T."""
    start_key, chain_key = jax.random.split(key)
    z = params.initial.sample(start_key, particles)
    begin, log_q = start(density, z), params.initial.logdensity(z)
    return reversed_bound(density, leapfrogs, params.transitions, params.reverse, begin, log_q, chain_key)


def reversed_bound(
    density: BatchedDensity,
    leapfrogs: int,
    transitions: HMCParams,
    reverse: MLP,
    begin: Ensemble,
    log_q: Float[Array, "particles"],
    key: Array,
    datum: Float[Array, "particles features"] | None = None,
) -> tuple[Float[Array, "particles"], Ensemble]:
    """The bound's integrand from given z_0 (``begin``) and log q0(z_0), and the ensemble at z_T.

    With a ``datum`` per particle, the reverse networks see it too.
    """

    def step(
        carry: tuple[Ensemble, Array], inputs: tuple[HMCParams, MLP, Array]
    ) -> tuple[tuple[Ensemble, Array], None]:
        ensemble, bound = carry
        transition, network, key = inputs
        variance = jnp.exp(transition.log_variance)[None, :]
        momentum = jnp.sqrt(variance) * jax.random.normal(key, ensemble.position.shape, variance.dtype)
        step_size = jnp.exp(transition.log_step)[None, :]
        ensemble, end = leapfrog(density, ensemble, momentum, step_size, variance, leapfrogs)
        seen = ensemble.position if datum is None else jnp.concatenate([ensemble.position, datum], axis=-1)
        mean, log_variance = jnp.split(network(seen), 2, axis=-1)
        log_r = gaussian_logdensity(end, mean, log_variance + transition.log_variance[None, :])
        log_p = gaussian_logdensity(momentum, jnp.zeros_like(momentum), transition.log_variance[None, :])
        return (ensemble, bound + log_r - log_p), None

    keys = jax.random.split(key, transitions.log_step.shape[0])
    (end, bound), _ = jax.lax.scan(step, (begin, -log_q), (transitions, reverse, keys))
    return bound + end.logdensity, end


def gaussian_logdensity(
    x: Float[Array, "n dim"], mean: Float[Array, "n dim"], log_variance: Float[Array, "#n dim"]
) -> Float[Array, "n"]:
    """log N(x; mean, diag exp(log_variance)) of every row."""
    terms = (x - mean) ** 2 * jnp.exp(-log_variance) + log_variance + math.log(2 * math.pi)
    return -0.5 * jnp.sum(terms, axis=-1)


@dataclass(frozen=True)
class HviElbo:
    """The bound as `ascent.maximise` takes it.

    Attributes:
      leapfrogs: L, sub-steps per transition.
      particles: runs of the chain per iteration.
      tune_initial: whether q0 is tuned.
    """

    leapfrogs: int
    particles: int
    tune_initial: bool

    def estimate(
        self, density: Density, params: HVIParams, carry: PyTree, key: Array
    ) -> tuple[dict[str, Array], HVIParams, PyTree]:
        """One estimate of the bound, its gradient, and the carry as it was."""

        def objective(params: HVIParams) -> tuple[Array, Ensemble]:
            bound, end = hvi_bound(density.batched, self.leapfrogs, params, key, self.particles)
            return jnp.mean(bound), end

        (value, end), gradient = jax.value_and_grad(objective, has_aux=True)(params)
        row = {"objective": value, "final": jnp.mean(end.logdensity), "entropy": params.initial.entropy()}
        return row, gradient, carry

    def settle(self, current: HVIParams, updated: HVIParams) -> HVIParams:
        """The updated parameters; q0 stays as it is when it is not tuned."""
        return updated if self.tune_initial else updated._replace(initial=current.initial)
