"""What lies beyond the draws? Importance weights along the coordinates of the chart, where no chain need have been.

A neck that no chain entered, or a tail, is missing from every average along chains. Where it could be is known: along
the coordinates u that were learned, and first of all along the drivers among them, since a driver is what narrows a
neck. So points are taken on lines through the draws (`lines.py`), t_1 .. t_K from a g that is wider than the target
and has heavy tails, with w_k = π_u(u_k) / g(t_k); t_0 is the draw's. Each costs one evaluation, and as a chart leaves
the others where π has them whatever t is, weights vary as those of one dimension, however many there are.

**The draw is one of its line's points, by their weights.** Where u is from π, the K + 1 points together say nothing of
which of them was the draw, but for

    P(the draw was point k) = p_k = w_k / Σ_l w_l

because π(u_0) g(t_1) ... g(t_K) is w_0 times what does not change when points change places. So for every limit c, of n
draws S = #(t_0 < c) is a sum of independent coins of known chances q_i = Σ_k p_ik 1(t_ik < c), and by Chernoff

    P(S <= s) <= min_θ exp(Σ_i log(1 - q_i + q_i e^θ) - θ s)

for every n, every target, and weights of any tails: Pareto's k need not be asked. Where a chart is wrong out there, or
no draw can move along its line, p_0 is near 1, the test sees nothing, and nothing wrongly. Draws that never go below
the 2 % quantile have S = 0 where Σ q_i is nearly n / 50.

Most points are along drivers and *suspects*: coordinates in which earlier draws look like two heaps, or along which
earlier points had weight where no draw is. One in four goes along all others in turn.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..certificate import Finding
from ..statistics.hypotheses import smallest
from .lines import MOST, Evaluated, Generator, Lines, Sets

_LEADING = 3
"""K along a driver or a suspect, which take turns from draw to draw; the rest of `MOST` is for the others."""
_BLOCK = 512
"""Draws after which suspects are looked for, at first."""
_SUSPECTS = 2
_HEAPS, _RATE = -0.6, 0.002
"""Excess kurtosis below which draws look like two heaps; weight per point where no draw is, by which others do."""
_FEW = 50
"""Points without weight that every coordinate is given, so that one lucky point makes no suspect."""
_TAIL = (0.0025, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.1, 0.3)
_LEVELS = np.array([*_TAIL, 0.5, *(1 - np.array(_TAIL[::-1]))])
"""Limits are such quantiles of all points together, by their weights."""
_TILTS = np.concatenate([-np.geomspace(0.02, 30, 24), np.geomspace(0.02, 30, 24)])
"""θ."""
_MOVING = 0.01
"""The share of draws that could as well be elsewhere on their lines, below which nothing is seen."""
NAME = "beyond the draws"
ADVICE = "the chain does not go there: a longer one, smaller steps, or a chart in which the neck is straight"


class Beyond:
    """The lines of draws, a stage at a time.

    Attributes:
      drivers: coordinates that drive others.
      lines: where points lie; None before the first stage.
      leading, others: points along drivers and suspects, and along all but drivers in turn.
      done: draws whose lines were looked at; ``gradients`` is what that cost.
    """

    def __init__(self, drivers: list[int], dim: int) -> None:
        self.drivers, self.rest = np.array(drivers, int), np.setdiff1d(np.arange(dim), drivers)
        self.lines: Lines | None = None
        self.leading = self.others = Sets.none()
        self.done = self.gradients = 0

    def begin(self, lines: Lines) -> None:
        """Take these lines, which some points told."""
        self.lines, self.gradients = lines, lines.told

    def add(self, u: np.ndarray, logdensity: np.ndarray, density: Evaluated, rng: Generator) -> int:
        """The lines of all draws that were not looked at yet; in evaluations."""
        assert self.lines is not None
        price, end = self.price(len(u)), self.done
        while self.done < len(u):
            end = min(len(u), max(2 * end, _BLOCK))
            rows = np.arange(self.done, end)
            lead = self.drivers if len(self.drivers) else self._suspects(u[: self.done])
            k = MOST - _LEADING if len(lead) and len(self.rest) else MOST
            if len(lead):
                along, points = lead[rows % len(lead)], MOST if not len(self.rest) else _LEADING
                self.leading = self.leading.joined(
                    self.lines.sets(u[rows], logdensity[rows], along, points, density, rng)
                )
            if len(self.rest):
                along = self.rest[rows % len(self.rest)]
                self.others = self.others.joined(self.lines.sets(u[rows], logdensity[rows], along, k, density, rng))
            self.done = end
        self.gradients += price
        return price

    def price(self, n: int) -> int:
        """Evaluations until n draws have been looked at."""
        return MOST * (n - self.done)

    def _suspects(self, u: np.ndarray) -> np.ndarray:
        """Coordinates other than drivers that are worth more points, as earlier draws and points have it."""
        assert self.lines is not None
        if not len(u):
            return np.zeros(0, int)
        z = (u.astype(np.float64) - self.lines.centre) / self.lines.spread
        away = z - z.mean(axis=0)
        excess = np.mean(away**4, axis=0) / np.maximum(np.mean(away**2, axis=0) ** 2, 1e-300) - 3
        sets = self.others.joined(self.leading)
        low, high = z.min(axis=0)[sets.along], z.max(axis=0)[sets.along]
        outside = np.sum(sets.chance * ((sets.z < low[:, None]) | (sets.z > high[:, None])), axis=1)
        count = np.bincount(sets.along, np.sum(sets.z[:, 1:] != 0, axis=1), z.shape[1])
        rate = np.bincount(sets.along, outside, z.shape[1]) / (_FEW + count)
        heavy, heaps = np.argsort(-rate)[:_SUSPECTS], np.argsort(excess)[:1]
        found = np.concatenate([heavy[rate[heavy] > _RATE], heaps[excess[heaps] < _HEAPS]])
        return np.unique(found)


class _Count(NamedTuple):
    """Draws below a limit, where they are the least likely."""

    p_value: float
    """Corrected for all limits and both sides."""
    limit: float
    found: int
    expected: float
    n: int


def counted(sets: Sets) -> _Count:
    """The limit at which the draws are the least likely, given the points."""
    order = np.argsort(sets.z, axis=None)
    points, below = sets.z.ravel()[order], np.cumsum(sets.chance.ravel()[order])
    limits = points[np.minimum(np.searchsorted(below, _LEVELS * below[-1]), len(points) - 1)]
    chance = np.clip([np.sum(sets.chance * (sets.z < limit), axis=1) for limit in limits], 0, 1)
    found = np.sum(sets.z[:, :1] < limits, axis=0)
    level = np.stack([np.log1p(chance * np.expm1(tilt)).sum(axis=1) - tilt * found for tilt in _TILTS])
    p_values = np.exp(np.minimum(level.min(axis=0), 0))
    worst = int(np.argmin(p_values))
    p_value = smallest(np.concatenate([p_values, np.ones(len(limits))]))
    return _Count(p_value, float(limits[worst]), int(found[worst]), float(chance[worst].sum()), len(sets.z))


def beyond(seen: Beyond, names: tuple[str, ...], threshold: float) -> list[Finding]:
    """Whether draws are where the weights of their lines say; drivers and suspects have half of the level."""
    assert seen.lines is not None
    groups = [sets for sets in (seen.leading, seen.others) if len(sets.along)]
    moving = float(np.mean(1 - groups[0].chance[:, 0]))
    tried: list[tuple[float, int, _Count]] = []
    for sets in groups:
        which = np.unique(sets.along).tolist()
        for j in which:
            one = counted(sets.of(j))
            tried.append((min(1.0, len(groups) * len(which) * one.p_value), j, one))
    p_value, j, worst = min(tried, key=lambda each: each[0])
    limit = float(seen.lines.centre[j] + worst.limit * seen.lines.spread[j])
    off, shares = worst.found - worst.expected, (worst.found / worst.n, worst.expected / worst.n)
    if p_value < threshold:
        words = f"{shares[0]:.2%} of {worst.n:,} draws have {names[j]} < {limit:.3g}, where {shares[1]:.2%} belong"
        return [Finding("stationarity", NAME, "failed", words, off, p_value, ADVICE)]
    if moving < _MOVING:
        words = f"draws cannot move along coordinates ({moving:.1%} of their weight): what lies beyond is not seen"
        return [Finding("stationarity", NAME, "noted", words, moving)]
    looked = np.unique(groups[0].along).tolist()
    few = ", ".join(names[j] for j in looked[:3]) + (", ..." if len(looked) > 3 else "")
    words = f"along {few} draws are where weights have them, and no mass is beyond ({moving:.0%} could be elsewhere)"
    return [Finding("stationarity", NAME, "passed", words, off, p_value)]
