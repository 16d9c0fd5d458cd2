"""One call's random numbers are what three calls' would be."""

import jax
import numpy as np
from scipy import stats

from ergodic.runtime.noise import noise

N, DIM, UNIFORMS = 20_000, 3, 2


def test_their_laws_are_normal_and_uniform_and_independent():
    """Kolmogorov-Smirnov on five columns and their ten correlations; probability of failure 15 x 1e-6 (fixed seed)."""
    normal, uniform = noise(jax.random.key(0), N, DIM, UNIFORMS, np.dtype("float32"))
    assert normal.shape == (N, DIM) and uniform.shape == (N, UNIFORMS)
    assert normal.dtype == uniform.dtype == np.float32
    for column in np.asarray(normal, np.float64).T:
        assert stats.kstest(column, "norm").pvalue > 1e-6
    for column in np.asarray(uniform, np.float64).T:
        assert stats.kstest(column, "uniform").pvalue > 1e-6
    columns = np.concatenate([normal, uniform], axis=1).astype(np.float64)
    r = np.corrcoef(columns.T)[np.triu_indices(DIM + UNIFORMS, 1)]
    assert np.abs(r).max() * np.sqrt(N) < stats.norm.isf(0.5e-6)


def test_they_stay_within_their_bounds():
    normal, uniform = noise(jax.random.key(1), 1_000_000, 1, 1, np.dtype("float32"))
    assert np.isfinite(normal).all()
    assert np.asarray(uniform).min() >= 0 and np.asarray(uniform).max() < 1
