"""Greedy tuning: every step's parameters chosen from the ensemble as it stands, which is then moved. No gradient.

Ours, not the paper's; it takes "stop the gradient at x_{t-1}" at its word. One ensemble of N particles goes through the
chain once. A step's chart A comes from the ensemble (`charts/fitting.py`), its step size ε follows the acceptance a
of the last, ε *= exp(a - 0.8), and its length L is (numbers are those of `greedy_settings.py`)

- `SEARCH`: found on the trajectory itself, l = 1, 2, ... while l < 2 L + 2, as what maximises

      exp(mean_i log E[p(l) (z_i'² - z_i²)²]) / l^¾        (ChEES, one coordinate at a time)

  with p(l) the Metropolis probability after l leapfrogs and z = A⁻¹(x - mean);
- `REPEAT`: that of the last search;
- `TRANSIENT`: a quarter of a period, (π/2)/ε, on the way from a far start;
- `FINE`: as far as that of the last search in four times as many steps, ε/4, for places too narrow for ε;
- `APPLY`: that of the walk, with the walk's ε, whatever happens: a transition of a schedule that is there already;
- `PAIRED`: the same, where the second half of the ensemble has the randomness of the first (`kernels/coupled.py`);
- `LAND`: the same, of exactly ε for every particle: the last transition of a schedule.

`START` moves nothing: it evaluates log π* and its force where the particles stand. So tuning, drawing and probing are
one program, compiled once, and a schedule of any length runs on it.

Where a < ¼ the step is dead: nothing moves, nothing is kept, ε is halved. What is stuck where the target is steep gets
away by the small steps that the kernel makes now and then (`kernels/affine.py`).
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from ..kernels.affine import AffineHMC, along, landed
from ..kernels.ensemble import BatchedDensity, Ensemble, Info, outside, select
from ..kernels.leapfrog import Carried
from ..protocols import Chart
from ..runtime.noise import noise
from .greedy_settings import GreedySettings

REPEAT, SEARCH, TRANSIENT, FINE, APPLY, START, PAIRED, LAND = 0, 1, 2, 3, 4, 5, 6, 7


class Walk(NamedTuple):
    """An ensemble on its way, and what the next step starts from."""

    ensemble: Ensemble
    step: Float[Array, ""]
    """ε."""
    length: Int[Array, ""]
    """L of the last search."""


class Chosen(NamedTuple):
    """One step; a schedule stacks those that are not dead."""

    step: Float[Array, "*steps"]
    leapfrogs: Int[Array, "*steps"]
    acceptance: Float[Array, "*steps"]
    dead: Bool[Array, "*steps"]
    gradients: Int[Array, "*steps"]
    """Of one particle, the search included."""


def begin(ensemble: Ensemble, step: float | Array) -> Walk:
    """A walk at its start."""
    return Walk(ensemble, jnp.asarray(step, ensemble.position.dtype), jnp.asarray(1, jnp.int32))


class _Search(NamedTuple):
    """The search along one trajectory: where it is, and the best length so far."""

    length: Int[Array, ""]
    z: Float[Array, "particles dim"]
    momentum: Float[Array, "particles dim"]
    best: Float[Array, ""]
    best_length: Int[Array, ""]
    proposal: Ensemble
    probability: Float[Array, "particles"]
    energy_error: Float[Array, "particles"]
    recent: Float[Array, "particles"]
    """The probability after the last leapfrog, the best or not."""


def advance(
    kernel: AffineHMC,
    settings: GreedySettings,
    density: BatchedDensity,
    walk: Walk,
    chart: Chart,
    mode: Int[Array, ""],
    most: Int[Array, ""],
    t: Int[Array, ""],
    key: Array,
) -> tuple[Walk, Chosen, Info]:
    """Choose step number t for the ensemble, of ``most`` leapfrogs at most, and move it."""
    ensemble, x = walk.ensemble, walk.ensemble.position
    momentum, uniform = noise(key, x.shape[0], x.shape[1], 2, x.dtype)
    momentum, uniform = (jnp.where(mode == PAIRED, _doubled(leaf), leaf) for leaf in (momentum, uniform))
    applied, starting = (mode == APPLY) | (mode == PAIRED) | (mode == LAND), mode == START
    fine = mode == FINE
    step = walk.step * jnp.where(fine, 1 / settings.finer, 1).astype(x.dtype)
    varied = jnp.where(mode == LAND, 0, 1).astype(x.dtype)
    steps = jnp.where(starting, 0, kernel.steps(step, uniform[:, :1], varied))
    field, here = along(density, chart, ensemble)
    origin = chart.whiten(x - jnp.mean(x, axis=0)[None, :])
    quarter = jnp.clip(jnp.round(0.5 * jnp.pi / step), 1, settings.quarter).astype(jnp.int32)
    wanted = jnp.where(mode == TRANSIENT, quarter, walk.length * jnp.where(fine, settings.finer, 1))
    wanted = jnp.where(starting, 1, jnp.where(applied, walk.length, jnp.minimum(wanted, settings.longest)))
    searching = mode == SEARCH

    def go_on(search: _Search) -> Bool[Array, ""]:
        until = jnp.where(searching, jnp.minimum(2 * search.best_length + 2, settings.longest), wanted)
        hopeless = (search.length > 0) & (jnp.mean(search.recent) < 0.5 * settings.dead) & ~applied
        return (search.length < jnp.minimum(until, most)) & ~hopeless

    def leap(search: _Search) -> _Search:
        length = search.length + 1
        z = search.z + steps * search.momentum
        payload, force = field(z)
        proposal = landed(chart, ensemble, Carried(z, payload, force))
        probability, error = kernel.acceptance(ensemble, proposal, momentum, search.momentum + 0.5 * steps * force)
        jump = jnp.where(probability[:, None] > 0, (origin + z) ** 2 - origin**2, 0) ** 2
        gain = jnp.mean(jnp.log(jnp.mean(probability[:, None] * jump, axis=0) + 1e-30))
        cost = settings.length_cost * jnp.log(length.astype(x.dtype))
        criterion = jnp.where(searching, gain - cost, length.astype(x.dtype))
        better = criterion > search.best
        old, new = (search.proposal, search.probability, search.energy_error), (proposal, probability, error)
        kept: PyTree = jax.tree_util.tree_map(lambda new, old: jnp.where(better, new, old), new, old)
        best, best_length = jnp.where(better, criterion, search.best), jnp.where(better, length, search.best_length)
        momentum_now = search.momentum + steps * force
        return _Search(length, z, momentum_now, best, best_length, kept[0], kept[1], kept[2], probability)

    nothing = jnp.zeros_like(ensemble.logdensity)
    zero = jnp.zeros((), jnp.int32)
    first = momentum + 0.5 * steps * here.force
    worst = jnp.full((), -jnp.inf, x.dtype)
    started = _Search(zero, jnp.zeros_like(x), first, worst, zero, ensemble, nothing, nothing, nothing)
    found = jax.lax.while_loop(go_on, leap, started)

    acceptance = jnp.mean(found.probability)
    dead = (acceptance < settings.dead) & ~fine & ~applied & ~starting
    accepted = starting | ((uniform[:, 1] < found.probability) & ~dead)
    growth = jnp.where(acceptance > settings.easy, 2, jnp.exp(acceptance - settings.acceptance))
    followed = walk.step * jnp.where(dead, 0.5, growth)
    walk = Walk(
        select(accepted, outside(found.proposal), ensemble),
        jnp.where(fine | applied | starting, walk.step, followed),
        jnp.where(searching & ~dead, found.best_length, walk.length),
    )
    diverged = found.energy_error > kernel.divergence_threshold
    info = Info(found.probability, accepted, found.energy_error, diverged)
    return walk, Chosen(step, found.best_length, acceptance, dead, found.length), info


def _doubled(noise: Float[Array, "particles columns"]) -> Float[Array, "particles columns"]:
    """The first half of the rows, twice; of an odd number, the last one stays."""
    half = noise.shape[0] // 2
    return jnp.concatenate([noise[:half], noise[:half], noise[2 * half :]])
