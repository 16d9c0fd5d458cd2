import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import ergodic as eg
from ergodic.chain import advance
from ergodic.kernels import HMC, HMCParams, start
from stationarity_ergodic import changes_by_noise, gumbel_target, stays_at
from statistics_ergodic import two_sample_p

N = 100_000


PARAMS = HMCParams(jnp.log(jnp.array([0.45, 0.5])), jnp.log(jnp.array([0.4, 2.5])))


@pytest.fixture(scope="module")
def stationary():
    target, draw = gumbel_target()
    kernel = HMC(leapfrogs=3)
    before = start(target.density.batched, draw(jax.random.key(0), N))
    after, info = jax.jit(kernel.transition, static_argnums=0)(
        target.density.batched, PARAMS, before, jax.random.key(1)
    )
    return target, draw, before, after, info


def test_one_transition_leaves_an_asymmetric_target_unchanged(stationary):
    """Two-sample test against fresh exact draws; fails for a right kernel with probability 1e-4 (fixed seed)."""
    _, draw, _, after, info = stationary
    stays_at(after, info, draw(jax.random.key(2), N))


def test_the_change_of_moments_is_noise(stationary):
    """Paired differences of x and x² average to zero: |z| < 4.5 for four of them, probability of failure 3e-5."""
    _, _, before, after, _ = stationary
    changes_by_noise(before, after)


def test_the_stationarity_test_has_power(stationary):
    """It can fail: without the Metropolis step the same move is rejected by it."""
    target, draw, before, _, _ = stationary
    moved, _ = HMC(leapfrogs=3, adjusted=False).transition(target.density.batched, PARAMS, before, jax.random.key(1))
    assert two_sample_p(moved.position, draw(jax.random.key(2), N)) < 1e-6


def test_acceptance_is_min_1_exp_minus_energy_error(stationary):
    _, _, before, after, info = stationary
    expected = np.minimum(1.0, np.exp(-np.asarray(info.energy_error, np.float64)))
    np.testing.assert_allclose(info.acceptance, expected, rtol=1e-4, atol=1e-6)
    # Binomial: the accepted count against the sum of probabilities, |z| < 4.5, probability of failure 7e-6.
    p = expected
    z = (np.sum(np.asarray(info.accepted)) - p.sum()) / np.sqrt(np.sum(p * (1 - p)))
    assert abs(z) < 4.5
    stayed = ~np.asarray(info.accepted)
    np.testing.assert_array_equal(np.asarray(after.position)[stayed], np.asarray(before.position)[stayed])


def test_carried_density_and_force_are_those_of_the_position(stationary):
    target, _, _, after, _ = stationary
    value, gradient = target.density.batched(after.position[:500])
    np.testing.assert_allclose(after.logdensity[:500], value, rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(after.gradient[:500], gradient, rtol=2e-4, atol=2e-4)


def test_a_long_chain_reaches_the_target():
    """100 transitions from far away: KS test against exact draws; probability of failure 1e-4 (fixed seed)."""
    target, draw = gumbel_target()
    stacked = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf[None], (100, 2)), PARAMS)
    begin = start(target.density.batched, 3.0 + jax.random.normal(jax.random.key(3), (20_000, 2)))
    end, _, _ = advance(target.density.batched, HMC(leapfrogs=3), stacked, begin, jax.random.key(4))
    assert two_sample_p(end.position, draw(jax.random.key(5), 20_000)) > 1e-4


def test_momentum_has_the_variance_it_is_given():
    """With one tiny step x' - x = (eps/v) r, so r's variance shows; chi-square interval at 1e-5 a side."""
    n, variance = 50_000, np.array([0.3, 4.0])
    params = HMCParams(jnp.log(jnp.full(2, 1e-3)), jnp.log(jnp.asarray(variance, jnp.float32)))
    density = eg.Target(lambda x: -0.5 * jnp.sum(x**2), like=jnp.zeros(2)).density.batched
    begin = start(density, jnp.zeros((n, 2)))
    end, _ = HMC(leapfrogs=1).transition(density, params, begin, jax.random.key(0))
    momentum = np.asarray(end.position, np.float64) / 1e-3 * variance
    low, high = stats.chi2.ppf([1e-5, 1 - 1e-5], n) / n
    ratio = np.mean(momentum**2, axis=0) / variance
    assert np.all((low < ratio) & (ratio < high))


def test_a_large_drop_in_energy_is_not_a_divergence():
    density = eg.Target(lambda x: -0.5 * jnp.sum(x**2), like=jnp.zeros(2)).density.batched
    begin = start(density, jnp.full((64, 2), 1e3))
    params = HMCParams(jnp.zeros(2), jnp.zeros(2))
    _, info = HMC(leapfrogs=1).transition(density, params, begin, jax.random.key(0))
    assert np.all(np.asarray(info.energy_error) < -1e4)
    assert not np.any(info.diverged)
    assert np.all(info.accepted)


def test_diverged_and_non_finite_moves_stay_put():
    """log(x) has no value left of zero: proposals there are rejected and reported, adjusted or not."""
    density = eg.Target(lambda x: jnp.sum(jnp.log(x) - x), like=jnp.ones(1)).density.batched
    begin = start(density, jnp.full((256, 1), 0.5))
    params = HMCParams(jnp.log(jnp.full(1, 2.0)), jnp.zeros(1))
    for adjusted in (True, False):
        end, info = HMC(leapfrogs=2, adjusted=adjusted).transition(density, params, begin, jax.random.key(0))
        diverged = np.asarray(info.diverged)
        assert diverged.any()
        assert np.all(np.isfinite(end.position)) and np.all(np.isfinite(end.logdensity))
        np.testing.assert_array_equal(np.asarray(end.position)[diverged], 0.5)
        assert np.all(np.asarray(info.acceptance)[diverged] == 0)


def test_unadjusted_takes_every_move():
    target, draw = gumbel_target()
    begin = start(target.density.batched, draw(jax.random.key(0), 1000))
    end, info = HMC(leapfrogs=3, adjusted=False).transition(target.density.batched, PARAMS, begin, jax.random.key(1))
    moved = np.any(np.asarray(end.position) != np.asarray(begin.position), axis=1)
    np.testing.assert_array_equal(moved, ~np.asarray(info.diverged))
