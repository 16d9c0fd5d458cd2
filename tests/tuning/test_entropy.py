import jax.numpy as jnp
import numpy as np
import pytest

import ergodic as eg
from ergodic.initial import DiagonalGaussian
from ergodic.tuning.entropy import MARGIN, automatic_floor, check_floor, constrain, resolve_floor, widen

WIDE = DiagonalGaussian(jnp.zeros(3), jnp.log(jnp.array([1.0, 2.0, 3.0])))
NARROW = DiagonalGaussian(jnp.ones(3), jnp.log(jnp.array([0.5, 2.0, 2.0])))


def test_floor_initial_is_the_entropy_p0_starts_with():
    assert resolve_floor("initial", WIDE) == pytest.approx(float(WIDE.entropy()))
    assert resolve_floor(None, WIDE) == -np.inf
    assert resolve_floor(1.5, WIDE) == 1.5


def test_a_floor_above_the_initial_entropy_is_an_error_that_says_so():
    with pytest.raises(eg.ConfigError, match="above the entropy that P0 starts with"):
        resolve_floor(float(WIDE.entropy()) + 0.1, WIDE)
    with pytest.raises(eg.ConfigError, match="entropy_floor"):
        resolve_floor("inital", WIDE)


def test_keep_leaves_all_of_p0_as_it_was_when_the_floor_would_break():
    kept = constrain("keep", WIDE, NARROW, WIDE.entropy())
    np.testing.assert_array_equal(kept.mean, WIDE.mean)
    np.testing.assert_array_equal(kept.log_scale, WIDE.log_scale)
    taken = constrain("keep", NARROW, WIDE, NARROW.entropy())
    np.testing.assert_array_equal(taken.mean, WIDE.mean)


def test_project_moves_the_mean_and_rescales_to_the_floor():
    floor = WIDE.entropy()
    projected = constrain("project", WIDE, NARROW, floor)
    np.testing.assert_array_equal(projected.mean, NARROW.mean)
    np.testing.assert_allclose(projected.entropy(), floor, rtol=1e-6)
    shift = np.asarray(projected.log_scale - NARROW.log_scale)
    np.testing.assert_allclose(shift, shift[0], rtol=1e-5)  # one common factor
    free = constrain("project", NARROW, WIDE, NARROW.entropy())
    np.testing.assert_array_equal(free.log_scale, WIDE.log_scale)


def test_words_for_the_floor():
    for floor in ("initial", "auto", None, 1.5):
        assert check_floor(floor, "entropy_floor") == floor
    with pytest.raises(eg.ConfigError, match='"initial", "auto" or None'):
        check_floor("automatic", "entropy_floor")


def test_an_automatic_floor_covers_the_target_within_a_margin():
    """Section 3.3's Gaussian: an isotropic P0 covers it from 1.22 nats above its entropy on (docs/equations.md)."""
    covariance = np.array([[2.0, 1.5], [1.5, 1.6]])
    eigenvalues = np.linalg.eigvalsh(covariance)
    entropy = np.log(2 * np.pi * np.e) + 0.5 * np.log(eigenvalues).sum()
    x = 7.0 + np.random.default_rng(0).normal(size=(20_000, 2)) @ np.linalg.cholesky(covariance).T
    even = np.full(len(x), 1 / len(x))
    start = DiagonalGaussian(jnp.zeros(2), jnp.zeros(2))
    covering = 0.5 * np.log(eigenvalues.max() / eigenvalues).sum()
    assert covering == pytest.approx(1.22, abs=0.01)
    assert automatic_floor(start, entropy, x, even) == pytest.approx(entropy + covering, abs=0.03)
    assert automatic_floor(start, entropy, x, even, margin=0.5) == pytest.approx(entropy + 0.5)
    assert automatic_floor(start, entropy - 2, x, even) == pytest.approx(entropy - 2 + MARGIN)
    assert automatic_floor(start, entropy + 2, x, even) == pytest.approx(entropy + 2)  # never below the estimate
    half = np.concatenate([x[:10_000], x[:10_000] + 100.0])  # draws without weight do not count
    weights = np.repeat([1e-4, 0.0], 10_000)
    assert automatic_floor(start, entropy, half, weights) == pytest.approx(entropy + covering, abs=0.04)


def test_widening_is_by_one_factor_and_never_narrows():
    wider = widen(NARROW, float(NARROW.entropy()) + 1.5)
    np.testing.assert_allclose(wider.log_scale - NARROW.log_scale, 0.5, rtol=1e-5)
    np.testing.assert_allclose(wider.entropy(), NARROW.entropy() + 1.5, rtol=1e-6)
    np.testing.assert_array_equal(widen(WIDE, float(WIDE.entropy()) - 1).log_scale, WIDE.log_scale)
