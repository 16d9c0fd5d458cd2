"""The two walks of greedy tuning, on the host between compiled steps.

1. `pilot`: from a simple start to the target. Scales of the start are raced for a few steps, the widest whose log π* is
   as good as the best goes on. Particles that are nowhere, or hopelessly far behind, are replaced by copies of others:
   the pilot need not be independent, it only has to know where the target is. It ends when nothing moves any more.
2. `retune`: fresh particles of a P0 fitted to the pilot. Nobody is replaced; every step that is made is kept. It ends
   when the particles have forgotten where they started, and nothing moves.

Forgetting is seen in the correlation, over particles, between functions of x_0 and of x_t. Particles that cannot leave
the mode they started in never forget, however still all averages stand: that is how separate modes are found.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, cast

import jax
import numpy as np
from jaxtyping import Array

from ..charts.fitting import metric_of
from ..kernels.affine import AffineHMC
from ..kernels.ensemble import Ensemble, start
from ..runtime.programs import compiled
from ..target import Density, Target
from .checks import insist, judged, require_usable
from .greedy import FINE, REPEAT, SEARCH, TRANSIENT, Chosen, Walk, advance, begin

CHUNK = 8
FIRST_STEP = 0.5
_UNSETTLED = 1e-3
FORGOTTEN = 3.8  # in units of 1/√N, what chance gives two hundred correlations
MIXED = 0.5
LEAST = 8
_DEEPEST = 2000
RACED = 8


class Walked(NamedTuple):
    """Where a walk ended."""

    walk: Walk
    metric: Any
    chosen: Chosen
    """Steps that moved the particles, stacked, on the host."""
    settled: bool
    memory: float
    """The largest correlation with the start; NaN for a pilot."""
    depth: int
    gradients: int


class _Walker:
    """A walk on one density: its programs, and what it has cost."""

    def __init__(self, density: Density, kernel: AffineHMC, ensemble: Ensemble, step: Any, key: Array):
        self.density, self.kernel, self.key, self.rng = density, kernel, key, generator(key)
        self.walk, self.metric = begin(ensemble, step), metric_for(ensemble)
        self.chosen: list[Chosen] = []
        self.made = 0

    def go(self, modes: list[int], *, measure: bool) -> None:
        """As many steps as there are modes; the metric is measured anew before each that is not a repetition."""
        static, new = (self.density, self.kernel), []
        for mode in modes:
            if measure and mode != REPEAT:
                self.metric = metric_for(self.walk.ensemble)
            args = (self.walk, self.metric, np.int32(mode), np.int32(self.made), self.key)
            self.walk, chosen = compiled(_step, static, *args, brief=True)(*args)
            new.append(chosen)
            self.made += 1
        self.chosen += jax.device_get(new)

    def depth(self) -> int:
        """Gradients one after the other so far, the start's included."""
        return 1 + sum(int(chosen.gradients) for chosen in self.chosen)

    def kept(self) -> Chosen:
        """The steps that are not dead."""
        alive = [chosen for chosen in self.chosen if not chosen.dead] or self.chosen[:0]
        if not alive:
            return Chosen(*(cast(Any, np.zeros(0)) for _ in Chosen._fields))
        return Chosen(*(cast(Any, np.stack(leaves)) for leaves in zip(*alive, strict=True)))

    def done(self, settled: bool, memory: float) -> Walked:
        particles = self.walk.ensemble.position.shape[0]
        return Walked(self.walk, self.metric, self.kept(), settled, memory, self.depth(), self.depth() * particles)


