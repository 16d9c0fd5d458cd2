"""Brownian motion with unknown scales, its middle unobserved: the Inference Gym's model and data, d = 32.

    a, b ~ N(0, 2),    x_1 ~ N(0, s),    x_t ~ N(x_{t-1}, s),    y_t ~ N(x_t, r) for t outside of 11..20 of 30

with s = e^a the innovations' scale and r = e^b the observations'; the position is (a, b, x). The ten steps of which
nothing was seen are strongly correlated, and small r is a funnel's neck. The observations are the Gym's (TensorFlow
Probability; Apache 2.0).

The truth is exact: given the scales the path is Gaussian, and the scales are two. With K_tu = min(t, u), K_oo its part
that was seen, K_oo = V diag(λ) V', B = K_:o V and c_j = s² λ_j + r²,

    log p(y | a, b) = -½ Σ (V'y)_j²/c_j - ½ Σ log c_j + const
    x | y, a, b  ~  N( s² B diag(1/c) V'y,  s² K - s⁴ B diag(1/c) B' )

are summed over a grid of (a, b). (The moments published with the Gym lie up to 18 of their standard errors from these:
0.05 in b2. They fit a N(0, 4) prior of the log scales, not the model's N(0, 2), so they are not used.)
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ergodic.target import Truth

STEPS = 30
SEEN = np.concatenate([np.arange(10), np.arange(20, 30)])
OBSERVED = np.array(
    [
        *(0.21592641, 0.118771404, -0.07945447, 0.037677474, -0.27885845),
        *(-0.1484156, -0.3250906, -0.22957903, -0.44110894, -0.09830782),
        *(-0.8786016, -0.83736074, -0.7384849, -0.8939254, -0.7774566),
        *(-0.70238715, -0.87771565, -0.51853573, -0.6948214, -0.6202789),
    ]
)
_STEP = 0.04
"""The spacing of the grid of a and b. Draws are uniform within a cell: that adds 1.3e-4 to the variances of a and b."""


def brownian(position: Float[Array, "32"]) -> Array:
    """log π* of (a, b, x_1, ..., x_30)."""
    a, b, path = position[0], position[1], position[2:]
    moves = jnp.diff(path, prepend=jnp.zeros(1, path.dtype)) * jnp.exp(-a)
    seen = jnp.concatenate([path[:10], path[20:]])
    misses = (seen - jnp.asarray(OBSERVED, path.dtype)) * jnp.exp(-b)
    paths = -0.5 * jnp.sum(moves**2) - STEPS * a - 0.5 * jnp.sum(misses**2) - len(SEEN) * b
    return paths - 0.125 * (a**2 + b**2)


class _Grid(NamedTuple):
    """The posterior of the scales, and the axes in which the path given them is simple."""

    scales: np.ndarray
    """(a, b) of every node, ``(m, 2)``."""
    probability: np.ndarray
    logdensity: np.ndarray
    """log π* with the path integrated out."""
    quadratic: np.ndarray
    """Σ (V'y)_j²/c_j."""
    eigenvalues: np.ndarray
    projection: np.ndarray
    """V, ``(20, 20)``."""
    reach: np.ndarray
    """B, ``(30, 20)``."""


@functools.cache
def _grid() -> _Grid:
    times = np.arange(1.0, STEPS + 1)
    kernel = np.minimum(times[:, None], times)
    eigenvalues, projection = np.linalg.eigh(kernel[np.ix_(SEEN, SEEN)])
    a, b = np.meshgrid(np.arange(-7, 3, _STEP), np.arange(-16, 3, _STEP), indexing="ij")
    scales = np.stack([a.ravel(), b.ravel()], axis=1)
    variances = _variances(scales, eigenvalues)
    quadratic = np.sum((OBSERVED @ projection) ** 2 / variances, axis=1)
    log_scales = np.sum(np.log(variances), axis=1)
    logdensity = 15 * math.log(2 * math.pi) - 0.5 * (quadratic + log_scales) - 0.125 * np.sum(scales**2, axis=1)
    weight = np.exp(logdensity - logdensity.max())
    reach = kernel[:, SEEN] @ projection
    return _Grid(scales, weight / weight.sum(), logdensity, quadratic, eigenvalues, projection, reach)


def _variances(scales: np.ndarray, eigenvalues: np.ndarray) -> np.ndarray:
    """The variances c_j at every node of the grid, ``(m, 20)``."""
    s2, r2 = np.exp(2 * scales[:, :1]), np.exp(2 * scales[:, 1:])
    return s2 * eigenvalues + r2


def truth() -> Truth:
    """Moments by summation over the grid; E[log π*] from the Gaussian path, whose 30 squares are worth ½ each."""
    grid = _grid()
    (a, b), p = grid.scales.T, grid.probability
    s2, c = np.exp(2 * a), _variances(grid.scales, grid.eigenvalues)
    pull = s2[:, None] * (OBSERVED @ grid.projection) / c
    times = np.arange(1.0, STEPS + 1)
    centre = pull @ grid.reach.T
    spread = s2[:, None] * times - (s2[:, None] ** 2 / c) @ (grid.reach.T**2)
    within = (p @ s2) * np.minimum(times[:, None], times) - (grid.reach * (p @ (s2[:, None] ** 2 / c))) @ grid.reach.T
    parts = np.concatenate([grid.scales, centre], axis=1)
    mean = p @ parts
    covariance = (parts - mean).T @ (p[:, None] * (parts - mean))
    covariance[2:, 2:] += within
    squares = covariance.diagonal() + mean**2
    fourth = np.concatenate([p @ grid.scales**4, p @ (3 * spread**2 + 6 * spread * centre**2 + centre**4)])
    top = grid.logdensity.max()
    return Truth(
        expected_logdensity=float(p @ (-0.125 * (a**2 + b**2) - 0.5 * (grid.quadratic + STEPS) - 30 * a - 20 * b)),
        log_z=float(top + np.log(np.sum(np.exp(grid.logdensity - top)) * _STEP**2)),
        mean=mean,
        covariance=covariance,
        square_variance=fourth - squares**2,
    )


def draw(key: Array, n: int) -> Float[Array, "n 32"]:
    """Scales from the grid; a path from the prior, moved by what it misses of the data (Matheron's rule)."""
    grid = _grid()
    rng = np.random.default_rng(np.asarray(jax.random.bits(key, (4,))))
    nodes = rng.choice(len(grid.probability), n, p=grid.probability)
    scales = grid.scales[nodes] + _STEP * (rng.uniform(size=(n, 2)) - 0.5)
    s, r = np.exp(scales).T[:, :, None]
    path = s * np.cumsum(rng.normal(size=(n, STEPS)), axis=1)
    misses = (OBSERVED - path[:, SEEN] - r * rng.normal(size=(n, len(SEEN)))) @ grid.projection
    path += (s**2 * misses / _variances(scales, grid.eigenvalues)) @ grid.reach.T
    return jnp.asarray(np.concatenate([scales, path], axis=1), float)
