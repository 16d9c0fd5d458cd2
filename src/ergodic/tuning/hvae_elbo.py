"""The bound of Hamiltonian VI with one momentum (Caterini, Doucet & Sejdinovic 2018).

    z_0 ~ q0,  p_0 ~ N(0, T0 I) drawn once;  K leapfrogs of step size eps, after each  p <- alpha_k p

    fixed tempering:  T_k = (1 - T0) k²/K² + T0,  alpha_k = sqrt(T_k / T_{k-1});      none: alpha = 1, T0 = 1

    ELBO = E[ log π*(z_K) - |p_K|²/2 ] + H(q0) + d/2 <= log Z

(The original's T0 is a temperature above 1. The Jacobian of the tempering cancels the entropy it adds to the momentum,
so both variants have the same formula.) Deterministic given (z_0, p_0): no reverse model, and no Metropolis step.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..kernels import Ensemble, leapfrog
from ..kernels.ensemble import BatchedDensity

TEMPERINGS = ("none", "fixed")


def hvae_bound(
    density: BatchedDensity,
    begin: Ensemble,
    entropy: Float[Array, "#particles"],
    log_step: Float[Array, "dim"],
    key: Array,
    *,
    leapfrogs: int,
    tempering: str,
    temperature: float,
) -> tuple[Float[Array, "particles"], Ensemble]:
    """The bound's integrand for each particle, given z_0 (``begin``) and H(q0), and the ensemble at z_K."""
    particles, dim = begin.position.shape
    dtype = log_step.dtype
    hot = temperature if tempering == "fixed" else 1.0
    temperatures = [(1 - hot) * (k / leapfrogs) ** 2 + hot for k in range(leapfrogs + 1)]
    alphas = [math.sqrt(temperatures[k] / temperatures[k - 1]) for k in range(1, leapfrogs + 1)]
    step, one = jnp.exp(log_step)[None, :], jnp.ones((1, dim), dtype)

    def move(carry: tuple[Ensemble, Array], alpha: Array) -> tuple[tuple[Ensemble, Array], None]:
        ensemble, momentum = leapfrog(density, carry[0], carry[1], step, one, 1)
        return (ensemble, alpha * momentum), None

    momentum = math.sqrt(hot) * jax.random.normal(key, (particles, dim), dtype)
    (end, momentum), _ = jax.lax.scan(move, (begin, momentum), jnp.asarray(alphas, dtype))
    return end.logdensity - 0.5 * jnp.sum(momentum**2, axis=-1) + entropy + 0.5 * dim, end
