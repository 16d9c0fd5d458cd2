"""HMC in affine coordinates: exact where it must be exact, for every form of chart."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodic as eg
from ergodic.charts import DenseChart, DiagonalChart, LowRankChart
from ergodic.kernels import start
from ergodic.kernels.affine import AffineHMC, AffineParams, along, landed
from ergodic.kernels.leapfrog import integrate, leapfrog
from stationarity_ergodic import changes_by_noise, gumbel_target, stays_at
from statistics_ergodic import two_sample_p, z_of_mean

N = 50_000
KERNEL = AffineHMC()


def charts(dtype=jnp.float32):
    """One of each form, none of them symmetric about anything."""
    root = np.array([[1.2, 0.1], [-0.3, 0.8]])
    dense = (root, np.linalg.inv(root), np.linalg.slogdet(root)[1])
    low_rank = ([1.3, 0.7], np.array([[0.6], [0.8]]), [0.6])
    return {
        "diagonal": DiagonalChart(jnp.asarray([1.3, 0.7], dtype)),
        "low rank": LowRankChart(*(jnp.asarray(part, dtype) for part in low_rank)),
        "dense": DenseChart(*(jnp.asarray(part, dtype) for part in dense)),
    }


def params(chart, step=0.9, leapfrogs=3):
    return AffineParams(jnp.asarray(step, chart[0].dtype), jnp.int32(leapfrogs), chart)


def moved(density, params, ensemble, key=0):
    return jax.jit(KERNEL.transition, static_argnums=0)(density, params, ensemble, jax.random.key(key))


@pytest.fixture(scope="module", params=["diagonal", "low rank", "dense"])
def stationary(request):
    target, draw = gumbel_target()
    density = target.density.batched
    before = start(density, draw(jax.random.key(0), N))
    after, info = moved(density, params(charts()[request.param]), before, 1)
    return target, draw, before, after, info


def test_one_transition_leaves_an_asymmetric_target_unchanged(stationary):
    """Two-sample test against fresh exact draws; fails for a right kernel with probability 1e-4 (fixed seed)."""
    _, draw, _, after, info = stationary
    stays_at(after, info, draw(jax.random.key(2), N))


def test_the_change_of_moments_is_noise(stationary):
    """Paired differences of x and x² average to zero: |z| < 4.5 for four of them, probability of failure 3e-5."""
    _, _, before, after, _ = stationary
    changes_by_noise(before, after)


def test_the_stationarity_test_has_power():
    """It can fail: were every proposal accepted, exact draws would be moved away from the target."""
    target, draw = gumbel_target()
    chart, density = charts()["dense"], target.density.batched

    @jax.jit
    def unadjusted(x, r):
        before = start(density, x)
        field, here = along(density, chart, before)
        there, _ = integrate(field, here, r, jnp.full((N, 1), 0.9), jnp.ones((N, 1)), 3)
        return landed(chart, before, there).position

    x = np.asarray(unadjusted(draw(jax.random.key(0), N), jax.random.normal(jax.random.key(1), (N, 2))))
    assert two_sample_p(x[np.isfinite(x).all(axis=1)], draw(jax.random.key(2), N)) < 1e-6


def test_what_is_carried_belongs_to_the_position(stationary):
    target, _, before, after, info = stationary
    value, gradient = target.density.batched(after.position[:500])
    np.testing.assert_allclose(after.logdensity[:500], value, rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(after.gradient[:500], gradient, rtol=2e-4, atol=2e-4)
    stayed = ~np.asarray(info.accepted)
    assert stayed.any()
    np.testing.assert_array_equal(np.asarray(after.position)[stayed], np.asarray(before.position)[stayed])


def test_accepted_as_often_as_the_energy_says(stationary):
    """Binomial: the accepted count against the sum of probabilities, |z| < 4.5, probability of failure 7e-6."""
    *_, info = stationary
    p = np.minimum(1.0, np.exp(-np.asarray(info.energy_error, np.float64)))
    np.testing.assert_allclose(info.acceptance, p, rtol=1e-4, atol=1e-6)
    assert abs((np.sum(np.asarray(info.accepted)) - p.sum()) / np.sqrt(np.sum(p * (1 - p)))) < 4.5


def flow(chart, step, count):
    """(x, r) to (x', r') along one trajectory, one particle."""
    density = gumbel_target()[0].density.batched

    def run(state):
        x, r = state[None, :2], state[None, 2:]
        ensemble = start(density, x)
        field, here = along(density, chart, ensemble)
        there, end = integrate(field, here, r, jnp.full((1, 1), step), jnp.ones((1, 1)), count)
        return jnp.concatenate([landed(chart, ensemble, there).position[0], end[0]])

    return run


@pytest.mark.parametrize("form", ["diagonal", "low rank", "dense"])
def test_trajectories_are_reversible_and_keep_volume(x64, form):
    run = jax.jit(flow(charts(jnp.float64)[form], 0.2, jnp.int32(9)))
    jacobian = jax.jit(jax.jacfwd(flow(charts(jnp.float64)[form], 0.2, 9)))
    flip = jnp.asarray([1.0, 1.0, -1.0, -1.0])
    for state in np.random.default_rng(0).normal(size=(3, 4)):
        state = jnp.asarray(state)
        end = run(state)
        np.testing.assert_allclose(flip * run(flip * end), state, atol=1e-11)
        assert np.abs(end - state).max() > 0.1  # it did go somewhere
        np.testing.assert_allclose(np.linalg.det(np.asarray(jacobian(state))), 1.0, rtol=1e-9)


def test_it_is_plain_hmc_of_the_target_in_other_coordinates(x64):
    """With A a matrix, the trajectory is A times that of log π*(A z) with unit mass."""
    density = gumbel_target()[0].density.batched
    chart = charts(jnp.float64)["dense"]
    x, r = (jnp.asarray(part) for part in np.random.default_rng(1).normal(size=(2, 6, 2)))

    def in_z(z):
        value, gradient = density(z @ chart.root.T)
        return value, gradient @ chart.root

    @jax.jit
    def both(x, r, count):
        steps = jnp.full((6, 1), 0.3)
        expected = leapfrog(in_z, start(in_z, chart.whiten(x)), r, steps, jnp.ones((6, 1)), 5)
        ensemble = start(density, x)
        field, here = along(density, chart, ensemble)
        there, end = integrate(field, here, r, steps, jnp.ones((6, 1)), count)
        return expected, (landed(chart, ensemble, there), end)

    (expected, momentum), (got, end) = both(x, r, jnp.int32(5))
    np.testing.assert_allclose(got.position, expected.position @ chart.root.T, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(end, momentum, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(got.logdensity, expected.logdensity, rtol=1e-10)
    np.testing.assert_allclose(got.gradient, density(got.position)[1], rtol=1e-9)


def test_another_number_of_leapfrogs_is_the_same_program():
    """The density is traced no more for it, and every length goes as far as it says."""
    traces = []

    def logdensity(x):
        traces.append(1)
        return -1e-6 * jnp.sum(x**2)

    density = eg.Target(logdensity, like=jnp.zeros(2)).density.batched
    kernel, chart = AffineHMC(jitter=0.0), charts()["diagonal"]
    move = jax.jit(lambda p, ensemble, key: kernel.transition(density, p, ensemble, key)[0].position)
    begin = start(density, jnp.zeros((8, 2)))
    one = move(params(chart, 0.1, 1), begin, jax.random.key(0))
    before = len(traces)
    for count in (2, 7, 40):  # all but free: distance grows with the number
        far = move(params(chart, 0.1, count), begin, jax.random.key(0))
        np.testing.assert_allclose(far, count * one, rtol=1e-3)
    assert len(traces) == before


def test_steps_are_jittered_within_their_bounds():
    uniform = jax.random.uniform(jax.random.key(0), (5000, 1))
    steps = np.asarray(AffineHMC(jitter=0.5, careful=0.0).steps(jnp.float32(2.0), uniform))
    assert steps.shape == (5000, 1)
    assert 1.0 <= steps.min() < 1.02 and 2.98 < steps.max() <= 3.0
    assert abs(z_of_mean(steps[:, 0], 2.0)) < 4.5  # probability of failure 7e-6


def test_a_tenth_of_the_steps_are_small():
    uniform = jax.random.uniform(jax.random.key(0), (5000, 1))
    steps = np.asarray(AffineHMC(jitter=0.5).steps(jnp.float32(2.0), uniform))[:, 0]
    small = steps < 1.0
    assert 0.02 <= steps.min() < 0.03
    assert abs(np.mean(small) - 0.1 * (1 - np.log(2) / np.log(100))) < 0.02  # five standard deviations: 6e-7


def test_what_is_not_finite_is_never_accepted():
    """log x has no value left of zero: proposals there stay put, and are reported as divergences."""
    density = eg.Target(lambda x: jnp.sum(jnp.log(x) - x), like=jnp.ones(1)).density.batched
    begin = start(density, jnp.full((256, 1), 0.5))
    end, info = moved(density, params(DiagonalChart(jnp.ones(1)), 2.0, 2), begin)
    lost = np.asarray(info.diverged)
    assert lost.any()
    assert np.all(np.isfinite(end.position)) and np.all(np.isfinite(end.logdensity))
    np.testing.assert_array_equal(np.asarray(end.position)[lost], 0.5)
    assert np.all(np.asarray(info.acceptance)[lost] == 0)
    assert np.isposinf(np.asarray(info.energy_error)).any() and not np.isnan(np.asarray(info.energy_error)).any()


def test_from_outside_the_support_the_first_way_in_is_taken():
    density = eg.Target(lambda x: jnp.sum(jnp.log(x) - x), like=jnp.ones(1)).density.batched
    begin = start(density, jnp.full((256, 1), -0.2))
    end, _ = moved(density, params(DiagonalChart(jnp.ones(1)), 1.0, 1), begin)
    x, value = np.asarray(end.position)[:, 0], np.asarray(end.logdensity)
    assert (x > 0).any() and np.all(np.isfinite(value[x > 0]))
    assert np.all(x[x <= 0] == np.float32(-0.2))


def test_a_large_drop_in_energy_is_not_a_divergence():
    density = eg.Target(lambda x: -0.5 * jnp.sum(x**2), like=jnp.zeros(2)).density.batched
    begin = start(density, jnp.full((64, 2), 1e3))
    _, info = moved(density, params(DiagonalChart(jnp.ones(2)), 1.0, 1), begin)
    assert np.all(np.asarray(info.energy_error) < 0) and np.median(np.asarray(info.energy_error)) < -1e4
    assert not np.any(info.diverged) and np.all(info.accepted)
