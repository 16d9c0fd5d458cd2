"""Greedy tuning: every step's parameters chosen from the ensemble as it stands, which is then moved. No gradient.

Ours, not the paper's; it takes "stop the gradient at x_{t-1}" at its word. One ensemble of N particles goes through the
chain once. A step's metric A comes from the ensemble (`ensemble_metric.py`), its step size ε follows the acceptance a
of the last, ε *= exp(a - 0.8), and its length L is

- `SEARCH`: found on the trajectory itself, l = 1, 2, ... while l < 2 L + 2, as what maximises

      exp(mean_i log E[p(l) (z_i'² - z_i²)²]) / l^¾        (ChEES, a coordinate at a time)

  with p(l) the Metropolis probability after l leapfrogs and z = A⁻¹(x - mean);
- `REPEAT`: that of the last search;
- `TRANSIENT`: a quarter of a period, (π/2)/ε, on the way from a far start;
- `FINE`: as far as that of the last search in four times as many steps, ε/4, for places too narrow for ε.

Where a < ¼ the step is dead: nothing moves, nothing is kept, ε is halved. Where some particles have not moved for eight
steps, every other step is a small one, ε/5, then ε/25, ...: what is stuck where the target is steep gets away, and so
will fresh particles that meet the same schedule.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ..kernels.affine import AffineHMC, along, landed
from ..kernels.ensemble import BatchedDensity, Ensemble, select
from ..runtime.noise import noise

REPEAT, SEARCH, TRANSIENT, FINE = 0, 1, 2, 3
ACCEPTANCE = 0.8
LONGEST = 64
_DEAD = 0.25
_EASY = 0.95
_QUARTER = 16
_COST = 0.75
_IDLE = 8
_FEW = 0.003
_SMALLER = 0.2
_FINER = 4


class Walk(NamedTuple):
    """An ensemble on its way, and what the next step starts from."""

    ensemble: Ensemble
    step: Float[Array, ""]
    """ε."""
    length: Int[Array, ""]
    """L of the last search."""
    idle: Int[Array, "particles"]
    """Steps since a particle last moved."""
    care: Int[Array, ""]
    """How many small steps in a row have been needed."""


class Chosen(NamedTuple):
    """One step; a schedule stacks those that are not dead."""

    step: Float[Array, "*steps"]
    leapfrogs: Int[Array, "*steps"]
    acceptance: Float[Array, "*steps"]
    dead: Bool[Array, "*steps"]
    gradients: Int[Array, "*steps"]
    """Of one particle, the search included."""


def begin(ensemble: Ensemble, step: Any) -> Walk:
    """At the start of a walk."""
    zero: Any = np.zeros((), np.int32)
    idle: Any = np.zeros(ensemble.position.shape[0], np.int32)
    return Walk(ensemble, np.asarray(step, ensemble.position.dtype), zero + 1, idle, zero)  # type: ignore[arg-type]


class _Search(NamedTuple):
    length: Int[Array, ""]
    z: Float[Array, "particles dim"]
    momentum: Float[Array, "particles dim"]
    best: Float[Array, ""]
    best_length: Int[Array, ""]
    proposal: Ensemble
    probability: Float[Array, "particles"]
    recent: Float[Array, "particles"]


def advance(
    kernel: AffineHMC, density: BatchedDensity, walk: Walk, metric: Any, mode: Int[Array, ""], t: Any, key: Array
) -> tuple[Walk, Chosen]:
    """Choose step number t for the ensemble, and move it."""
    ensemble, x = walk.ensemble, walk.ensemble.position
    momentum, uniform = noise(key, x.shape[0], x.shape[1], 2, x.dtype)
    careful = (jnp.mean((walk.idle >= _IDLE).astype(x.dtype)) > _FEW) & (t % 2 == 1) & (mode != TRANSIENT)
    fine = (mode == FINE) & ~careful
    smaller = jnp.where(fine, 1 / _FINER, 1).astype(x.dtype)
    step = walk.step * jnp.where(careful, _SMALLER ** (1 + jnp.minimum(walk.care, 3)).astype(x.dtype), smaller)
    steps = kernel.steps(step, uniform[:, :1])
    field, here = along(density, metric, ensemble)
    origin = metric.whiten(x - jnp.mean(x, axis=0)[None, :])
    quarter = jnp.clip(jnp.round(0.5 * jnp.pi / step), 1, _QUARTER).astype(jnp.int32)
    wanted = jnp.where(mode == TRANSIENT, quarter, walk.length * jnp.where(fine, _FINER, 1))
    searching = (mode == SEARCH) & ~careful

    def go_on(search: _Search) -> Bool[Array, ""]:
        until = jnp.where(searching, 2 * search.best_length + 2, wanted)
        hopeless = (search.length > 0) & (jnp.mean(search.recent) < 0.5 * _DEAD)
        return (search.length < jnp.minimum(until, LONGEST)) & ~hopeless

    def leap(search: _Search) -> _Search:
        length = search.length + 1
        z = search.z + steps * search.momentum
        payload, force = field(z)
        proposal = landed(metric, ensemble, Ensemble(z, payload, force))
        probability, _ = kernel.acceptance(ensemble, proposal, momentum, search.momentum + 0.5 * steps * force)
        jump = jnp.where(probability[:, None] > 0, (origin + z) ** 2 - origin**2, 0) ** 2
        gain = jnp.mean(jnp.log(jnp.mean(probability[:, None] * jump, axis=0) + 1e-30))
        cost = _COST * jnp.log(length.astype(x.dtype))
        criterion = jnp.where(searching, gain - cost, length.astype(x.dtype))
        better = criterion > search.best
        recent, kept = probability, ((proposal, probability), (search.proposal, search.probability))
        proposal, probability = jax.tree_util.tree_map(lambda new, old: jnp.where(better, new, old), *kept)
        best = jnp.where(better, criterion, search.best), jnp.where(better, length, search.best_length)
        return _Search(length, z, search.momentum + steps * force, *best, proposal, probability, recent)

    nothing = jnp.zeros_like(ensemble.logdensity)
    zero = jnp.zeros((), jnp.int32)
    first = momentum + 0.5 * steps * here.gradient
    started = _Search(zero, jnp.zeros_like(x), first, jnp.full((), -jnp.inf, x.dtype), zero, ensemble, nothing, nothing)
    found = jax.lax.while_loop(go_on, leap, started)

    acceptance = jnp.mean(found.probability)
    dead = (acceptance < _DEAD) & ~careful & ~fine
    accepted = (uniform[:, 1] < found.probability) & ~dead
    growth = jnp.where(acceptance > _EASY, 2, jnp.exp(acceptance - ACCEPTANCE))
    followed = walk.step * jnp.where(dead, 0.5, growth)
    walk = Walk(
        select(accepted, found.proposal, ensemble),
        jnp.where(careful | fine, walk.step, followed),
        jnp.where(searching & ~dead, found.best_length, walk.length),
        jnp.where(accepted, 0, walk.idle + 1),
        jnp.where(careful, walk.care + 1, jnp.where(t % 2 == 1, 0, walk.care)),
    )
    return walk, Chosen(step, found.best_length, acceptance, dead, found.length)
