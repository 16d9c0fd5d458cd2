import jax
import numpy as np
import pytest

import ergodic as eg
from ergodic.statistics.wasserstein import noise_floor, sliced_wasserstein


def test_a_shift_has_the_distance_it_should():
    """W1 of a shift by v along u is |u·v|; over the circle that averages to 2|v|/π."""
    x = np.random.default_rng(0).normal(size=(2000, 2))
    assert sliced_wasserstein(x, x) == 0
    assert sliced_wasserstein(x, x + np.array([3.0, 4.0]), directions=2000) == pytest.approx(5 * 2 / np.pi, rel=0.03)
    assert sliced_wasserstein(x, x[::-1]) == pytest.approx(0, abs=1e-12)  # order does not matter


def test_misplaced_modes_are_seen_where_the_mean_log_density_is_blind():
    """All the mass in one mode of seven: E[log π*] is as in the target, the distance is large."""
    ring, n = eg.targets.get("ring"), 20_000
    one = jax.random.normal(jax.random.key(0), (n, 2)) + np.array([[5.0, 0.0]], np.float32)
    exact = ring.draw_exact(jax.random.key(1), n)
    values = [np.asarray(ring.density.batched(x)[0]).mean() for x in (one, exact)]
    assert abs(values[0] - values[1]) < 0.02
    assert sliced_wasserstein(np.asarray(one), exact) > 50 * noise_floor(ring.draw_exact, jax.random.key(2), n)


def test_samples_of_two_sizes_are_refused():
    with pytest.raises(eg.ConfigError, match="one shape"):
        sliced_wasserstein(np.zeros((3, 2)), np.zeros((4, 2)))
