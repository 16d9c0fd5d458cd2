import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodic as eg
from data_ergodic import data_folder
from ergodic_studies.measures.bias import second_moments, squared_bias

N = 10_000


def test_exact_draws_have_a_bias_of_chance():
    """b2 of n exact draws is χ²_1/n a coordinate: the largest of 100 lies below 25/n but for a probability of 6e-5."""
    target = eg.targets.get("ill-conditioned-rotated")
    bias = squared_bias(target, target.draw_exact(jax.random.key(0), N))
    assert bias.noise == 0 and bias.mean < bias.largest < 25 / N and bias.converged()
    assert bias.mean == pytest.approx(1 / N, rel=0.5)


def test_a_known_error_has_a_known_bias():
    """Draws of N(0, s²) in place of N(0, 1): b2 = (s² - 1)²/2."""
    target = eg.Target(
        lambda x: -0.5 * jnp.sum(x**2),
        like=jnp.zeros(2),
        truth=eg.Truth(-1.0, 0.0, np.zeros(2), np.eye(2), square_variance=np.array([2.0, 2.0])),
    )
    x = np.random.default_rng(0).normal(size=(200_000, 2)) * [1.0, 1.5]
    bias = squared_bias(target, x)
    assert bias.largest == pytest.approx(1.25**2 / 2, rel=0.03) and bias.worst == "x[1]" and not bias.converged()
    x[0, 0] = np.nan
    assert squared_bias(target, x).largest == np.inf


def test_weights_are_used():
    """A proposal twice as wide, weighted by π/q."""
    target = eg.targets.get("gaussian")
    root = np.linalg.cholesky(target.require_truth().covariance)
    noise = 2 * np.random.default_rng(1).normal(size=(100_000, 2))
    weights = np.exp(-0.5 * np.sum(noise**2, axis=1) * (1 - 1 / 4))
    assert squared_bias(target, noise @ root.T).largest > 1
    assert squared_bias(target, noise @ root.T, weights).largest < 1e-3


def test_the_variance_of_squares_is_estimated_where_it_is_not_known():
    """Laplace with scale 1 at 5: x = 5 + e, E e² = 2, E e⁴ = 24, so Var[x²] = 4·25·2 + 24 - 4."""
    moments = second_moments(eg.targets.get("laplace"))
    np.testing.assert_allclose(moments.variance, 220.0, rtol=0.05)
    np.testing.assert_allclose(moments.expected, 27.0, atol=1e-4)


def test_references_are_read_in_their_published_columns(monkeypatch):
    monkeypatch.setenv("ERGODIC_DATA", data_folder())
    kidiq, german = eg.targets.get("kidiq"), eg.targets.get("german-credit")
    bias = squared_bias(kidiq, kidiq.reference.unconstrained)
    assert bias.largest < 25 / 2000 and 5e-5 < bias.noise < 3e-4  # 2,000 stored draws of about 10,000
    assert bias.worst in kidiq.reference.names
    moments = second_moments(german)
    mean, sd = german.reference.mean, german.reference.sd
    np.testing.assert_allclose(moments.variance, 2 * sd**4 + 4 * mean**2 * sd**2)
    x = mean + sd * np.random.default_rng(2).normal(size=(N, 25))
    assert squared_bias(german, x.astype(np.float32)).largest < 25 / N


def test_a_target_of_which_nothing_is_known_is_refused():
    target = eg.Target(lambda x: -0.5 * jnp.sum(x**2), like=jnp.zeros(2))
    with pytest.raises(eg.TargetError, match="truth or a reference"):
        second_moments(target)
