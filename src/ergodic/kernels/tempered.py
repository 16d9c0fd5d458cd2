"""Between P0 and π: any kernel's transition on f_β = π*^β p0^(1-β), for ensembles that carry log π* itself.

An ensemble is given its level and force at β, moved, and given back its own: log π* = (level - (1-β) log p0)/β. What is
lost to rounding by dividing by a small β is multiplied by one again wherever it is used.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..protocols import Initial
from .ensemble import BatchedDensity, Ensemble


def with_force(initial: Initial, x: Float[Array, "particles dim"]) -> tuple[Array, Array]:
    """log p0 and its force."""
    value, back = jax.vjp(initial.logdensity, x)
    return value, back(jnp.ones_like(value))[0]


def tempered(density: BatchedDensity, initial: Initial, beta: Float[Array, ""]) -> BatchedDensity:
    """log f_β and its force."""

    def at_beta(x: Array) -> tuple[Array, Array]:
        (value, gradient), (value0, gradient0) = density(x), with_force(initial, x)
        return beta * value + (1 - beta) * value0, beta * gradient + (1 - beta) * gradient0

    return at_beta


def temper(initial: Initial, beta: Float[Array, ""], ensemble: Ensemble) -> Ensemble:
    """The ensemble as f_β sees it."""
    x, value, gradient = ensemble
    value0, gradient0 = with_force(initial, x)
    return Ensemble(x, beta * value + (1 - beta) * value0, beta * gradient + (1 - beta) * gradient0)


def untemper(initial: Initial, beta: Float[Array, ""], ensemble: Ensemble) -> Ensemble:
    """The ensemble as π sees it; β > 0."""
    x, level, force = ensemble
    value0, gradient0 = with_force(initial, x)
    return Ensemble(x, (level - (1 - beta) * value0) / beta, (force - (1 - beta) * gradient0) / beta)


def log_ratio(initial: Initial, ensemble: Ensemble) -> Float[Array, "particles"]:
    """log π*(x) - log p0(x), which a weight grows by for every unit of β; -inf where log π* is not finite."""
    ratio = ensemble.logdensity - initial.logdensity(ensemble.position)
    return jnp.where(jnp.isfinite(ratio), ratio, -jnp.inf)
