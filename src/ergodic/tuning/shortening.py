"""Joint refinement of a greedy schedule: fewer steps, their sizes tuned together by the Rao-Blackwellised objective.

    R(ε, s) = Σ_t E[ p_t log π*(x'_t) + (1 - p_t) log π*(x_{t-1}) ],    p_t = min(1, exp(-ΔH_t)),    x_0 ~ P0 stretched

over the step sizes ε_t of T' steps and, where the chart A is dense, one stretch e^s of every coordinate z of x = A z.
Lengths stay as they are. The gradient is `rao_blackwell.py`'s with frozen forces, in z: with forces held constant the
coordinates of a trajectory do not meet, so that one forward derivative along ε gives every coordinate's own,

    ∂R/∂log ε_tj = E[ p_t (f'_j ∂z'_j + Δ_t ∂log p_tj) + 1[accepted_t] ∂z'_j Σ_{u>t} F_uj ]

of which the gradient in log ε_t is the sum over j, and in s_j that over t.

Why stretched. Every transition leaves π as it is, so from P0 = π R says nothing: it is the same for all ε. From a P0
that is narrower R is greatest for ε = 0, staying at the mode. A P0 `STRETCH` times as wide is contracted by moving, in
a Gaussian most by a quarter of a period, after which the start is forgotten: there R asks for what we want. R is blind
to the rest of forgetting, which `eg.refine` therefore measures on fresh particles of the sampler's own P0. And frozen
forces mislead the last steps, which nothing follows: no step or stretch goes further than `REACH` from where it began.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int

from ..charts import DenseChart, LinearChart
from ..initial.mixture import KernelMixture
from ..kernels.affine import AffineHMC, InX
from ..kernels.ensemble import BatchedDensity, Ensemble, select, start
from ..kernels.leapfrog import Carried, integrate
from ..runtime.noise import noise
from ..runtime.programs import compiled
from ..target import Density
from .adam import Adam
from .elbo import average, averaged

STRETCH = 2.0
REACH = 1.5
_RATE = 0.05


class Tuned(NamedTuple):
    """The parameters that Adam tunes."""

    log_step: Float[Array, "steps"]
    """log ε_t."""
    log_stretch: Float[Array, "dim"]
    """s: coordinates z_j of the chart are stretched by e^s_j."""


class Fixed(NamedTuple):
    """What stays as the greedy schedule has it."""

    initial: KernelMixture
    leapfrogs: Int[Array, "steps"]
    chart: LinearChart


class Proposed(NamedTuple):
    """A move in z, with its derivatives along log ε, coordinate by coordinate; no derivatives where it diverged."""

    proposal: Ensemble
    force: Float[Array, "particles dim"]
    """A'f at the proposal; at the start where it diverged."""
    of_position: Float[Array, "particles dim"]
    of_log_p: Float[Array, "particles dim"]
    probability: Float[Array, "particles"]
    uphill: Float[Array, "particles 1"]
    """1 where the energy rose."""
    accepted: Array
    diverged: Array


@dataclass(frozen=True)
class Refinement:
    """The objective's configuration.

    Attributes:
      kernel: the chain's.
      particles: runs of the chain per iteration.
      stretch: how much wider than P0 they start.
      coordinates: whether coordinates are stretched too.
    """

    kernel: AffineHMC
    particles: int
    stretch: float = STRETCH
    coordinates: bool = True

    def estimate(self, density: BatchedDensity, tuned: Tuned, fixed: Fixed, key: Array) -> tuple[Array, Tuned, Array]:
        """R, its gradient, and the acceptance of every step, with forces frozen."""
        start_key, chain_key = jax.random.split(key)
        position = fixed.initial.sample(start_key, self.particles)
        middle = jnp.mean(fixed.initial.centres, axis=0)[None, :]
        begin = start(density, middle + self.stretch * (position - middle))
        ok = begin.usable()

        def step(ensemble: Ensemble, inputs: tuple[Array, Array, Array]) -> tuple[Ensemble, tuple[Array, ...]]:
            log_step, length, key = inputs
            steps = jnp.exp(log_step + tuned.log_stretch)
            move = propose(self.kernel, density, fixed.chart, steps, length, ensemble, key)
            p, here = move.probability[:, None], fixed.chart.pull(ensemble.gradient)
            gain = jnp.where(move.diverged | ~ok, 0, move.proposal.logdensity - ensemble.logdensity)
            own = p * (move.force * move.of_position + gain[:, None] * move.of_log_p)
            later = p * move.force + (1 - p) * here + move.uphill * p * gain[:, None] * (move.force - here)
            moved = jnp.where(move.accepted[:, None], move.of_position, 0)
            value = average(ensemble.logdensity + move.probability * gain, ok)
            after = select(move.accepted, move.proposal, ensemble)
            out = (jnp.sum(averaged(own, ok), axis=0), averaged(later, ok), moved, value, jnp.mean(move.probability))
            return after, out

        keys = jax.random.split(chain_key, tuned.log_step.shape[0])
        _, (own, later, moved, value, acceptance) = jax.lax.scan(step, begin, (tuned.log_step, fixed.leapfrogs, keys))
        following = jnp.flip(jnp.cumsum(jnp.flip(later, axis=0), axis=0), axis=0) - later
        each = own + jnp.einsum("tnd,tnd->td", moved, following)
        stretch = jnp.sum(each, axis=0) if self.coordinates else jnp.zeros_like(tuned.log_stretch)
        return jnp.sum(value), Tuned(jnp.sum(each, axis=1), stretch), acceptance


