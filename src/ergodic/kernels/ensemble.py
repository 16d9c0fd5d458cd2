"""The state every kernel moves: a whole ensemble of particles, with log π* and its force carried along."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

BatchedDensity = Callable[
    [Float[Array, "particles dim"]], tuple[Float[Array, "particles"], Float[Array, "particles dim"]]
]
"""Positions to (log π*, ∂ log π*), for the ensemble at once."""


class Ensemble(NamedTuple):
    """Particles. Log-density and force are carried between steps, so that no gradient is computed twice."""

    position: Float[Array, "particles dim"]
    logdensity: Float[Array, "particles"]
    gradient: Float[Array, "particles dim"]

    def usable(self) -> Bool[Array, "particles"]:
        """Where log π* and its force are finite."""
        return jnp.isfinite(self.logdensity) & jnp.all(jnp.isfinite(self.gradient), axis=-1)


class Info(NamedTuple):
    """What happened to each particle in one transition."""

    acceptance: Float[Array, "particles"]
    """min(1, exp(-energy error)), the probability p_MH of section 2.2; 0 where the move diverged."""
    accepted: Bool[Array, "particles"]
    energy_error: Float[Array, "particles"]
    """H(x', r') - H(x, r); infinite where the proposal is not finite."""
    diverged: Bool[Array, "particles"]
    """Energy *rose* by more than the threshold. A large drop, as from a far start, is not a divergence."""


def start(density: BatchedDensity, position: Float[Array, "particles dim"]) -> Ensemble:
    """Evaluate the density once: the '+1' of T L + 1 gradients per draw.

    A start outside the support (log π* NaN, or a force that is not finite) becomes log π* = -inf with no force: the
    first proposal inside the support is then accepted.
    """
    return outside(Ensemble(position, *density(position)))


def outside(found: Ensemble) -> Ensemble:
    """Particles outside the support, marked as such: log π* = -inf with no force."""
    inside = found.usable()
    level, force = jnp.where(inside, found.logdensity, -jnp.inf), jnp.where(inside[:, None], found.gradient, 0)
    return Ensemble(found.position, level, force)


def select(accepted: Bool[Array, "particles"], proposal: Ensemble, current: Ensemble) -> Ensemble:
    """Equation 8: x' where accepted, x elsewhere."""
    return Ensemble(
        jnp.where(accepted[:, None], proposal.position, current.position),
        jnp.where(accepted, proposal.logdensity, current.logdensity),
        jnp.where(accepted[:, None], proposal.gradient, current.gradient),
    )
