"""One greedy step: what it chooses, and that it moves the ensemble as the kernel does."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodic as eg
from ergodic.charts import DiagonalChart
from ergodic.kernels import start
from ergodic.kernels.affine import AffineHMC, AffineParams
from ergodic.tuning.greedy import FINE, REPEAT, SEARCH, TRANSIENT, advance, begin
from ergodic.tuning.greedy_settings import GreedySettings
from ergodic.tuning.stepping import ANY

DIM, N = 5, 400
KERNEL = AffineHMC()
UNIT = DiagonalChart(jnp.ones(DIM))


@pytest.fixture(scope="module")
def normal():
    return eg.Target(lambda x: -0.5 * jnp.sum(x**2), like=jnp.zeros(DIM)).density.batched


@functools.partial(jax.jit, static_argnums=0)
def stepped(density, walk, chart, mode, t, key):
    walk, chosen, _ = advance(
        KERNEL, GreedySettings(), density, walk, chart, mode, jnp.int32(ANY), t, jax.random.fold_in(key, t)
    )
    return walk, chosen


def go(density, walk, mode, t=0, chart=UNIT, key=0):
    walk, chosen = stepped(density, walk, chart, jnp.int32(mode), jnp.int32(t), jax.random.key(key))
    return walk, jax.device_get(chosen)


def at_target(density, step):
    return begin(start(density, jax.random.normal(jax.random.key(7), (N, DIM))), step)


@pytest.mark.parametrize("step", [0.1, 0.2, 0.4])
def test_the_length_that_is_found_is_about_a_quarter_of_a_period(normal, step):
    """4 sin²t / t^¾ is largest at t = 1.29; the search looks at twice the length, no further."""
    walk, chosen = go(normal, at_target(normal, step), SEARCH)
    assert 0.9 < step * chosen.leapfrogs < 1.7
    assert int(walk.length) == chosen.leapfrogs
    assert chosen.leapfrogs < chosen.gradients <= 2 * chosen.leapfrogs + 2
    assert float(chosen.step) == pytest.approx(step)


def test_a_transient_step_goes_a_quarter_of_a_period_and_a_repetition_as_far_as_the_last(normal):
    walk = at_target(normal, 0.2)
    _, chosen = go(normal, walk, TRANSIENT)
    assert chosen.leapfrogs == chosen.gradients == 8
    _, chosen = go(normal, walk._replace(length=jnp.int32(3)), REPEAT)
    assert chosen.leapfrogs == chosen.gradients == 3


def test_a_fine_step_goes_as_far_in_four_times_as_many(normal):
    walk = at_target(normal, 0.4)._replace(length=jnp.int32(3))
    after, chosen = go(normal, walk, FINE)
    assert chosen.leapfrogs == chosen.gradients == 12 and float(chosen.step) == pytest.approx(0.1)
    assert chosen.acceptance > 0.95 and not chosen.dead
    assert float(after.step) == pytest.approx(0.4) and int(after.length) == 3


def test_the_ensemble_is_moved_as_the_kernel_moves_it(normal):
    """For the same key a repetition is the kernel's own transition, whatever was looked at on the way."""
    walk = at_target(normal, 0.7)._replace(length=jnp.int32(4))
    key = jax.random.key(3)
    moved, chosen = stepped(normal, walk, UNIT, jnp.int32(REPEAT), jnp.int32(0), key)
    params = AffineParams(jnp.float32(0.7), jnp.int32(4), UNIT)
    after, info = KERNEL.transition(normal, params, walk.ensemble, jax.random.fold_in(key, 0))
    assert 0 < np.mean(info.accepted) < 1
    np.testing.assert_allclose(moved.ensemble.position, after.position, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(chosen.acceptance, np.mean(info.acceptance), rtol=1e-4)


def test_a_dead_step_moves_nothing_and_halves_the_step_size(normal):
    walk = at_target(normal, 40.0)
    for mode in (SEARCH, REPEAT, TRANSIENT):
        after, chosen = go(normal, walk, mode)
        assert chosen.dead and chosen.acceptance < 0.25
        np.testing.assert_array_equal(after.ensemble.position, walk.ensemble.position)
        assert float(after.step) == 20.0
        assert chosen.gradients <= 2  # it is given up at once


def test_an_easy_step_doubles_the_step_size(normal):
    after, chosen = go(normal, at_target(normal, 0.01), REPEAT)
    assert chosen.acceptance > 0.95 and not chosen.dead
    assert float(after.step) == pytest.approx(0.02)


@pytest.mark.parametrize("first", [1e-3, 30.0])
def test_acceptance_settles_where_it_should(normal, first):
    """From steps far too small or too large: averages of the last twenty of forty within 0.08 of 0.8."""
    walk, found = at_target(normal, first), []
    for t in range(40):
        walk, chosen = go(normal, walk, SEARCH if t % 4 == 0 else REPEAT, t)
        found.append(float(chosen.acceptance))
    assert abs(np.mean(found[20:]) - 0.8) < 0.08


def cliff(x):
    """A standard normal to the right of -1, forty times as steep to the left of it."""
    left = jnp.minimum(x[0] + 1, 0)
    return -0.5 * jnp.sum(x**2) - 0.5 * 1600 * left**2


def test_small_steps_free_particles_that_are_stuck():
    """Steps of ordinary size free none. Half of the tenth that are small do: three of eight would have to meet none of
    them in 60, which has probability 56 · 0.95¹⁸⁰ = 0.006; the key is fixed."""
    density = eg.Target(cliff, like=jnp.zeros(1)).density.batched
    x = np.abs(np.random.default_rng(0).normal(size=(N, 1))).astype(np.float32)
    x[:8] = -1.6
    unit, freed = DiagonalChart(jnp.ones(1)), []
    for kernel in (AffineHMC(careful=0.0), KERNEL):
        after = start(density, jnp.asarray(x))
        params = AffineParams(jnp.float32(0.9), jnp.int32(2), unit)
        for t in range(60):
            after, _ = kernel.transition(density, params, after, jax.random.fold_in(jax.random.key(1), t))
        freed.append(int(np.sum(np.asarray(after.position)[:8] > -1.3)))
    assert freed[0] == 0 and freed[1] >= 6


def test_what_is_not_finite_is_not_moved_to():
    density = eg.Target(lambda x: jnp.sum(jnp.log(x) - x), like=jnp.ones(1)).density.batched
    walk = begin(start(density, jnp.full((N, 1), 0.3)), 0.5)
    for t in range(4):
        walk, _ = go(density, walk, SEARCH if t == 0 else REPEAT, t, DiagonalChart(jnp.ones(1)))
        assert np.all(np.asarray(walk.ensemble.position) > 0) and np.isfinite(walk.ensemble.logdensity).all()


def test_no_length_and_no_mode_is_another_program():
    traces = []

    def logdensity(x):
        traces.append(1)
        return -0.5 * jnp.sum(x**2)

    density = eg.Target(logdensity, like=jnp.zeros(DIM)).density.batched
    walk = at_target(density, 0.3)
    walk, _ = go(density, walk, SEARCH)
    before = len(traces)
    for t, mode in enumerate((REPEAT, SEARCH, TRANSIENT, REPEAT)):
        walk, _ = go(density, walk, mode, t)
    assert len(traces) <= before + 1  # NumPy's first state, then JAX's