def propose(
    kernel: AffineHMC,
    density: BatchedDensity,
    chart: LinearChart,
    steps: Float[Array, "dim"],
    length: Int[Array, ""],
    ensemble: Ensemble,
    key: Array,
) -> Proposed:
    """One proposal with a step size per coordinate of z, jittered as the kernel's, and its frozen-force derivatives."""
    x = ensemble.position
    momentum, uniform = noise(key, x.shape[0], x.shape[1], 2, x.dtype)
    jitter = kernel.steps(jnp.ones((), x.dtype), uniform[:, :1])
    here = chart.pull(ensemble.gradient)

    def field(z: Array) -> tuple[InX, Array]:
        value, gradient = density(jax.lax.stop_gradient(x + chart.push(z)))
        return (value, gradient), jax.lax.stop_gradient(chart.pull(gradient))

    def go(log_scale: Array) -> tuple[Array, Array, InX, Array]:
        size = jitter * (jnp.exp(log_scale) * steps)[None, :]
        begin = Carried(jnp.zeros_like(x), (ensemble.logdensity, ensemble.gradient), here)
        there, end = integrate(field, begin, momentum, size, jnp.ones_like(size), length)
        return there.position, end, there.payload, there.force

    zero = jnp.zeros_like(steps)
    (z, end, carried, force), (of_z, of_end, _, _) = jax.jvp(go, (zero,), (jnp.ones_like(steps),))
    proposal = Ensemble(x + chart.push(z), *carried)
    probability, error = kernel.acceptance(ensemble, proposal, momentum, end)
    diverged = error > kernel.divergence_threshold
    uphill = (error > 0)[:, None] & ~diverged[:, None]
    of_log_p = jnp.where(uphill, force * of_z - end * of_end, 0)
    accepted = uniform[:, 1] < probability
    stays = diverged[:, None]
    return Proposed(
        proposal,
        jnp.where(stays, here, force),
        jnp.where(stays, 0, of_z),
        of_log_p,
        probability,
        uphill.astype(x.dtype),
        accepted,
        diverged,
    )


def ascend(
    objective: Refinement, density: Density, tuned: Tuned, fixed: Fixed, key: Array, iterations: int
) -> tuple[Tuned, dict[str, np.ndarray]]:
    """Adam, its rate going to zero; returns the average of the second half, and the record."""
    begin, state = tuned, Adam().init(tuned)
    rows, total, count = [], jax.tree_util.tree_map(jnp.zeros_like, tuned), 0
    for index in range(iterations):
        rate = jnp.asarray(_RATE * (1 - index / iterations), tuned.log_step.dtype)
        args = (begin, tuned, state, fixed, jax.random.fold_in(key, index), rate)
        tuned, state, row = compiled(_iterate, (objective, density), *args)(*args)
        rows.append(jax.device_get(row))
        if 2 * index >= iterations:
            total, count = jax.tree_util.tree_map(jnp.add, total, tuned), count + 1
    record = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
    return jax.tree_util.tree_map(lambda leaf: leaf / count, total), record


def _iterate(
    objective: Refinement,
    density: Density,
    begin: Tuned,
    tuned: Tuned,
    state: optax.OptState,
    fixed: Fixed,
    key: Array,
    rate: Array,
) -> tuple[Tuned, optax.OptState, dict[str, Array]]:
    value, gradient, acceptance = objective.estimate(density.batched, tuned, fixed, key)
    direction, state = Adam().step(gradient, state)
    reach = math.log(REACH)
    tuned = jax.tree_util.tree_map(
        lambda leaf, towards, first: jnp.clip(leaf + rate * towards, first - reach, first + reach),
        *(tuned, direction, begin),
    )
    return tuned, state, {"objective": value, "acceptance": acceptance, "step": jnp.exp(tuned.log_step)}


def stretched(chart: DenseChart, log_stretch: Float[Array, "dim"]) -> DenseChart:
    """A diag(e^s), with its inverse and log|det|."""
    by = jnp.exp(log_stretch)
    return DenseChart(chart.root * by[None, :], chart.inverse / by[:, None], chart.log_det + jnp.sum(log_stretch))
