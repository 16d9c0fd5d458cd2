"""Has an ensemble forgotten where it started, and does it stand still? What particles say, on the host.

Forgetting is seen in the correlation, over particles, between functions of x_0 and of x_t. Particles that cannot leave
the mode they started in never forget, however still all averages stand: that is how separate modes are found.

The particles of a family are looked at member by member; few of them see little by themselves, hence the family is also
looked at as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np

from ..charts import LinearChart
from ..kernels.ensemble import Ensemble
from .greedy_settings import GreedySettings


class Particles(NamedTuple):
    """An ensemble on the host: ``(particles, dim)`` positions, their log π* and its gradient."""

    position: np.ndarray
    logdensity: np.ndarray
    gradient: np.ndarray


def particles_of(ensemble: Ensemble | Particles, members: int = 1) -> list[Particles]:
    """Every member's particles, which are blocks of the ensemble's rows."""
    blocks = [np.asarray(leaf).reshape(members, -1, *leaf.shape[1:]) for leaf in ensemble]
    return [Particles(*(block[member] for block in blocks)) for member in range(members)]


def forgotten(
    origin: Sequence[Particles],
    before: Sequence[Particles],
    now: Sequence[Particles],
    charts: Sequence[LinearChart],
    settings: GreedySettings,
) -> tuple[np.ndarray, np.ndarray]:
    """Which members remember nothing of their start and stand still, and how much each remembers."""
    charts = jax.device_get(list(charts))
    memory = np.array([remembered(*trio) for trio in zip(origin, now, charts, strict=True)])
    passed = memory < _limits(origin, now, charts, settings)
    for member in np.flatnonzero(passed).tolist():
        passed[member] = still(before[member], now[member], charts[member], settings.unsettled)
    return passed, memory


def _limits(
    origin: Sequence[Particles], now: Sequence[Particles], charts: Sequence[LinearChart], settings: GreedySettings
) -> float:
    """The correlation that chance alone gives.

    For one target it is a multiple of 1/√N. In a family a member's limit is four standard deviations above the average
    of what particles "remember" of a shuffled start; and there is none, while the family as a whole remembers more than
    chance gives as many particles as it has, or 512.
    """
    if len(now) == 1:
        return float(settings.forgotten / np.sqrt(now[0].position.shape[0]))
    seen = min(settings.together, sum(len(each.position) for each in now))
    if _remembered_together(origin, now, charts, settings.stray) >= settings.forgotten / np.sqrt(seen):
        return -np.inf
    rng, trios = np.random.default_rng(0), list(zip(origin, now, charts, strict=True))
    each = range(-(-settings.shuffles // len(trios)))
    by_chance = [remembered(_shuffled(o, rng), n, chart) for o, n, chart in trios for _ in each]
    return float(np.mean(by_chance) + 4 * np.std(by_chance))


def still(before: Particles, after: Particles, chart: LinearChart, unsettled: float) -> bool:
    """Whether nothing speaks against the ensemble: averages stay, and E[z_i f_i] = -1 for every coordinate."""
    from ..statistics.hypotheses import average, smallest, two_averages  # SciPy takes a while to import

    old, new = (_functions(particles, before, chart) for particles in (before, after))
    if not np.isfinite(new).all():
        return False
    z, force = chart.whiten(after.position - after.position.mean(axis=0)), chart.pull(after.gradient)
    moved, stein = two_averages(old, new), average(z.astype(np.float64) * force + 1)
    return bool(smallest(np.concatenate([moved.p_value, stein.p_value])) > unsettled)


def remembered(origin: Particles, now: Particles, chart: LinearChart) -> float:
    """The largest rank correlation over particles between a function of x_0 and the same of x_t.

    Of ranks, so that one particle far out does not make all of it: that one is for the certificate to see.
    """
    return _largest_correlation(*(_functions(particles, now, chart) for particles in (origin, now)))


def _largest_correlation(then: np.ndarray, here: np.ndarray) -> float:
    """The largest rank correlation, over rows, of a column with the same column."""
    finite = np.isfinite(then).all(axis=1) & np.isfinite(here).all(axis=1)
    then, here = (np.argsort(np.argsort(v[finite], axis=0), axis=0) - 0.5 * (finite.sum() - 1) for v in (then, here))
    norm = np.sqrt((then**2).sum(axis=0) * (here**2).sum(axis=0))
    return float(np.max(np.abs((then * here).sum(axis=0)) / np.where(norm > 0, norm, 1)))


def _functions(particles: Particles, frame: Particles, chart: LinearChart) -> np.ndarray:
    """x, z, their squares about the frame's mean, and log π*, of every particle."""
    away = particles.position - frame.position.mean(axis=0)
    z = chart.whiten(away)
    with np.errstate(over="ignore"):  # particles of an improper density go far
        return np.concatenate((away, away**2, z, z**2, particles.logdensity[:, None]), axis=1, dtype=np.float64)


def _shuffled(particles: Particles, rng: np.random.Generator) -> Particles:
    order = rng.permutation(len(particles.position))
    return Particles(*(leaf[order] for leaf in particles))


def _remembered_together(
    origin: Sequence[Particles], now: Sequence[Particles], charts: Sequence[LinearChart], stray: float
) -> float:
    """What all members' particles remember, each in its member's chart and in units of its member's spreads."""

    def standard(values: np.ndarray, of: np.ndarray) -> np.ndarray:
        spread = of.std(axis=0)
        return np.clip((values - of.mean(axis=0)) / np.where(spread > 0, spread, 1), -stray, stray)

    def pooled(members: Sequence[Particles]) -> np.ndarray:
        rows = []
        for each, frame, chart in zip(members, now, charts, strict=True):
            z = standard(chart.whiten(each.position), chart.whiten(frame.position))
            level = standard(each.logdensity, frame.logdensity)
            rows.append(np.concatenate((z, level[:, None]), axis=1, dtype=np.float64))
        return np.concatenate(rows)

    then, here = pooled(origin), pooled(now)
    middle = here[:, :-1].mean(axis=0)
    then, here = (np.concatenate((v, (v[:, :-1] - middle) ** 2), axis=1) for v in (then, here))
    return _largest_correlation(then, here)
