import jax.numpy as jnp
import numpy as np
import pytest

import ergodic as eg
from ergodic.initial import DiagonalGaussian
from ergodic.tuning.entropy import constrain, resolve_floor

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
