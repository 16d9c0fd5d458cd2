"""Tests of hypotheses on averages of independent draws, each with a p-value that holds far into the tail.

Certificates look at hundreds of functions at once, so a p-value is wanted where it is 1e-5, not 0.05; the normal
approximation of a skewed average is not good enough there, and nobody knows the tails of a user's target. Hence

- `symmetric`: for values that are symmetric about 0 under the hypothesis, whatever their tails: exact for every n.
- `average`, `two_averages`: for values of a known mean, and for two means, with Hall's correction for skewness.
- `two_samples`: Kolmogorov-Smirnov, and `groups`: analysis of variance on ranks, both free of the distribution.

All of them work column by column on plain arrays with one row per draw.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import special

_PINELIS = 2 * np.e**3 / 9


class Tested(NamedTuple):
    """What a test found, with one value per column."""

    statistic: Float[np.ndarray, "columns"]
    p_value: Float[np.ndarray, "columns"]


def symmetric(values: Float[np.ndarray, "n columns"]) -> Tested:
    """Are independent values symmetric about 0?

    The self-normalised sum z = Σv / √Σv² of independent values that are symmetric about 0 has
    P(z >= t) <= 2e³/9 P(N(0,1) >= t) for every t and n (Pinelis 1994): flip every sign by a fair coin. The p-value is
    two-sided.
    """
    values = np.asarray(values, np.float64)
    norm = np.sqrt(np.sum(values**2, axis=0))
    statistic = np.sum(values, axis=0) / np.where(norm > 0, norm, 1)
    return Tested(statistic, np.minimum(1, 2 * _PINELIS * special.ndtr(-np.abs(statistic))))


def average(values: Float[np.ndarray, "n columns"], expected: float | Float[np.ndarray, "columns"] = 0.0) -> Tested:
    """Do independent values have the expected mean?"""
    mean, variance, third = _moments(np.asarray(values, np.float64))
    n = len(values)
    return _studentised(mean - expected, variance / n, third / n**2)


def two_averages(x: Float[np.ndarray, "n columns"], y: Float[np.ndarray, "m columns"]) -> Tested:
    """Do two samples have the same means? This is Welch's test, with Hall's correction."""
    (mean_x, variance_x, third_x), (mean_y, variance_y, third_y) = _moments(x), _moments(y)
    n, m = len(x), len(y)
    return _studentised(mean_y - mean_x, variance_x / n + variance_y / m, third_y / m**2 - third_x / n**2)


def _moments(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean and second and third central moments of every column."""
    mean = values.mean(axis=0)
    centred = values - mean
    squares = centred * centred
    return mean, squares.mean(axis=0), np.einsum("ij,ij->j", squares, centred) / len(values)


def _studentised(difference: np.ndarray, variance: np.ndarray, third: np.ndarray) -> Tested:
    """A difference of means over its error, made normal (Hall 1992).

    With a = κ₃/κ₂^{3/2} the skewness of the difference, t + a t²/3 + a² t³/27 + a/6 is much closer to N(0, 1) than t.
    It is monotone in t, so that nothing is lost.
    """
    error = np.sqrt(np.where(variance > 0, variance, 1))
    t, a = difference / error, third / error**3
    statistic = t + a * t**2 / 3 + a**2 * t**3 / 27 + a / 6
    statistic = np.where(variance > 0, statistic, np.where(difference == 0, 0.0, np.copysign(np.inf, difference)))
    return Tested(statistic, 2 * special.ndtr(-np.abs(statistic)))


def two_samples(ordered: Float[np.ndarray, "n columns"], y: Float[np.ndarray, "m columns"]) -> Tested:
    """Do two samples come from one distribution, column by column? This is the Kolmogorov-Smirnov test.

    The columns of the first sample must be sorted. The distance between the two distribution functions is largest next
    to a value of y.
    """
    n, m = len(ordered), len(y)
    y = np.sort(y, axis=0)
    steps = np.arange(m + 1) / m
    distance = np.empty(y.shape[1])
    for column in range(y.shape[1]):
        below = np.searchsorted(ordered[:, column], y[:, column], "left") / n
        upto = np.searchsorted(ordered[:, column], y[:, column], "right") / n
        distance[column] = max(np.max(below - steps[:-1]), np.max(steps[1:] - upto))
    return Tested(distance, special.kolmogorov(distance * np.sqrt(n * m / (n + m))))


def groups(values: Float[np.ndarray, "groups members columns"]) -> Tested:
    """Do groups share one distribution? This is a one-way analysis of variance on ranks."""
    count, members, columns = values.shape
    ranks = _ranks(values.reshape(-1, columns)).reshape(values.shape)
    means = ranks.mean(axis=1)
    between = members * np.var(means, axis=0, ddof=1)
    within = np.mean(np.var(ranks, axis=1, ddof=1), axis=0)
    statistic = between / np.where(within > 0, within, 1)
    degrees = count * (members - 1)
    return Tested(statistic, np.where(within > 0, special.fdtrc(count - 1, degrees, statistic), between <= 0))


def _ranks(values: np.ndarray) -> np.ndarray:
    """Every value's place in its column, from 1; equal ones share the middle of theirs."""
    ordered = np.sort(values, axis=0)
    found = np.empty(values.shape)
    for column in range(values.shape[1]):
        below, upto = (np.searchsorted(ordered[:, column], values[:, column], side) for side in ("left", "right"))
        found[:, column] = 0.5 * (below + upto + 1)
    return found


def smallest(p_values: np.ndarray) -> float:
    """The p-value of the most striking of several tests, corrected for having looked at all of them (Bonferroni)."""
    return float(min(1.0, len(p_values) * np.min(p_values)))
