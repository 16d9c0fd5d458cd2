"""The chart of an ensemble: right for a Gaussian target long before the ensemble is."""

import numpy as np
import pytest

from ergodic.charts import DenseChart, LowRankChart
from ergodic.charts.fitting import chart_of


def covariance(dim, condition, rng):
    """Rotated, with standard deviations from 1 to √condition."""
    rotation = np.linalg.qr(rng.normal(size=(dim, dim)))[0]
    return rotation @ np.diag(np.geomspace(1, condition, dim)) @ rotation.T


def ensemble(sigma, n, rng, spread):
    """Positions N(m, S), with S what ``spread`` says of Σ, and their forces for the target N(0, Σ)."""
    dim = len(sigma)
    root = {
        "its own": np.linalg.cholesky(sigma),
        "narrow": 0.5 * np.eye(dim),
        "wide": 10 * np.eye(dim),
        "another": np.linalg.cholesky(covariance(dim, 50.0, rng)),
    }[spread]
    x = 3 + rng.normal(size=(n, dim)) @ root.T
    return x.astype(np.float32), np.linalg.solve(sigma, -x.T).T.astype(np.float32)


def matrix(chart):
    dim = chart[0].shape[-1]
    return np.asarray(chart.push(np.eye(dim, dtype=chart[0].dtype)), np.float64).T


@pytest.mark.parametrize("spread", ["its own", "narrow", "wide", "another"])
def test_it_is_the_targets_covariance_from_any_gaussian_ensemble(spread):
    """Not statistical: forces are linear in the positions, so it holds for their empirical covariances."""
    rng = np.random.default_rng(0)
    sigma = covariance(4, 1000.0, rng)
    chart = chart_of(*ensemble(sigma, 200, rng, spread))
    assert isinstance(chart, DenseChart)
    a = matrix(chart)
    values = np.linalg.eigvals(np.linalg.solve(sigma, a @ a.T)).real
    np.testing.assert_allclose(values, 1, atol=0.05)


def test_one_ensemble_stretches_a_direction_by_a_hundred_at_most():
    rng = np.random.default_rng(0)
    x = 1e-4 * rng.normal(size=(100, 2)).astype(np.float32)
    a = matrix(chart_of(x, -x))  # of the target N(0, I), from a point almost
    np.testing.assert_allclose(np.linalg.svd(a)[1], 100 * 1e-4, rtol=0.2)


def test_what_comes_with_the_matrix_is_its_inverse_and_volume():
    rng = np.random.default_rng(1)
    chart = chart_of(*ensemble(covariance(4, 100.0, rng), 100, rng, "another"))
    np.testing.assert_allclose(chart.root @ chart.inverse, np.eye(4), atol=1e-4)
    np.testing.assert_allclose(chart.log_det, np.linalg.slogdet(matrix(chart))[1], rtol=1e-4)
    assert all(leaf.dtype == np.float32 for leaf in chart)


def test_scales_far_apart_are_found_coordinate_by_coordinate():
    rng = np.random.default_rng(2)
    sigma = np.diag(np.geomspace(1e-6, 1e6, 5))
    a = matrix(chart_of(*ensemble(sigma, 200, rng, "its own")))
    np.testing.assert_allclose(np.diag(a @ a.T), np.diag(sigma), rtol=0.05)


def test_of_many_dimensions_it_is_low_rank_and_mends_what_is_worst():
    """Sixty dimensions of scales of their own, two directions that are long and one that is short."""
    rng = np.random.default_rng(3)
    dim = 60
    scale = np.geomspace(0.1, 10, dim)
    vectors = np.linalg.qr(rng.normal(size=(dim, 3)))[0]
    inner = np.eye(dim) + vectors @ np.diag([400.0, 100.0, -0.99]) @ vectors.T
    sigma = scale[:, None] * inner * scale[None, :]
    chart = chart_of(*ensemble(sigma, 128, rng, "its own"))
    assert isinstance(chart, LowRankChart)
    a = matrix(chart)
    before = np.linalg.cond(inner)
    after = np.linalg.cond(np.linalg.solve(a, np.linalg.solve(a, sigma).T))
    assert before > 10_000 and after < 50
    np.testing.assert_allclose(chart.vectors.T @ chart.vectors, np.eye(chart.vectors.shape[1]), atol=1e-4)
    np.testing.assert_allclose(chart.log_volume(), np.linalg.slogdet(a)[1], rtol=1e-4)


def test_directions_that_may_be_noise_are_left_alone():
    """Independent coordinates and few particles: the chart is their scales, nothing else."""
    rng = np.random.default_rng(4)
    sigma = np.diag(np.geomspace(0.01, 100, 60))
    chart = chart_of(*ensemble(sigma, 128, rng, "its own"))
    np.testing.assert_array_equal(chart.stretch, 1)
    np.testing.assert_allclose(chart.scale**2, np.diag(sigma), rtol=1e-3)


@pytest.mark.parametrize("shape", [(8, 1), (64, 2), (40, 30)])
def test_particles_all_in_one_place_give_a_finite_metric(shape):
    chart = chart_of(np.ones(shape, np.float32), np.ones(shape, np.float32))
    assert all(np.isfinite(leaf).all() for leaf in chart)
    assert np.isfinite(chart.whiten(np.ones(shape, np.float32))).all()


def test_forces_that_are_zero_or_huge_give_a_finite_metric():
    x = np.random.default_rng(0).normal(size=(64, 3)).astype(np.float32)
    for force in (0 * x, -1e15 * x):
        chart = chart_of(x, force)
        assert all(np.isfinite(leaf).all() for leaf in chart)
