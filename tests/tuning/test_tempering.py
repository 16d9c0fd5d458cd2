"""Schedules through temperatures: log Z within its error, and the weights of modes that no chain crosses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodic as eg
from ergodic.charts import DenseChart, LowRankChart
from ergodic.kernels.affine import AffineHMC
from ergodic.methods.schedule import params_of_tempered
from ergodic.sampler import Sampler
from ergodic.tuning.greedy_settings import GreedySettings
from ergodic.tuning.tempering import gaussian_around, through_temperatures

PARTICLES, DRAWS = 256, 4000
CENTRES = np.array([[-8.0, 0.0], [6.0, 6.0], [5.0, -9.0]], np.float32)
WEIGHTS = np.array([0.6, 0.3, 0.1])


def modes(x):
    """Three unit Gaussians of weights .6, .3, .1, normalised."""
    distance = jnp.sum((x[None, :] - jnp.asarray(CENTRES)) ** 2, axis=1)
    levels = jnp.log(jnp.asarray(WEIGHTS.astype(np.float32))) - 0.5 * distance
    return jax.nn.logsumexp(levels) - float(np.log(2 * np.pi))


def skewed(x):
    """A Gumbel, and a wide normal centred on it; Z = 5 √(2π)."""
    return -x[0] - jnp.exp(-x[0]) - 0.5 * ((x[1] - x[0]) / 5) ** 2


def annealed(target, around, key=0):
    """A schedule from one Gaussian around some positions, and draws along it."""
    initial, start_key = gaussian_around(around), jax.random.key(key)
    way = through_temperatures(target, AffineHMC(), GreedySettings(), initial, start_key, particles=PARTICLES)
    return way, Sampler(target, eg.GEI(), params_of_tempered(way)).sample(jax.random.key(key + 1), DRAWS, weighted=True)


@pytest.fixture(scope="module")
def three_modes():
    """As after a pilot that has got the weights wrong: a third of its particles in each."""
    rng = np.random.default_rng(0)
    around = CENTRES[rng.integers(3, size=300)] + rng.normal(size=(300, 2)).astype(np.float32)
    return annealed(eg.Target(modes, like=jnp.zeros(2)), around.astype(np.float32))


def test_a_way_is_whole(three_modes):
    way, draws = three_modes
    steps = len(way.beta)
    assert way.arrived and way.beta[-1] == 1
    assert np.all(np.diff(way.beta) >= 0) and way.beta[0] > 0
    assert steps == len(way.which) == len(way.chosen.step) == len(way.chosen.leapfrogs)
    assert way.which.max() + 1 == len(way.charts.root) and isinstance(way.charts, DenseChart)
    assert not way.chosen.dead.any() and np.all(way.chosen.leapfrogs >= 1)
    assert way.gradients == way.depth * PARTICLES
    assert draws.kind == "weighted" and 0.2 * DRAWS < draws.effective_size() <= DRAWS


def test_modes_have_their_weights(three_modes):
    """Delta-method z-scores of three weighted shares: |z| < 4.5, probability of failure 2e-5 (fixed seed)."""
    _, draws = three_modes
    nearest = np.argmin(((draws.unconstrained[:, None] - CENTRES[None]) ** 2).sum(axis=-1), axis=1)
    for mode, share in enumerate(WEIGHTS):
        inside = (nearest == mode).astype(float)
        error = np.sqrt(np.sum(draws.weights**2 * (inside - draws.weights @ inside) ** 2))
        assert abs(draws.weights @ inside - share) < 4.5 * error < 0.15


def test_within_a_mode_draws_are_the_targets(three_modes):
    """Weighted means of (x - c) and of its square within the largest mode: |z| < 4.5 for four, 3e-5."""
    _, draws = three_modes
    x = draws.unconstrained.astype(np.float64)
    inside = np.argmin(((x[:, None] - CENTRES[None]) ** 2).sum(axis=-1), axis=1) == 0
    w, away = draws.weights[inside] / draws.weights[inside].sum(), x[inside] - CENTRES[0]
    for values, truth in ((away, 0.0), (away**2, 1.0)):
        mean = w @ values
        error = np.sqrt(w**2 @ (values - mean) ** 2)
        assert np.abs((mean - truth) / error).max() < 4.5


def check_log_z(draws, truth):
    """|z| < 4.5: 7e-6 a target, with weights even enough for it to be near normal."""
    value, error = draws.log_z()
    assert error < 0.1
    assert abs(value - truth) < 4.5 * error


def test_log_z_of_the_modes(three_modes):
    check_log_z(three_modes[1], 0.0)


def test_log_z_of_a_skewed_target_from_a_wrong_place():
    around = np.random.default_rng(1).normal(size=(300, 2)).astype(np.float32) * 3 + 2
    _, draws = annealed(eg.Target(skewed, like=jnp.zeros(2)), around)
    check_log_z(draws, np.log(5 * np.sqrt(2 * np.pi)))


@pytest.mark.parametrize("name", ["laplace", "dual-moon"])
def test_log_z_of_built_in_targets(name):
    target = eg.targets.get(name)
    around = np.asarray(target.truth.draw(jax.random.key(0), 300), np.float32)
    check_log_z(annealed(target, around)[1], target.truth.log_z)


def test_log_z_where_metrics_are_low_rank():
    """More dimensions than a quarter of the particles: 70 of 256."""
    sd = np.geomspace(0.3, 3, 70).astype(np.float32)
    target = eg.Target(lambda x: -0.5 * jnp.sum((x / jnp.asarray(sd)) ** 2), like=jnp.zeros(70))
    around = (np.random.default_rng(2).normal(size=(PARTICLES, 70)) * sd).astype(np.float32)
    way, draws = annealed(target, around)
    assert isinstance(way.charts, LowRankChart) and isinstance(way.initial.chart, LowRankChart)
    check_log_z(draws, np.log(sd.astype(np.float64)).sum() + 35 * np.log(2 * np.pi))


def test_one_gaussian_around_an_ensemble_is_wider_than_it():
    x = np.random.default_rng(0).normal(size=(400, 3)) @ np.array([[1.0, 0.5, 0.0], [0.0, 0.5, 0.0], [0.0, 0.0, 3.0]])
    initial = gaussian_around(x.astype(np.float32))
    root = np.asarray(initial.chart.root, np.float64)
    np.testing.assert_allclose(initial.centres[0], x.mean(axis=0), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(root @ root.T, 1.25**2 * np.cov(x.T), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(initial.chart.log_det, np.linalg.slogdet(root)[1], rtol=1e-4)
