"""A linear chart from an ensemble: AA' is the geometric mean of cov(x) and cov(∂log π*)⁻¹.

For a Gaussian target of covariance Σ and *any* Gaussian ensemble x ~ N(·, S), forces have covariance Σ⁻¹SΣ⁻¹, and the
geometric mean of S and ΣS⁻¹Σ is Σ itself: the chart is right long before the ensemble is.

- `dense`, dim ≤ particles/4. In coordinates where cov(x) = I (correlations shrunk by 1e-4) with root R, take the
  eigenvectors V and eigenvalues g of the forces' covariance: A = R V g^(-1/4).
- `low_rank` otherwise. The same coordinate by coordinate, and then within the span of the leading directions of both
  positions and forces (as nutpie has it); every other direction is left as it is.

All of it in NumPy and double precision: badly scaled targets need the digits, and nothing is compiled.

Eigenvalues g are clipped to κ^±4, so that one ensemble stretches or shrinks a direction of the last one by κ at most.
"""

from __future__ import annotations

import jax
import numpy as np
from jaxtyping import PyTree

from . import LinearChart
from .dense import DenseChart
from .low_rank import LowRankChart

REACH = 100.0


def chart_of(
    position: np.ndarray, gradient: np.ndarray, *, reach: float = REACH, rank: int = 16, noise: float = 2.0
) -> LinearChart:
    """The chart of an ensemble, in the form that its size affords, on the host.

    Args:
      position: the ensemble's positions, ``(particles, dim)``.
      gradient: ∂log π* there.
      reach: κ, how much one ensemble may stretch or shrink a direction of its covariance.
      rank: leading directions of positions, and of forces, that a low-rank chart looks at.
      noise: stretches nearer to 1 than this factor may be the noise of few particles, and are left out.
    """
    n, dim = position.shape
    x, force = position.astype(np.float64), gradient.astype(np.float64)
    chart = dense(x, force, reach) if 4 * dim <= n else low_rank(x, force, reach, rank, noise)
    return jax.tree_util.tree_map(lambda leaf: np.asarray(leaf, position.dtype), chart)


def identity(particles: int, dim: int, rank: int, dtype: np.dtype) -> LinearChart:
    """The chart x = z, in the form and with the shapes that `chart_of` gives as many particles."""
    if 4 * dim <= particles:
        eye = np.eye(dim, dtype=dtype)
        return DenseChart(*_on_host(eye, eye, np.zeros((), dtype)))
    count = min(dim, 2 * min(rank, dim, particles))
    return LowRankChart(*_on_host(np.ones(dim, dtype), np.eye(dim, count, dtype=dtype), np.ones(count, dtype)))


def dense(position: np.ndarray, gradient: np.ndarray, reach: float = REACH) -> DenseChart:
    """The chart from the full covariances."""
    n, dim = position.shape
    scaled, force, spread = _standardised(position, gradient)
    w, v = np.linalg.eigh((1 - 1e-4) * scaled.T @ scaled / n + 1e-4 * np.eye(dim))
    w = np.sqrt(np.maximum(w, 1e-6))
    root = v * w[None, :]  # diag(spread) root = R
    force = force @ root
    g, u = np.linalg.eigh(force.T @ force / n)
    g = _clipped(g, reach) ** 0.25
    matrix = spread[:, None] * (root @ u) / g[None, :]
    inverse = g[:, None] * (u.T @ (v / w[None, :]).T) / spread[None, :]
    log_det = np.sum(np.log(spread)) + np.sum(np.log(w)) - np.sum(np.log(g))
    return DenseChart(*_on_host(matrix, inverse, log_det))


def low_rank(
    position: np.ndarray, gradient: np.ndarray, reach: float = REACH, rank: int = 16, noise: float = 2.0
) -> LowRankChart:
    """The chart from the variances, and the covariances within the leading directions."""
    dim = position.shape[1]
    _, force, spread = _standardised(position, gradient)
    scale = spread * _clipped(np.mean(force**2, axis=0), reach) ** -0.25
    x = (position - np.mean(position, axis=0)[None, :]) / scale[None, :]
    f = (gradient - np.mean(gradient, axis=0)[None, :]) * scale[None, :]
    rank = min(rank, dim)
    both = np.concatenate([_leading(x, rank), _leading(f, rank)], axis=1)
    basis, _ = np.linalg.qr(both)  # (dim, 2 rank)
    inner = dense(x @ basis, f @ basis, reach)
    values, vectors = np.linalg.eigh(inner.root @ inner.root.T)  # AA' within the span, symmetric
    stretch = np.sqrt(np.maximum(values, 1e-6))
    worth = (stretch > noise) | (stretch < 1 / noise)  # nearer to 1 it may be the noise of few particles
    return LowRankChart(*_on_host(scale, basis @ vectors, np.where(worth, stretch, 1)))


def _on_host(*leaves: np.ndarray | np.floating) -> PyTree:
    """NumPy arrays where a chart has arrays: programs take either, and charts compute with either."""
    return leaves


def _standardised(position: np.ndarray, gradient: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Positions and forces, centred, in units of the positions' standard deviations; and those."""
    spread = np.std(position, axis=0)
    spread = np.where(spread > 0, spread, 1)
    scaled = (position - np.mean(position, axis=0)[None, :]) / spread[None, :]
    return scaled, (gradient - np.mean(gradient, axis=0)[None, :]) * spread[None, :], spread


def _leading(rows: np.ndarray, rank: int) -> np.ndarray:
    """The right singular vectors of the largest singular values, by the smaller of the two Gram matrices."""
    n, dim = rows.shape
    if n >= dim:
        return np.linalg.eigh(rows.T @ rows)[1][:, -rank:]
    values, vectors = np.linalg.eigh(rows @ rows.T)
    return rows.T @ (vectors[:, -rank:] / np.sqrt(np.maximum(values[-rank:], 1e-12))[None, :])


def _clipped(g: np.ndarray, reach: float) -> np.ndarray:
    return np.clip(g, reach**-4, reach**4)