def pilot(target: Target, kernel: AffineHMC, starts: list[Any], key: Array, *, particles: int, most: int) -> Walked:
    """Find the target from the best of several starts, given from wide to narrow; each has ``sample(key, n)``.

    Depth is that of one way: the starts are raced side by side.
    """
    density, runners = target.density, []
    for index, initial in enumerate(starts):
        walk_key = jax.random.fold_in(key, index)
        rng = generator(walk_key)
        ensemble = started(density, initial, rng, particles)
        values, gradients = np.asarray(ensemble.logdensity), np.asarray(ensemble.gradient)
        if not np.isfinite(values).any():
            continue
        insist(target, judged(target, values, gradients))
        walker = _Walker(density, kernel, rescued(ensemble, np.inf, rng), FIRST_STEP, walk_key)
        walker.go([TRANSIENT] * RACED, measure=True)
        _rescue(walker)
        runners.append(walker)
    if not runners:
        require_usable(target, key, starts[-1])
    levels = np.array([_level(runner) for runner in runners])
    dim = runners[0].walk.ensemble.position.shape[1]
    close = levels >= levels.max() - 0.5 * dim
    best = runners[int(np.argmax(close))]
    deepest = max(runner.depth() for runner in runners)
    total = sum(runner.depth() for runner in runners) * particles
    raced, arrived, settled = best.depth(), False, False
    while best.made < most and not settled:
        before, level = best.walk.ensemble, _level(best)
        best.go(modes_of(CHUNK) if arrived else [TRANSIENT] * CHUNK, measure=True)
        _rescue(best)
        after = best.walk.ensemble
        arrived = arrived or _level(best) < level + dim
        settled = arrived and still(before, after, best.metric) and remembered(before, after, best.metric) < MIXED
    best.metric = metric_for(best.walk.ensemble)
    more = best.depth() - raced
    return best.done(settled, np.nan)._replace(depth=deepest + more, gradients=total + more * particles)


