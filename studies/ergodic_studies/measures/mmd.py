"""Maximum mean discrepancy (Gretton et al. 2012): whether two sets of draws have one law, in any dimension.

    MMD²(P, Q) = E k(x, x') + E k(y, y') - 2 E k(x, y),    k(a, b) = exp(-|a - b|²/(2 ℓ²))

estimated without bias by averages over pairs of different draws: about zero, of either sign, when the laws are equal.
ℓ is the median distance between draws, unless given. The p-value is by permutation: which draws are called x and which
y does not matter under equal laws. Kernel values are made a block of rows at a time: memory grows with n, not n².
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ergodic.runtime.errors import ConfigError

_BLOCK = 512
_MEDIAN_POINTS = 1000


class Discrepancy(NamedTuple):
    """What a permutation test found."""

    squared: float
    """The unbiased estimate of MMD²."""
    p_value: float
    """The p-value of the hypothesis that the two laws are equal."""
    bandwidth: float
    """The bandwidth ℓ of the kernel."""


def squared_mmd(
    x: np.ndarray,
    y: np.ndarray,
    *,
    bandwidth: float | None = None,
    x_weights: np.ndarray | None = None,
    y_weights: np.ndarray | None = None,
) -> float:
    """MMD² between two samples, each of which may have weights; weights need not sum to one."""
    x, y = _matching(x, y)
    ell = median_bandwidth(x, y) if bandwidth is None else bandwidth
    wx, wy = _normalised(x_weights, len(x)), _normalised(y_weights, len(y))
    return _within(x, wx, ell) + _within(y, wy, ell) - 2 * _between(x, wx, y, wy, ell)


def permutation_test(
    x: np.ndarray, y: np.ndarray, *, bandwidth: float | None = None, permutations: int = 199, seed: int = 0
) -> Discrepancy:
    """MMD² of unweighted draws; its p-value is the fraction of relabellings, this one among them, with as much or more.

    Draws are taken as independent: correlated ones seem to differ even when their laws are equal. Resample weighted
    draws first.
    """
    x, y = _matching(x, y)
    ell = median_bandwidth(x, y) if bandwidth is None else bandwidth
    n, m = len(x), len(y)
    pooled, rng = np.concatenate([x, y]), np.random.default_rng(seed)
    of_x = np.zeros((n + m, permutations + 1))
    of_x[:n, 0] = 1
    for column in range(1, permutations + 1):
        of_x[rng.permutation(n + m)[:n], column] = 1
    all_pairs, within_x, from_x = 0.0, np.zeros(permutations + 1), np.zeros(permutations + 1)
    for rows, kernel in _kernel_blocks(pooled, pooled, ell):
        to_x = kernel @ of_x
        within_x += np.sum(of_x[rows] * to_x, axis=0)
        from_x += to_x.sum(axis=0)
        all_pairs += kernel.sum()
    between = from_x - within_x
    within_y = all_pairs - within_x - 2 * between
    values = (within_x - n) / (n * (n - 1)) + (within_y - m) / (m * (m - 1)) - 2 * between / (n * m)
    tied = 1e-12 * abs(values[0])
    return Discrepancy(float(values[0]), float(np.mean(values >= values[0] - tied)), float(ell))


def median_bandwidth(x: np.ndarray, y: np.ndarray) -> float:
    """The median distance between draws of the pooled sample, over at most 1,000 of them, evenly taken."""
    pooled = np.concatenate([x, y])
    pooled = pooled[np.unique(np.linspace(0, len(pooled) - 1, _MEDIAN_POINTS).astype(int))]
    distances = np.sqrt(_squared_distances(pooled, pooled)[np.triu_indices(len(pooled), 1)])
    median = float(np.median(distances))
    if not median > 0:
        raise ConfigError("half of the draws or more coincide, so their median distance is no bandwidth; give one")
    return median


def _matching(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both samples in float64, moved to a common centre, which keeps the digits of distances."""
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    if x.ndim != 2 or y.ndim != 2 or x.shape[1] != y.shape[1]:
        raise ConfigError(f"draws must be (n, dim) with one dim for both samples, not {x.shape} and {y.shape}")
    if min(len(x), len(y)) < 2:
        raise ConfigError(f"MMD needs at least two draws of each, not {len(x)} and {len(y)}")
    if not (np.all(np.isfinite(x)) and np.all(np.isfinite(y))):
        raise ConfigError("some draws are not finite; leave them out first")
    centre = np.concatenate([x, y]).mean(axis=0)
    return x - centre, y - centre


def _normalised(weights: np.ndarray | None, n: int) -> np.ndarray:
    if weights is None:
        return np.full(n, 1 / n)
    weights = np.asarray(weights, np.float64)
    if weights.shape != (n,) or np.any(weights < 0) or not weights.sum() > 0:
        raise ConfigError(f"weights must be {n} numbers of at least 0, one per draw, and not all 0")
    return weights / weights.sum()


def _squared_distances(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    squares = np.sum(x**2, axis=1)[:, None] + np.sum(y**2, axis=1)[None, :] - 2 * x @ y.T
    return np.maximum(squares, 0)


def _kernel_blocks(x: np.ndarray, y: np.ndarray, bandwidth: float) -> Iterator[tuple[slice, np.ndarray]]:
    for at in range(0, len(x), _BLOCK):
        rows = slice(at, min(at + _BLOCK, len(x)))
        yield rows, np.exp(_squared_distances(x[rows], y) / (-2 * bandwidth**2))


def _between(x: np.ndarray, wx: np.ndarray, y: np.ndarray, wy: np.ndarray, bandwidth: float) -> float:
    return float(sum(wx[rows] @ (kernel @ wy) for rows, kernel in _kernel_blocks(x, y, bandwidth)))


def _within(x: np.ndarray, weights: np.ndarray, bandwidth: float) -> float:
    """Σ_{i≠j} w_i w_j k(x_i, x_j) / (1 - Σ w_i²)."""
    alone = float(np.sum(weights**2))
    return (_between(x, weights, x, weights, bandwidth) - alone) / (1 - alone)
