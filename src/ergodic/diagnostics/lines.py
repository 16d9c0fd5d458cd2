"""Lines through draws, along coordinates of the chart, and points on them with their weights (`beyond.py`).

On the line of a draw u along coordinate t = u_j the others follow t by their regression on it,

    u_k = u + (t_k - t_0) b,    b = C e_j / C_jj,    t_1 .. t_K ~ g = m + 2 s T_3,    w_k = π_u(u_k) / g(t_k)

with correlations that may be noise left out. A shear has no volume. m, s and C are those of few points of P0 with
their forces, and know nothing of the draws. What bends beyond a line is the learned chart's business: to follow curves
fitted to P0's forces instead was no better on hierarchies of 50 and 100 dimensions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import special

from ..charts import LinearChart
from ..tuning.forgetting import Particles

MOST = 4
"""K, at most."""
_WIDE, _FREEDOM = 2.0, 3.0
_NOISE = 3.0
"""How many standard errors a correlation must have, for a coordinate to follow another."""
_BLOCK = 256

Evaluated = Callable[[np.ndarray], np.ndarray]
"""The density of some u."""
Generator = np.random.Generator


class Sets(NamedTuple):
    """Points on lines of draws, of which the first is the draw; such as are not there have no chance."""

    along: np.ndarray
    """Of which coordinate, ``(n,)``."""
    z: np.ndarray
    """t in units of its spread, ``(n, MOST + 1)``."""
    chance: np.ndarray
    """p, ``(n, MOST + 1)``."""

    @staticmethod
    def none() -> Sets:
        """No sets, as before the first stage."""
        return Sets(np.zeros(0, int), np.zeros((0, MOST + 1)), np.zeros((0, MOST + 1)))

    def of(self, coordinate: int) -> Sets:
        """Those sets that are along one coordinate."""
        return Sets(*(leaf[self.along == coordinate] for leaf in self))

    def joined(self, more: Sets) -> Sets:
        """These sets, and more of them behind."""
        return Sets(*(np.concatenate(both) for both in zip(self, more, strict=True)))


class Lines(NamedTuple):
    """Where points of every coordinate lie, and what tells how the others follow."""

    centre: np.ndarray
    spread: np.ndarray
    chart: LinearChart
    """A, with C = A A'."""
    variance: np.ndarray
    """C_jj."""
    told: int
    """Points that told it."""

    @staticmethod
    def of(points: Particles, chart: LinearChart) -> Lines:
        """Medians, and half distances of quantiles; a chart of the same points."""
        low, centre, high = np.quantile(points.position.astype(np.float64), (0.16, 0.5, 0.84), axis=0)
        blocks = np.array_split(np.arange(len(centre)), -(-len(centre) // _BLOCK))
        variance = np.concatenate([np.sum(chart.pull(_axes(some, len(centre))) ** 2, axis=1) for some in blocks])
        return Lines(centre, np.where(high > low, (high - low) / 2, 1.0), chart, variance, len(points.position))

    def units(self, u: np.ndarray, along: np.ndarray) -> np.ndarray:
        """t of every row in units of its spread."""
        return (u[np.arange(len(u)), along] - self.centre[along]) / self.spread[along]

    def follow(self, which: np.ndarray) -> np.ndarray:
        """b of some coordinates, in units of whose spreads they are, ``(coordinates, dim)``."""
        rows = np.arange(len(which))
        covariance = np.asarray(self.chart.push(self.chart.pull(_axes(which, len(self.centre)))), np.float64)
        own = np.maximum(covariance[rows, which], 1e-300)[:, None]
        correlation = covariance / np.sqrt(own * np.maximum(self.variance, 1e-300))
        slope = np.where(np.abs(correlation) > _NOISE / np.sqrt(self.told), covariance / own, 0.0)
        slope[rows, which] = 1.0
        return slope * self.spread[which, None]

    def sets(
        self, u: np.ndarray, logdensity: np.ndarray, along: np.ndarray, k: int, density: Evaluated, rng: Generator
    ) -> Sets:
        """k more points on the line of every draw along a coordinate of its own."""
        here, z = self.units(u, along), np.zeros((len(u), MOST + 1))
        z[:, 0], z[:, 1 : k + 1] = here, _WIDE * rng.standard_t(_FREEDOM, (len(u), k))
        which, place = np.unique(along, return_inverse=True)
        ways = self.follow(which)[place]
        level = np.full(z.shape, -np.inf)
        level[:, 0] = logdensity
        for each in range(1, k + 1):
            moved = u + (z[:, each] - here)[:, None] * ways
            with np.errstate(over="ignore", invalid="ignore"):
                level[:, each] = density(moved.astype(u.dtype))
        log_weight = np.where(np.isfinite(level), level, -np.inf)
        log_weight += 0.5 * (_FREEDOM + 1) * np.log1p((z / _WIDE) ** 2 / _FREEDOM)  # 1 / g
        return Sets(along, z, special.softmax(log_weight, axis=1))


def _axes(which: np.ndarray, dim: int) -> np.ndarray:
    return (which[:, None] == np.arange(dim)).astype(np.float64)
