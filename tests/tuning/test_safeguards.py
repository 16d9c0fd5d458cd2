"""The acceptance floor, early stopping and the scale of P0."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodic as eg
from ergodic.chain import ChainParams, simulate
from ergodic.initial import DiagonalGaussian
from ergodic.kernels import HMC
from ergodic.tuning.acceptance import AcceptanceFloor
from ergodic.tuning.sksd import better, choose_scale, climb, sliced_discrepancy, stretched
from ergodic.tuning.stopping import EarlyStopping, stein_residual

KEY = jax.random.key(5)


def chain(step, scale=1.0, steps=3, dim=2):
    kernel = HMC(leapfrogs=3)
    initial = DiagonalGaussian(jnp.zeros(dim), jnp.full(dim, float(np.log(scale))))
    return kernel, ChainParams(
        initial, kernel.Params(jnp.log(jnp.asarray(step))[:, None] * jnp.ones((steps, dim)), jnp.zeros((steps, dim)))
    )


def standard(dim=2):
    return eg.Target(lambda x: -0.5 * jnp.sum(x**2), like=jnp.zeros(dim))


def test_a_step_below_the_floor_is_taken_back_and_shortened():
    kernel, current = chain([0.1, 0.2, 0.3])
    _, updated = chain([0.2, 0.3, 0.4])
    row = {"acceptance": jnp.array([0.9, 0.2, 0.8])}
    kept = AcceptanceFloor(kernel, 0.7)(current, updated, row).transitions
    np.testing.assert_allclose(kept.log_step[0], np.log(0.2), rtol=1e-6)
    np.testing.assert_allclose(kept.log_step[1], np.log(0.2) - 0.55, rtol=1e-5)
    np.testing.assert_allclose(kept.log_step[2], np.log(0.4), rtol=1e-6)
    np.testing.assert_array_equal(kept.log_variance, updated.transitions.log_variance)


def test_settling_brings_dead_steps_back():
    target = standard()
    kernel, params = chain([5.0, 0.3, 50.0])
    settled, cost = AcceptanceFloor(kernel, 0.8).settle(target.density, params, KEY)
    run = jax.jit(simulate, static_argnums=(0, 1, 4))
    acceptance = run(target.density.batched, kernel, settled, jax.random.key(9), 4000)[2].acceptance
    assert np.all(np.asarray(acceptance) > 0.77)  # 1,000 particles decided: a standard error of 0.01
    np.testing.assert_array_equal(settled.transitions.log_step[1], params.transitions.log_step[1])
    assert cost.depth % 10 == 0 and cost.gradients == 1000 * cost.depth


def test_the_residual_is_zero_at_the_target_and_sees_width_and_centre():
    x = jax.random.normal(KEY, (4000, 3))
    ok = jnp.ones(4000, bool)
    exact = float(stein_residual(x, -x, ok))
    assert abs(exact) < 5e-3  # unbiased: its standard deviation is about 4/n
    for scale, shift in ((0.7, 0.0), (1.4, 0.0), (1.0, 0.5)):
        y = scale * x + shift
        wrong = float(stein_residual(y, -y, ok))
        expected = sum(q / (1 + q) for q in ((1 - scale**2) ** 2, (scale * shift) ** 2))
        assert wrong == pytest.approx(expected, rel=0.25)


def test_unusable_particles_do_not_count():
    x = jax.random.normal(KEY, (1000, 2))
    ok = jnp.arange(1000) % 2 == 0
    broken = jnp.where(ok[:, None], x, jnp.nan)
    np.testing.assert_allclose(stein_residual(broken, -broken, ok), stein_residual(x[::2], -x[::2], ok[::2]), rtol=1e-3)


def test_early_stopping_keeps_the_best_and_stops():
    target = standard()
    kernel, good = chain([0.5, 0.4, 0.6])
    _, bad = chain([0.01, 0.01, 0.01], scale=3.0)
    watch = EarlyStopping(target.density, kernel, KEY)
    assert watch.best(bad) is bad  # never looked
    stops = [watch(i, good if i == 10 else bad) for i in range(1, 41)]
    assert stops.index(True) == 34 and watch.best(bad) is good  # five looks after the tenth iteration
    assert watch.iterations[:3] == [5, 10, 15] and np.argmin(watch.residuals) == 1
    assert watch.cost(10).gradients == 1000 * 10 * len(watch.residuals)


def test_the_discrepancy_vanishes_at_the_target_for_any_slices():
    """E = 0 under π. Mean of 64 groups of 100 exact draws, within 4.5 standard errors; not so for wider draws."""
    slices = jnp.array([[1.0, 0.4], [-0.3, 1.0]])
    x = jax.random.normal(KEY, (64, 100, 2))
    run = jax.jit(jax.vmap(lambda y: sliced_discrepancy(slices, y, -y)))
    values, wide = np.asarray(run(x), np.float64), np.asarray(run(1.5 * x), np.float64)
    assert abs(values.mean()) < 4.5 * values.std() / 8
    assert wide.mean() > 20 * values.std() / 8


def test_the_discrepancy_is_the_formula():
    """Against the Stein operator applied twice by automatic differentiation."""
    x = jax.random.normal(KEY, (6, 2))
    slices = jnp.array([[0.8, 0.6], [0.0, 1.0]])
    score = jax.vmap(jax.grad(lambda y: -0.25 * jnp.sum(y**4)))(x)
    m, n = np.nonzero(~np.eye(6, dtype=bool))  # all pairs
    total = 0.0
    for i in range(2):
        u = np.asarray(x @ slices[i], np.float64)
        width = 2 * np.median((u[:, None] - u[None, :]) ** 2)

        def kernel(a, b, i=i, width=width):
            return jnp.exp(-((a @ slices[i] - b @ slices[i]) ** 2) / width)

        def twice(a, b, score_a, score_b, i=i, kernel=kernel):
            return (
                score_a[i] * score_b[i] * kernel(a, b)
                + score_a[i] * jax.grad(kernel, 1)(a, b)[i]
                + score_b[i] * jax.grad(kernel, 0)(a, b)[i]
                + jax.jacfwd(jax.grad(kernel, 1), 0)(a, b)[i, i]
            )

        total += np.sum(np.asarray(jax.jit(jax.vmap(twice))(x[m], x[n], score[m], score[n]), np.float64)) / 30
    np.testing.assert_allclose(sliced_discrepancy(slices, x, score), total, rtol=2e-4)


def test_slices_climb():
    """Draws of N(0, I) for a correlated target: the discrepancy grows, and slices stay unit vectors."""
    precision = jnp.linalg.inv(jnp.array([[2.0, 1.5], [1.5, 1.6]]))
    x = jax.random.normal(KEY, (400, 2))
    slices = climb(x, -x @ precision)
    np.testing.assert_allclose(jnp.sum(slices**2, axis=1), 1, rtol=1e-5)
    at = [float(sliced_discrepancy(rows, x, -x @ precision)) for rows in (jnp.eye(2), slices)]
    assert at[1] > 1.1 * at[0]


@pytest.mark.parametrize(("scale", "low", "high"), [(0.2, 3.0, 8.0), (1.0, 1.0, 1.0), (5.0, 0.1, 0.35)])
def test_the_scale_is_found_and_left_alone_where_it_is_right(scale, low, high):
    """A chain that hardly moves, from a P0 that is too narrow, right and too wide for N(0, I)."""
    target = standard()
    kernel, params = chain([0.01, 0.01, 0.01], scale=scale)
    chosen, record, cost = choose_scale(target.density, kernel, params, KEY)
    assert low <= record["scale"][0] <= high
    np.testing.assert_allclose(
        chosen.initial.log_scale, stretched(params, float(np.log(record["scale"][0]))).initial.log_scale, rtol=1e-6
    )
    assert cost.depth == 10 * len(record["sksd"]) and cost.gradients == 3000 * cost.depth


def test_better_needs_three_errors_and_is_not_fooled_by_one_group():
    rng = np.random.default_rng(0)
    noise = rng.normal(size=11)
    assert not better(noise, noise + 0.1 * rng.normal(size=11))
    assert better(noise - 5, noise)
    far = noise.copy()
    far[3] = 1e6
    assert better(noise, far) and not better(far, noise)
    assert better(noise, np.full(11, np.nan)) and not better(np.full(11, np.nan), noise)
