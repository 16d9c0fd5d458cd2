import numpy as np
import pytest

import ergodic as eg
from ergodic_studies.measures.mmd import median_bandwidth, permutation_test, squared_mmd

MEAN = np.array([0.7, -0.3, 0.0])
COVARIANCE = np.array([[1.5, 0.5, 0.0], [0.5, 1.0, 0.2], [0.0, 0.2, 0.6]])


def closed_form(mean, covariance, bandwidth):
    """MMD² between N(0, I) and N(mean, covariance): each term is E k of a Gaussian difference."""

    def expected(shift, spread):
        inflated = np.eye(len(shift)) + spread / bandwidth**2
        exponent = shift @ np.linalg.solve(inflated, shift) / bandwidth**2
        return np.exp(-0.5 * exponent) / np.sqrt(np.linalg.det(inflated))

    identity, zero = np.eye(len(mean)), np.zeros(len(mean))
    same = expected(zero, 2 * identity) + expected(zero, 2 * covariance)
    return same - 2 * expected(mean, identity + covariance)


def two_samples(n, m, seed):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 3)), MEAN + rng.normal(size=(m, 3)) @ np.linalg.cholesky(COVARIANCE).T


def test_the_estimate_is_unbiased_for_gaussians():
    """100 pairs of small samples of unlike sizes: the mean within 4.5 standard errors, failure probability 7e-6."""
    values = [squared_mmd(*two_samples(60, 40, seed), bandwidth=1.3) for seed in range(100)]
    exact = closed_form(MEAN, COVARIANCE, 1.3)
    assert abs(np.mean(values) - exact) < 4.5 * np.std(values, ddof=1) / 10
    assert squared_mmd(*two_samples(4000, 3000, 0), bandwidth=1.3) == pytest.approx(exact, rel=0.1)


def test_under_equal_laws_it_is_zero_on_average():
    values = [squared_mmd(two_samples(50, 1, s)[0], two_samples(50, 1, s + 500)[0]) for s in range(100)]
    assert abs(np.mean(values)) < 4.5 * np.std(values, ddof=1) / 10
    assert min(values) < 0 < max(values)


def test_weights_stand_for_a_change_of_law():
    """Draws of N(0, I) weighted by a shifted Gaussian's density: MMD to the shifted one is then near zero."""
    rng, shift = np.random.default_rng(0), np.array([0.8, 0.0, 0.0])
    x, y = rng.normal(size=(4000, 3)), shift + rng.normal(size=(3000, 3))
    weights = 7.0 * np.exp(x @ shift)  # need not sum to one
    plain, weighted = squared_mmd(x, y, bandwidth=1.0), squared_mmd(x, y, bandwidth=1.0, x_weights=weights)
    assert abs(weighted) < 0.03 * plain
    ones = squared_mmd(x[:900], y[:700], x_weights=np.ones(900), y_weights=np.ones(700))
    assert ones == pytest.approx(squared_mmd(x[:900], y[:700]), rel=1e-9)


def test_p_values_are_uniform_under_equal_laws_and_small_otherwise():
    """100 tests of equal laws: at most 13 below 0.05, failure probability 5e-4 (fixed seeds)."""
    rng = np.random.default_rng(3)
    p = [permutation_test(*rng.normal(size=(2, 40, 2)), permutations=99, seed=s).p_value for s in range(100)]
    assert sum(value <= 0.05 for value in p) <= 13 and 0.35 < np.mean(p) < 0.65
    found = permutation_test(*two_samples(300, 200, 1))
    assert found.p_value == 1 / 200
    assert found.squared == pytest.approx(squared_mmd(*two_samples(300, 200, 1)), rel=1e-9)


def test_blocks_and_a_far_offset_change_nothing():
    x, y = two_samples(1100, 700, 2)  # three blocks of rows
    near, far = squared_mmd(x, y, bandwidth=1.0), squared_mmd(x + 1e5, y + 1e5, bandwidth=1.0)
    assert far == pytest.approx(near, rel=1e-4)
    assert squared_mmd(y, x, bandwidth=1.0) == pytest.approx(near, rel=1e-9)
    direct = np.exp(-0.5 * np.sum((x[:, None] - y[None]) ** 2, axis=-1)).mean()
    parts = [np.exp(-0.5 * np.sum((a[:, None] - a[None]) ** 2, axis=-1)) for a in (x, y)]
    parts = [(part.sum() - len(part)) / (len(part) * (len(part) - 1)) for part in parts]
    assert near == pytest.approx(sum(parts) - 2 * direct, rel=1e-9)
    assert median_bandwidth(x, y) == pytest.approx(np.sqrt(2 * 3 * 1.2), rel=0.2)


def test_what_cannot_be_compared_is_refused():
    x = np.zeros((5, 2))
    for arguments, message in (
        ((x, np.zeros((5, 3))), "one dim"),
        ((x, np.zeros((1, 2))), "at least two"),
        ((x, np.full((5, 2), np.nan)), "not finite"),
        ((x, x), "coincide"),
    ):
        with pytest.raises(eg.ConfigError, match=message):
            squared_mmd(*arguments)
    with pytest.raises(eg.ConfigError, match="weights"):
        squared_mmd(x, x + 1, x_weights=np.zeros(5), bandwidth=1.0)
