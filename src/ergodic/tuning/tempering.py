"""A greedy schedule from P0 to π by way of temperatures: for modes that no chain crosses.

An ensemble goes from β to the largest β' that keeps an effective size of 0.9, resamples, and makes one greedy step on
f_β' (`greedy.py`, `kernels/tempered.py`), metric and all. While β is small it is free to go from mode to mode; what
share of it each mode gets on the way is what its weight is worth.

The schedule that is kept has r temperatures for each that the ensemble took: fresh particles do not resample, and carry
log w = Σ (β_t - β_{t-1}) (log π*(x) - log p0(x)) instead, whose variance over a run is about the ensemble's Σ δ² Var
divided by r. Hence r.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..charts.linear import Dense, LowRank, Metric
from ..initial.mixture import KernelMixture
from ..kernels.affine import AffineHMC
from ..kernels.tempered import log_ratio, temper, tempered, untemper
from ..runtime.programs import compiled
from ..target import Density
from .annealing import largest_rise, systematic
from .greedy import REPEAT, SEARCH, Chosen, Walk, advance, begin
from .walking import generator, metric_for, started

_WIDER = 1.25
_VARIANCE = 0.3
_AFTER = 4
_MOST = 200
_SPREAD_OUT = 24


class Tempered(NamedTuple):
    """A way from P0 to π: every array has one row a transition."""

    initial: KernelMixture
    beta: np.ndarray
    chosen: Chosen
    which: np.ndarray
    """Which of the metrics."""
    metrics: Any
    """Stacked along a leading axis."""
    arrived: bool
    """Whether β reached 1."""
    depth: int
    gradients: int


def gaussian_around(position: np.ndarray) -> KernelMixture:
    """One Gaussian with an ensemble's mean, and its covariance 1.25² times: its density is cheap, and it is wide."""
    x = position.astype(np.float64)
    mean, spread = x.mean(axis=0), _WIDER * x.std(axis=0)
    dim, dtype = x.shape[1], position.dtype
    metric: Metric
    if 4 * dim <= len(x):
        root = _WIDER * np.linalg.cholesky(np.atleast_2d(np.cov(x.T)) + 1e-6 * np.diag(x.var(axis=0)))
        inverse, log_det = np.linalg.inv(root), np.log(np.diag(root)).sum()
        metric = Dense(*(jnp.asarray(part, dtype) for part in (root, inverse, log_det)))
    else:
        metric = LowRank(*(jnp.asarray(part, dtype) for part in (spread, np.eye(dim, 1), np.ones(1))))
    return KernelMixture(jnp.asarray(mean[None, :], dtype), metric)


def anneal(density: Density, kernel: AffineHMC, initial: KernelMixture, key: Array, *, particles: int) -> Tempered:
    """Find temperatures and steps, from P0 on."""
    walk = begin(started(density, initial, generator(key), particles), 0.5)
    beta: Any = np.zeros((), walk.step.dtype)
    rows: list[tuple[Any, ...]] = []
    left = _AFTER
    while left and len(rows) < _MOST:
        made = np.int32(len(rows))
        args: Any = (initial, beta, walk, made, key)
        walk, beta, variance = compiled(_rise, (), *args, brief=True)(*args)
        metric = metric_for(walk.ensemble)
        args = (initial, beta, walk, metric, np.int32(SEARCH if made % 4 == 0 else REPEAT), made, key)
        walk, chosen = compiled(_move, (density, kernel), *args, brief=True)(*args)
        rows.append(jax.device_get((beta, metric, variance, chosen)))
        left -= int(rows[-1][0] >= 1)
    betas, metrics, variances, steps = zip(*rows, strict=True)
    alive = [index for index, chosen in enumerate(steps) if not chosen.dead]
    often = int(np.clip(math.ceil(sum(variances) / _VARIANCE), 1, _SPREAD_OUT))
    depth = 1 + sum(int(chosen.gradients) for chosen in steps)
    found = np.array([betas[index] for index in alive])
    found[-1:] = np.where(found[-1:] >= 1, 1.0, found[-1:])
    return Tempered(
        initial,
        _between(found, often),
        Chosen(*(_repeated(leaves, often) for leaves in zip(*(steps[i] for i in alive), strict=True))),
        np.repeat(np.arange(len(alive), dtype=np.int32), often),
        jax.tree_util.tree_map(lambda *leaves: np.stack(leaves), *(metrics[i] for i in alive)),
        bool(betas[-1] >= 1),
        depth,
        depth * particles,
    )


def _repeated(leaves: Any, often: int) -> Any:
    return np.repeat(np.stack(leaves), often, axis=0)


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
    walk = walk._replace(ensemble=temper(initial, beta, ensemble), idle=walk.idle[who])
    return walk, beta, jnp.sum(weight * (rise * centred) ** 2)


def _move(
    density: Density,
    kernel: AffineHMC,
    initial: KernelMixture,
    beta: Float[Array, ""],
    walk: Walk,
    metric: Any,
    mode: Array,
    t: Array,
    key: Array,
) -> tuple[Walk, Chosen]:
    """One greedy step on f_β; the walk as π sees it again."""
    at_beta = tempered(density.batched, initial, beta)
    walk, chosen = advance(kernel, at_beta, walk, metric, mode, t, jax.random.fold_in(key, 2 * t + 1))
    return walk._replace(ensemble=untemper(initial, beta, walk.ensemble)), chosen
