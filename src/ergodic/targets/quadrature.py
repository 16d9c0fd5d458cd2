"""Truth by quadrature for two-dimensional targets: E[log π*], log Z and moments to about float32 rounding.

A composite Gauss-Legendre rule over a box that holds all but a negligible part of the mass. Panels are narrower than
any feature of the targets here, and a kink (Laplace) falls on a panel's edge, where the rule keeps its order.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..target import Truth

Box = tuple[tuple[float, float], tuple[float, float]]


def gauss_legendre(low: float, high: float, panels: int, order: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of the composite rule on [low, high]."""
    nodes, weights = np.polynomial.legendre.leggauss(order)
    edges = np.linspace(low, high, panels + 1)
    half = np.diff(edges) / 2
    x = (edges[:-1] + half)[:, None] + half[:, None] * nodes[None, :]
    return x.ravel(), (half[:, None] * weights[None, :]).ravel()


def truth_by_quadrature(
    logdensity: Callable[[Array], Array],
    box: Box,
    draw: Callable[[Array, int], np.ndarray] | None = None,
    panels: int = 100,
) -> Truth:
    """Integrate exp(log π*) over the box; sums are in float64 whatever the density's dtype."""
    (x, wx), (y, wy) = (gauss_legendre(*side, panels) for side in box)
    grid = np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1).reshape(-1, 2)
    dtype = jnp.result_type(float)
    values = np.asarray(jax.jit(jax.vmap(logdensity))(jnp.asarray(grid, dtype)), np.float64)
    top = values.max()
    mass = np.exp(values - top) * (wx[:, None] * wy[None, :]).ravel()
    total = mass.sum()
    probability = mass / total
    positive = probability > 0  # log π* may be -inf where there is no mass
    mean = probability @ grid
    return Truth(
        expected_logdensity=float(probability[positive] @ values[positive]),
        log_z=float(top + np.log(total)),
        mean=mean,
        covariance=(grid - mean).T @ (probability[:, None] * (grid - mean)),
        draw=draw,
    )
