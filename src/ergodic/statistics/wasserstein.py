"""Sliced Wasserstein distance: how far apart two samples lie, mode weights included.

    SW1(X, Y) = mean over unit directions u of W1(u·X, u·Y),    W1 of two samples of one size: mean |sorted difference|

E[log π*] is one number and blind to where the mass is; this stands beside it. Two exact samples are not at distance
zero: `noise_floor` measures what chance alone gives.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import numpy as np
from jaxtyping import Array

from ..runtime.errors import ConfigError


def sliced_wasserstein(x: np.ndarray, y: np.ndarray, directions: int = 50, seed: int = 0) -> float:
    """SW1 between two samples ``(n, dim)`` of the same size, over random directions that a seed fixes."""
    if x.shape != y.shape:
        raise ConfigError(f"the samples must have one shape, not {x.shape} and {y.shape}")
    rng = np.random.default_rng(seed)
    unit = rng.normal(size=(x.shape[1], directions)).astype(x.dtype)
    unit /= np.linalg.norm(unit, axis=0)
    return float(np.mean([np.mean(np.abs(np.sort(x @ u) - np.sort(y @ u)), dtype=np.float64) for u in unit.T]))


def noise_floor(draw: Callable[[Array, int], np.ndarray], key: Array, n: int, repeats: int = 3) -> float:
    """The median SW1 between two exact samples of size n, over a few repeats; ``draw(key, n)`` makes a sample."""
    keys = jax.random.split(key, (repeats, 2))
    return float(np.median([sliced_wasserstein(draw(a, n), draw(b, n)) for a, b in keys]))