def retune(
    density: Density,
    kernel: AffineHMC,
    initial: Any,
    metric: Any,
    step: Any,
    key: Array,
    *,
    particles: int,
    most: int,
    least: int = 0,
) -> Walked:
    """Choose a schedule for fresh particles of P0, with one metric for all its steps.

    One of ``least`` steps is asked for where a shorter one was not enough; every other step is then a fine one.
    """
    walker = _Walker(density, kernel, started(density, initial, generator(key), particles), step, key)
    walker.metric = metric
    origin = walker.walk.ensemble
    first, settled = None, False
    while walker.made < most and walker.depth() < _DEEPEST:
        before = walker.walk.ensemble
        walker.go(modes_of(CHUNK // 2, fine=least > 0), measure=False)
        settled = forgotten(origin, before, walker.walk.ensemble, metric)
        if not settled:
            first = None
            continue
        first = first or walker.made
        if 2 * walker.made >= 3 * first and walker.made >= least:  # half as much again, and it still stands
            break
    return walker.done(settled, remembered(origin, walker.walk.ensemble, metric))


def prune(density: Density, kernel: AffineHMC, initial: Any, walked: Walked, key: Array) -> Walked:
    """Drop last steps that fresh particles do not need: they have forgotten, and nothing moves, after two thirds."""
    particles, chosen = walked.walk.ensemble.position.shape[0], walked.chosen
    walker = _Walker(density, kernel, started(density, initial, generator(key), particles), walked.walk.step, key)
    walker.metric = walked.metric
    origin, needed = walker.walk.ensemble, len(chosen.step)
    for at in range(0, len(chosen.step), CHUNK // 2):
        before = walker.walk.ensemble
        for index in range(at, min(at + CHUNK // 2, len(chosen.step))):
            again = walker.walk._replace(
                step=chosen.step[index], length=chosen.leapfrogs[index], idle=walked.walk.idle * 0
            )
            walker.walk = again
            walker.go([REPEAT], measure=False)
        if forgotten(origin, before, walker.walk.ensemble, walked.metric):
            needed = min(needed, at + CHUNK // 2)
        else:
            needed = len(chosen.step)
    needed = max(LEAST, math.ceil(1.5 * needed))
    kept = Chosen(*(leaf[:needed] for leaf in chosen))
    cost = walked.depth + walker.depth(), walked.gradients + walker.depth() * particles
    return walked._replace(chosen=kept, depth=cost[0], gradients=cost[1])


def forgotten(origin: Ensemble, before: Ensemble, now: Ensemble, metric: Any) -> bool:
    """Whether particles remember nothing of their start, and averages stand still."""
    limit = FORGOTTEN / np.sqrt(now.position.shape[0])
    return bool(remembered(origin, now, metric) < limit) and still(before, now, metric)


def started(density: Density, initial: Any, rng: np.random.Generator, particles: int) -> Ensemble:
    """Fresh particles of P0, drawn on the host: that needs no compiling."""
    position = initial.sample_on_host(rng, particles)
    return compiled(_start, (density,), position, brief=True)(position)


def generator(key: Array) -> np.random.Generator:
    """A generator on the host that follows from a JAX key."""
    return np.random.default_rng(np.asarray(jax.random.key_data(key)).tolist())


def metric_for(ensemble: Ensemble) -> Any:
    """The ensemble's metric."""
    return metric_of(np.asarray(ensemble.position), np.asarray(ensemble.gradient))


def rescued(ensemble: Ensemble, depth: float, rng: np.random.Generator) -> Ensemble:
    """Particles that are not finite, or further than ``depth`` below the median of log π*, become copies of others."""
    logdensity = np.asarray(ensemble.logdensity)
    finite = np.isfinite(logdensity) & np.isfinite(np.asarray(ensemble.gradient)).all(axis=1)
    if not finite.any():
        return ensemble
    good = finite & (logdensity >= np.median(logdensity[finite]) - depth)
    if good.all():
        return ensemble
    chosen = np.where(good, np.arange(len(good)), rng.choice(np.flatnonzero(good), len(good)))
    return Ensemble(*(cast(Any, np.asarray(leaf)[chosen]) for leaf in ensemble))


def behind(dim: int) -> float:
    """How far below the median of log π* a particle is hopeless."""
    return 6.0 * dim + 20


def still(before: Ensemble, after: Ensemble, metric: Any) -> bool:
    """Whether nothing speaks against the ensemble: averages stay, and E[z_i f_i] = -1 for every coordinate."""
    from ..statistics.hypotheses import average, smallest, two_averages  # SciPy takes a while to import

    old, new = (_functions(ensemble, before, metric) for ensemble in (before, after))
    if not np.isfinite(new).all():
        return False
    after, metric = jax.device_get((after, metric))
    z, force = metric.whiten(after.position - after.position.mean(axis=0)), metric.pull(after.gradient)
    moved, stein = two_averages(old, new), average(z.astype(np.float64) * force + 1)
    return bool(smallest(np.concatenate([moved.p_value, stein.p_value])) > _UNSETTLED)


def remembered(origin: Ensemble, now: Ensemble, metric: Any) -> float:
    """The largest rank correlation over particles between a function of x_0 and the same of x_t.

    Of ranks, so that one particle far out does not make all of it: that one is for the certificate to see.
    """
    then, here = (_functions(ensemble, now, metric) for ensemble in (origin, now))
    finite = np.isfinite(then).all(axis=1) & np.isfinite(here).all(axis=1)
    then, here = (np.argsort(np.argsort(v[finite], axis=0), axis=0) - 0.5 * (finite.sum() - 1) for v in (then, here))
    norm = np.sqrt((then**2).sum(axis=0) * (here**2).sum(axis=0))
    return float(np.max(np.abs((then * here).sum(axis=0)) / np.where(norm > 0, norm, 1)))


def _functions(ensemble: Ensemble, frame: Ensemble, metric: Any) -> np.ndarray:
    """x, z, their squares about the frame's mean, and log π*, of every particle."""
    ensemble, frame, metric = jax.device_get((ensemble, frame, metric))
    away = ensemble.position - frame.position.mean(axis=0)
    z = metric.whiten(away)
    columns = (away, away**2, z, z**2, ensemble.logdensity[:, None])
    return np.concatenate(columns, axis=1, dtype=np.float64)


def modes_of(count: int, fine: bool = False) -> list[int]:
    """Every fourth step searches for its length; every other one is fine, where that is asked for."""
    pattern = (SEARCH, FINE, REPEAT, FINE) if fine else (SEARCH, REPEAT, REPEAT, REPEAT)
    return [pattern[index % 4] for index in range(count)]


def _level(walker: _Walker) -> float:
    logdensity = np.asarray(walker.walk.ensemble.logdensity)
    return float(np.median(np.where(np.isfinite(logdensity), logdensity, -np.inf)))


def _rescue(walker: _Walker) -> None:
    ensemble = walker.walk.ensemble
    kept = rescued(ensemble, behind(ensemble.position.shape[1]), walker.rng)
    walker.walk = walker.walk._replace(ensemble=kept)


def _start(density: Density, position: Array) -> Ensemble:
    return start(density.batched, position)


def _step(
    density: Density, kernel: AffineHMC, walk: Walk, metric: Any, mode: Array, t: Array, key: Array
) -> tuple[Walk, Chosen]:
    return advance(kernel, density.batched, walk, metric, mode, t, jax.random.fold_in(key, t))
