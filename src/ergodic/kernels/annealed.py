"""One annealed HMC move: Metropolis-corrected leapfrogs on f_β = π*^β p0^(1-β), for annealed importance sampling.

log π* and its force are carried untempered, so that the same evaluation serves this temperature's weight, this move and
the next one's first half-kick. Momentum is refreshed

- ``"full"``: r ~ N(0, I) anew (Neal 2001; Wu et al. 2017), or
- ``"partial"`` (Sohl-Dickstein & Culpepper 2012): r <- -√(1-b) r + √b n with b = 1 - exp(ε log ½), after a move that
  negates the momentum when accepted, so that it goes on in its direction, and turns back when rejected.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..initial import DiagonalGaussian
from .ensemble import BatchedDensity
from .leapfrog import Carried, integrate

REFRESHMENTS = ("partial", "full")
Raw = tuple[Array, Array, Array]
"""log f_β, log π* and ∂log π*, which come along with the force at β."""


class Annealed(NamedTuple):
    """Particles on their way between p0 and π, with momentum and the untempered log π* and force."""

    position: Float[Array, "particles dim"]
    momentum: Float[Array, "particles dim"]
    logdensity: Float[Array, "particles"]
    gradient: Float[Array, "particles dim"]


def begin(density: BatchedDensity, position: Float[Array, "particles dim"], key: Array) -> Annealed:
    """Evaluate the density and draw the first momentum."""
    return Annealed(position, jax.random.normal(key, position.shape, position.dtype), *density(position))


def annealed_ratio(initial: DiagonalGaussian, state: Annealed) -> Float[Array, "particles"]:
    """log π*(x) - log p0(x): the derivative of log f_β(x) with respect to β."""
    return state.logdensity - initial.logdensity(state.position)


def annealed_move(
    density: BatchedDensity,
    initial: DiagonalGaussian,
    beta: Float[Array, ""],
    step: Float[Array, "dim"],
    state: Annealed,
    key: Array,
    *,
    leapfrogs: int,
    refresh: str,
) -> tuple[Annealed, Float[Array, "particles"]]:
    """Refresh the momentum, move, decide; returns the state and the acceptance probability."""
    refresh_key, accept_key = jax.random.split(key)
    shape, dtype = state.position.shape, state.position.dtype
    noise = jax.random.normal(refresh_key, shape, dtype)
    if refresh == "partial":
        kept = jnp.exp(math.log(0.5) * step)[None, :]  # 1 - b
        momentum = -jnp.sqrt(kept) * state.momentum + jnp.sqrt(1 - kept) * noise
    else:
        momentum = noise

    def tempered(x: Array) -> tuple[Raw, Array]:
        return _temper(initial, beta, x, *density(x))

    raw, force = _temper(initial, beta, state.position, state.logdensity, state.gradient)
    here = Carried(state.position, raw, force)
    there, end = integrate(tempered, here, momentum, step[None, :], jnp.ones((1, shape[1]), dtype), leapfrogs)
    (level, _, _), (new_level, new_value, new_gradient) = here.payload, there.payload

    energy_error = 0.5 * jnp.sum(end**2 - momentum**2, axis=-1) - (new_level - level)
    finite = jnp.isfinite(energy_error) & jnp.isfinite(new_value) & jnp.all(jnp.isfinite(new_gradient), axis=-1)
    energy_error = jnp.where(finite, energy_error, jnp.inf)
    accepted = jnp.log(jax.random.uniform(accept_key, (shape[0],), dtype)) < -energy_error
    column = accepted[:, None]
    moved = Annealed(
        jnp.where(column, there.position, state.position),
        jnp.where(column, -end, momentum),
        jnp.where(accepted, new_value, state.logdensity),
        jnp.where(column, new_gradient, state.gradient),
    )
    return moved, jnp.exp(jnp.minimum(-energy_error, 0))


def _temper(initial: DiagonalGaussian, beta: Array, x: Array, value: Array, gradient: Array) -> tuple[Raw, Array]:
    """(log f_β, log π*, ∂log π*) and the force ∂log f_β."""
    start_force = -(x - initial.mean[None, :]) * jnp.exp(-2 * initial.log_scale)[None, :]
    level = beta * value + (1 - beta) * initial.logdensity(x)
    return (level, value, gradient), beta * gradient + (1 - beta) * start_force
