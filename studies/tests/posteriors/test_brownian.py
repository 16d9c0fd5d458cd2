"""Brownian motion with unknown scales: its exact truth against another sum, and its draws against its density."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import ergodic as eg
from ergodic_studies.posteriors import brownian
from statistics_ergodic import z_of_mean


def test_brownian_motion_by_another_sum(x64):
    """log Z, and the mean of the scales and of the path, from SciPy's Gaussian on a coarser grid."""
    truth = eg.targets.get("brownian").require_truth()
    times = np.arange(1.0, 31)
    kernel = np.minimum(times[:, None], times)
    seen = kernel[np.ix_(brownian.SEEN, brownian.SEEN)]
    total, scales, path = 0.0, np.zeros(2), np.zeros(30)
    for a in np.arange(-4.0, 0.0, 0.2):
        for b in np.arange(-10.0, 0.6, 0.2):
            covariance = np.exp(2 * a) * seen + np.exp(2 * b) * np.eye(20)
            weight = np.exp(stats.multivariate_normal.logpdf(brownian.OBSERVED, cov=covariance) - (a**2 + b**2) / 8)
            total += weight
            scales += weight * np.array([a, b])
            path += weight * np.exp(2 * a) * kernel[:, brownian.SEEN] @ np.linalg.solve(covariance, brownian.OBSERVED)
    assert truth.log_z == pytest.approx(np.log(total * 0.04) + 25 * np.log(2 * np.pi), abs=2e-3)
    np.testing.assert_allclose(truth.mean[:2], scales / total, atol=2e-3)
    np.testing.assert_allclose(truth.mean[2:], path / total, atol=1e-3)


def test_stein_identities_hold_on_brownian_draws(x64):
    """E[∂ log π] = 0 and E[(x - E x) ∂ log π] = -1 tie the exact draws to the density itself, |z| < 4.5."""
    target = eg.targets.get("brownian")
    x = target.draw_exact(jax.random.key(3), 50_000)
    force = np.asarray(jax.jit(target.density.batched)(jnp.asarray(x))[1])
    assert np.abs(z_of_mean(force, 0.0)).max() < 4.5
    assert np.abs(z_of_mean((x - target.require_truth().mean) * force, -1.0)).max() < 4.5
