"""A greedy schedule from P0 to π by way of temperatures: for modes that no chain crosses.

An ensemble goes from β to the largest β' that keeps an effective size of 0.9, resamples, and makes one greedy step on
f_β' (`greedy.py`, `kernels/tempered.py`), chart and all. While β is small it is free to go from mode to mode; what
share of it each mode gets on the way is what its weight is worth.

The schedule that is kept has r temperatures for each that the ensemble took: fresh particles do not resample, and carry
log w = Σ (β_t - β_{t-1}) (log π*(x) - log p0(x)) instead, whose variance over a run is about the ensemble's Σ δ² Var
divided by r. Hence r.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..charts import DenseChart, LinearChart, LowRankChart
from ..initial.mixture import KernelMixture
from ..kernels.affine import AffineHMC
from ..kernels.tempered import log_ratio, temper, tempered, untemper
from ..protocols import Chart
from ..runtime.budget import Budget
from ..runtime.noise import generator
from ..runtime.programs import compiled
from ..runtime.progress import count_steps, phase
from ..target import Density, Target
from .annealing import largest_rise, systematic
from .forgetting import particles_of
from .greedy import REPEAT, SEARCH, Chosen, Walk, advance, begin
from .greedy_settings import GreedySettings
from .stepping import ANY, Way
from .walking import stacked


class Tempered(NamedTuple):
    """A way from P0 to π: every array has one row per transition."""

    initial: KernelMixture
    beta: np.ndarray
    chosen: Chosen
    which: np.ndarray
    """Which of the charts."""
    charts: LinearChart
    """Stacked along a leading axis."""
    arrived: bool
    """Whether β reached 1."""
    depth: int
    gradients: int


class _Row(NamedTuple):
    """What the ensemble did at one temperature."""

    beta: np.ndarray
    chart: LinearChart
    variance: np.ndarray
    """Of the log-weights on the way to it."""
    chosen: Chosen


def gaussian_around(position: np.ndarray, wider: float = GreedySettings.wider) -> KernelMixture:
    """One Gaussian with an ensemble's mean, and ``wider``² its covariance: its density is cheap, and it is wide."""
    x = position.astype(np.float64)
    mean, spread = x.mean(axis=0), wider * x.std(axis=0)
    dim, dtype = x.shape[1], position.dtype
    chart: LinearChart
    if 4 * dim <= len(x):
        root = wider * np.linalg.cholesky(np.atleast_2d(np.cov(x.T)) + 1e-6 * np.diag(x.var(axis=0)))
        inverse, log_det = np.linalg.inv(root), np.log(np.diag(root)).sum()
        chart = DenseChart(*(jnp.asarray(part, dtype) for part in (root, inverse, log_det)))
    else:
        chart = LowRankChart(*(jnp.asarray(part, dtype) for part in (spread, np.eye(dim, 1), np.ones(1))))
    return KernelMixture(jnp.asarray(mean[None, :], dtype), chart)


def through_temperatures(
    target: Target,
    kernel: AffineHMC,
    settings: GreedySettings,
    initial: KernelMixture,
    key: Array,
    *,
    particles: int,
    budget: Budget | None = None,
) -> Tempered:
    """Find temperatures and steps, from P0 on; no further than a budget goes, which may be short of β = 1."""
    budget = budget or Budget()
    way = Way.on(target, kernel, settings)
    walk = begin(way.started([initial], generator(key), particles), settings.first_step)
    beta = jnp.zeros((), walk.step.dtype)
    rows: list[_Row] = []
    left = settings.after
    phase("annealing", settings.temperatures, "temperatures")
    while left and len(rows) < settings.temperatures and not (rows and budget.over()):
        made = np.int32(len(rows))
        rising = (initial, beta, walk, made, key)
        walk, beta, variance = compiled(_rise, (), *rising, brief=True)(*rising)
        chart = way.chart(particles_of(walk.ensemble)[0])
        moving = (initial, beta, walk, chart, np.int32(SEARCH if made % 4 == 0 else REPEAT), made, key)
        walk, chosen = compiled(_move, (target.density, kernel, settings), *moving, brief=True)(*moving)
        rows.append(jax.device_get(_Row(beta, chart, variance, chosen)))
        count_steps(f"β {float(rows[-1].beta):.2g}", gradients=particles * int(rows[-1].chosen.gradients))
        left -= int(rows[-1].beta >= 1)
    alive = [row for row in rows if not row.chosen.dead]
    spread = float(sum(row.variance for row in rows)) / settings.variance
    # Of an improper density weights may be beyond all numbers: then no spreading out is too much.
    often = int(np.clip(math.ceil(spread), 1, settings.spread_out)) if math.isfinite(spread) else settings.spread_out
    depth = 1 + sum(int(row.chosen.gradients) for row in rows)
    found = np.array([row.beta for row in alive])
    found[-1:] = np.where(found[-1:] >= 1, 1.0, found[-1:])
    return Tempered(
        initial,
        _between(found, often),
        jax.tree_util.tree_map(lambda leaf: np.repeat(leaf, often, axis=0), stacked([row.chosen for row in alive])),
        np.repeat(np.arange(len(alive), dtype=np.int32), often),
        stacked([row.chart for row in alive]),
        bool(rows[-1].beta >= 1),
        depth,
        depth * particles,
    )


def _between(betas: np.ndarray, often: int) -> np.ndarray:
    """As many temperatures again between each two, evenly."""
    before = np.concatenate([[0.0], betas[:-1]])
    parts = np.arange(1, often + 1) / often
    return (before[:, None] + (betas - before)[:, None] * parts[None, :]).reshape(-1).astype(betas.dtype)


def _rise(
    initial: KernelMixture, beta: Float[Array, ""], walk: Walk, t: Array, key: Array
) -> tuple[Walk, Float[Array, ""], Float[Array, ""]]:
    """To the next temperature: choose it, resample. The walk as f_β sees it, β, and the variance of the log-weights."""
    ratio = log_ratio(initial, walk.ensemble)
    rise = largest_rise(ratio, 1 - beta)
    weight = jax.nn.softmax(rise * ratio)
    centred = jnp.where(weight > 0, ratio - jnp.sum(weight * jnp.where(weight > 0, ratio, 0)), 0)
    who = systematic(weight, jax.random.fold_in(key, 2 * t))
    ensemble = jax.tree_util.tree_map(lambda leaf: leaf[who], walk.ensemble)
    beta = jnp.where(rise >= 1 - beta, 1.0, beta + rise).astype(ratio.dtype)
    walk = walk._replace(ensemble=temper(initial, beta, ensemble))
    return walk, beta, jnp.sum(weight * (rise * centred) ** 2)


def _move(
    density: Density,
    kernel: AffineHMC,
    settings: GreedySettings,
    initial: KernelMixture,
    beta: Float[Array, ""],
    walk: Walk,
    chart: Chart,
    mode: Array,
    t: Array,
    key: Array,
) -> tuple[Walk, Chosen]:
    """One greedy step on f_β; the walk as π sees it again."""
    at_beta = tempered(density.batched, initial, beta)
    walk, chosen, _ = advance(
        kernel, settings, at_beta, walk, chart, mode, jnp.int32(ANY), t, jax.random.fold_in(key, 2 * t + 1)
    )
    return walk._replace(ensemble=untemper(initial, beta, walk.ensemble)), chosen
