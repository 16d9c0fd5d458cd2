"""Hamiltonian Monte Carlo in affine coordinates x = A z: one step size, one length, any linear chart, a jittered step.

Momentum is N(0, I) in z. With f = ∂log π*(x) one leapfrog of size ε is

    r ← r + ε/2 A'f;    x ← x + ε A r;    r ← r + ε/2 A'f

A is any linear chart (`charts/`). Each particle's ε is drawn anew, uniformly within `jitter` of the step size:
trajectories of one length for all would resonate with the target's periods. A few of them are small, by up to a
hundred: whoever is stuck where the target is steep gets away sooner or later. The number of leapfrogs is a number, not
part of the program: steps of different lengths share it, and none does work that is thrown away.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ..protocols import Chart
from ..runtime.noise import noise
from .ensemble import BatchedDensity, Ensemble, Info, select
from .leapfrog import Carried, Field, integrate


class AffineParams(NamedTuple):
    """The parameters of one transition."""

    step: Float[Array, ""]
    """ε."""
    leapfrogs: Int[Array, ""]
    """L."""
    chart: Chart
    """A."""
    varied: Float[Array, ""] | float = 1.0
    """1 where particles' steps are of several sizes, 0 where all are ε: a landing (`coupled.py`)."""


@dataclass(frozen=True)
class AffineHMC:
    """The kernel's static configuration.

    Attributes:
      jitter: particles' step sizes are uniform on ε (1 ± jitter).
      careful: the share of small steps, of sizes from ε ``smallest`` to ε: they get away from where it is steep.
      divergence_threshold: rise in energy from which a move counts as diverged.
    """

    jitter: float = 0.5
    careful: float = 0.1
    smallest: float = 0.01
    divergence_threshold: float = 1000.0

    def transition(
        self, density: BatchedDensity, params: AffineParams, ensemble: Ensemble, key: Array
    ) -> tuple[Ensemble, Info]:
        """Move the ensemble once."""
        x = ensemble.position
        momentum, uniform = noise(key, x.shape[0], x.shape[1], 2, x.dtype)
        step = self.steps(params.step, uniform[:, :1], params.varied)
        field, here = along(density, params.chart, ensemble)
        there, end = integrate(field, here, momentum, step, jnp.ones_like(step), params.leapfrogs)
        proposal = landed(params.chart, ensemble, there)
        info = self.decide(ensemble, proposal, momentum, end, uniform[:, 1])
        return select(info.accepted, proposal, ensemble), info

    def steps(
        self, step: Float[Array, ""], uniform: Float[Array, "particles 1"], varied: Float[Array, ""] | float = 1.0
    ) -> Float[Array, "particles 1"]:
        """Every particle's own step size, from uniforms on [0, 1)."""
        usual, small = 1 + varied * self.jitter * (2 * uniform - 1), uniform < varied * self.careful
        return step * jnp.where(small, self.smallest ** (1 - uniform / self.careful), usual)

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
        """Accept or reject each move, by Metropolis."""
        probability, error = self.acceptance(before, after, momentum, end)
        accepted = uniform < probability
        return Info(probability, accepted, error, error > self.divergence_threshold)


InX = tuple[Float[Array, "particles"], Float[Array, "particles dim"]]
"""log π* and the force in x, which come along with the force in z: nothing need be mapped back."""


def along(density: BatchedDensity, chart: Chart, ensemble: Ensemble) -> tuple[Field, Carried]:
    """The density as a function of z, measured from each particle's own place, and the particles in it."""
    x = ensemble.position

    def field(z: Array) -> tuple[InX, Array]:
        value, gradient = density(x + chart.push(z))
        return (value, gradient), chart.pull(gradient)

    here = (ensemble.logdensity, ensemble.gradient)
    return field, Carried(jnp.zeros_like(x), here, chart.pull(ensemble.gradient))


def landed(chart: Chart, ensemble: Ensemble, there: Carried) -> Ensemble:
    """Where a trajectory in z ends, in x."""
    value, gradient = there.payload
    return Ensemble(ensemble.position + chart.push(there.position), value, gradient)
