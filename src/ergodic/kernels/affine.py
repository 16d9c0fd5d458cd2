"""Hamiltonian Monte Carlo in affine coordinates x = A z: one step size, one length, any metric, a jittered step.

Momentum is N(0, I) in z. With f = ∂log π*(x) one leapfrog of size ε is

    r ← r + ε/2 A'f;    x ← x + ε A r;    r ← r + ε/2 A'f

A is any of `metric.py`. Each particle's ε is drawn anew, uniformly within `jitter` of the step size: trajectories of
one length for all would resonate with the target's periods. The number of leapfrogs is a number, not part of the
program: steps of different lengths share it, and none does work that is thrown away.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ..runtime.noise import noise
from .ensemble import BatchedDensity, Ensemble, Info, select
from .leapfrog import leapfrog


class AffineParams(NamedTuple):
    """One transition."""

    step: Float[Array, ""]
    """ε."""
    leapfrogs: Int[Array, ""]
    """L."""
    metric: Any
    """A."""


@dataclass(frozen=True)
class AffineHMC:
    """The kernel's static configuration.

    Attributes:
      jitter: particles' step sizes are uniform on ε (1 ± jitter).
      divergence_threshold: rise in energy from which a move counts as diverged.
    """

    jitter: float = 0.5
    divergence_threshold: float = 1000.0

    def transition(
        self, density: BatchedDensity, params: AffineParams, ensemble: Ensemble, key: Array
    ) -> tuple[Ensemble, Info]:
        """Move the ensemble once."""
        x = ensemble.position
        momentum, uniform = noise(key, x.shape[0], x.shape[1], 2, x.dtype)
        step = self.steps(params.step, uniform[:, :1])
        field, here = along(density, params.metric, ensemble)
        there, end = leapfrog(field, here, momentum, step, jnp.ones_like(step), params.leapfrogs)
        proposal = landed(params.metric, ensemble, there)
        info = self.decide(ensemble, proposal, momentum, end, uniform[:, 1])
        return select(info.accepted, proposal, ensemble), info

    def steps(self, step: Float[Array, ""], uniform: Float[Array, "particles 1"]) -> Float[Array, "particles 1"]:
        """Every particle's own step size, from uniforms on [0, 1)."""
        return step * (1 + self.jitter * (2 * uniform - 1))

    def acceptance(
        self,
        before: Ensemble,
        after: Ensemble,
        momentum: Float[Array, "particles dim"],
        end: Float[Array, "particles dim"],
    ) -> tuple[Float[Array, "particles"], Float[Array, "particles"]]:
        """p_MH and the energy error, infinite where the proposal is not finite."""
        error = 0.5 * jnp.sum(end**2 - momentum**2, axis=-1) - (after.logdensity - before.logdensity)
        error = jnp.where(after.usable() & ~jnp.isnan(error), error, jnp.inf)
        return jnp.where(error > self.divergence_threshold, 0, jnp.exp(jnp.minimum(-error, 0))), error

    def decide(
        self,
        before: Ensemble,
        after: Ensemble,
        momentum: Float[Array, "particles dim"],
        end: Float[Array, "particles dim"],
        uniform: Float[Array, "particles"],
    ) -> Info:
        """Metropolis."""
        probability, error = self.acceptance(before, after, momentum, end)
        accepted = uniform < probability
        return Info(probability, accepted, error, error > self.divergence_threshold)


def along(density: BatchedDensity, metric: Any, ensemble: Ensemble) -> tuple[BatchedDensity, Ensemble]:
    """The density as a function of z, measured from each particle's own place, and the particles in it.

    What comes with the force is (log π*, the force in x): nothing need be mapped back.
    """
    x = ensemble.position

    def field(z: Array) -> tuple[Any, Array]:
        value, gradient = density(x + metric.push(z))
        return (value, gradient), metric.pull(gradient)

    here = (ensemble.logdensity, ensemble.gradient)
    return field, Ensemble(jnp.zeros_like(x), cast(Any, here), metric.pull(ensemble.gradient))


def landed(metric: Any, ensemble: Ensemble, there: Ensemble) -> Ensemble:
    """Where a trajectory in z ends, in x."""
    value, gradient = cast(Any, there.logdensity)
    return Ensemble(ensemble.position + metric.push(there.position), value, gradient)
