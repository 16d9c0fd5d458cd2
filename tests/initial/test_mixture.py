"""P0 as a mixture around an ensemble: its moments, its density against SciPy, its entropy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from ergodic.charts import DenseChart, DiagonalChart, LowRankChart
from ergodic.initial.mixture import KernelMixture
from statistics_ergodic import z_of_mean

DIM = 3


def ensemble(n=600, seed=0):
    """Skewed and correlated positions."""
    rng = np.random.default_rng(seed)
    x = rng.gumbel(size=(n, DIM))
    return x @ np.array([[1.0, 0.4, 0.0], [0.0, 0.7, -0.2], [0.1, 0.0, 2.0]]) + np.array([3.0, -1.0, 0.5])


def dense(covariance):
    root = np.linalg.cholesky(covariance)
    return DenseChart(*(jnp.asarray(part) for part in (root, np.linalg.inv(root), np.linalg.slogdet(root)[1])))


def matrix(chart):
    return np.asarray(chart.push(jnp.eye(DIM))).T


@pytest.mark.parametrize("count", [10, 600])
def test_it_has_the_ensembles_own_mean_and_covariance(x64, count):
    """Exactly, where AA' is the ensemble's covariance."""
    x = ensemble(count)
    covariance = np.cov(x.T, bias=True)
    mixture = KernelMixture.around(x, dense(covariance))
    centres, root = np.asarray(mixture.centres), matrix(mixture.chart)
    np.testing.assert_allclose(centres.mean(axis=0), x.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(np.cov(centres.T, bias=True) + root @ root.T, covariance, rtol=1e-10, atol=1e-12)


def test_few_dimensions_are_followed_closely_and_many_are_all_but_one_gaussian():
    def width(dim):
        x = np.random.default_rng(0).normal(size=(512, dim))
        return float(KernelMixture.around(x, DiagonalChart(np.ones(dim))).chart.scale[0])

    assert width(1) < 0.4 < width(50)
    assert 0.7 < width(300) <= 1


@pytest.mark.parametrize("where", ["device", "host"])
def test_draws_have_its_moments(where):
    """Means of x, x² and x1 x2 of 20,000 draws: |z| < 4.8 for seven of them, probability of failure 1.2e-5."""
    x = ensemble(600).astype(np.float32)
    covariance = np.cov(x.T, bias=True)
    chart = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), dense(covariance))
    mixture = KernelMixture.around(x, chart)
    if where == "device":
        draws = mixture.sample(jax.random.key(0), 20_000)
    else:
        draws = mixture.sample_on_host(np.random.default_rng(0), 20_000)
    assert draws.dtype == np.float32
    away = np.asarray(draws, np.float64) - x.mean(axis=0)
    rows = np.concatenate([away, away**2, away[:, :1] * away[:, 1:2]], axis=1)
    truth = np.concatenate([np.zeros(DIM), np.diag(covariance), covariance[:1, 1]])
    assert np.abs(z_of_mean(rows, truth)).max() < 4.8


@pytest.mark.parametrize("count", [1, 7, 300, 512])
def test_its_density_is_scipys(x64, count):
    """Whatever the number of centres, which are taken some at a time."""
    x = ensemble(count)
    mixture = KernelMixture(jnp.asarray(x), dense(np.array([[1.0, 0.3, 0.0], [0.3, 0.5, 0.1], [0.0, 0.1, 0.2]])))
    at = ensemble(20, seed=1) * 1.5
    each = [stats.multivariate_normal(c, matrix(mixture.chart) @ matrix(mixture.chart).T).logpdf(at) for c in x]
    expected = logsumexp(each, axis=0) - np.log(count)
    np.testing.assert_allclose(mixture.logdensity(jnp.asarray(at)), expected, rtol=1e-9)


def test_its_density_in_the_low_rank_form(x64):
    rng = np.random.default_rng(3)
    vectors = np.linalg.qr(rng.normal(size=(DIM, 1)))[0]
    chart = LowRankChart(*(jnp.asarray(part) for part in (np.array([0.5, 1.0, 2.0]), vectors, np.array([3.0]))))
    mixture = KernelMixture(jnp.asarray(ensemble(4)), chart)
    at, root = ensemble(10, seed=1), matrix(chart)
    each = [stats.multivariate_normal(c, root @ root.T).logpdf(at) for c in ensemble(4)]
    np.testing.assert_allclose(mixture.logdensity(jnp.asarray(at)), logsumexp(each, axis=0) - np.log(4), rtol=1e-9)


def test_it_integrates_to_one(x64):
    grid = np.linspace(-12, 12, 4001)
    mixture = KernelMixture(jnp.asarray([[-2.0], [0.5], [3.0]]), DiagonalChart(jnp.asarray([0.7])))
    p = np.exp(np.asarray(mixture.logdensity(jnp.asarray(grid[:, None]))))
    assert np.trapezoid(p, grid) == pytest.approx(1, abs=1e-10)


def test_far_away_the_density_is_small_and_finite():
    mixture = KernelMixture(jnp.zeros((8, DIM)), DiagonalChart(jnp.ones(DIM)))
    value, force = jax.value_and_grad(lambda x: mixture.logdensity(x)[0])(jnp.full((1, DIM), 1e4))
    assert np.isfinite(value) and np.isfinite(force).all()


def test_entropy_of_one_centre_is_that_of_a_gaussian(x64):
    covariance = np.cov(ensemble().T)
    mixture = KernelMixture(jnp.zeros((1, DIM)), dense(covariance))
    expected = stats.multivariate_normal(np.zeros(DIM), covariance).entropy()
    np.testing.assert_allclose(mixture.entropy(), expected, rtol=1e-12)


def test_entropy_of_many_is_an_average_over_draws(x64):
    """Against quadrature in one dimension, within 4.5 standard errors of its 1,024 draws: 7e-6."""
    mixture = KernelMixture(jnp.asarray([[-2.0], [0.5], [3.0]]), DiagonalChart(jnp.asarray([0.7])))
    grid = np.linspace(-12, 12, 4001)
    level = np.asarray(mixture.logdensity(jnp.asarray(grid[:, None])))
    entropy = -np.trapezoid(np.exp(level) * level, grid)
    sd = np.sqrt(np.trapezoid(np.exp(level) * level**2, grid) - entropy**2)
    assert abs(float(mixture.entropy()) - entropy) < 4.5 * sd / np.sqrt(1024)
