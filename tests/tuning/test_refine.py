"""Joint refinement: its gradient, and what `eg.refine` does with a greedy schedule."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodic as eg
from ergodic.charts import DenseChart
from ergodic.initial.mixture import KernelMixture
from ergodic.kernels.affine import AffineHMC, AffineParams
from ergodic.kernels.ensemble import start
from ergodic.methods.refined import judge, shortened
from ergodic.tuning.shortening import Fixed, Refinement, Tuned, propose, stretched

KEY = jax.random.key(3)
KERNEL = AffineHMC()


def quartic(x):
    """Steep, asymmetric and coupled."""
    return -jnp.sum(x**4) + x[0] * x[1] ** 2 + 0.3 * x[0]


def chart(dtype):
    root = np.array([[0.8, 0.0], [0.3, 0.6]])
    parts = (root, np.linalg.inv(root), np.log(np.linalg.det(root)))
    return DenseChart(*(jnp.asarray(part, dtype) for part in parts))


def fixed(dtype):
    centres = jnp.asarray(np.random.default_rng(0).normal(size=(5, 2)) * 0.3, dtype)
    return Fixed(KernelMixture(centres, chart(dtype).times(0.5)), jnp.array([3, 1, 4], jnp.int32), chart(dtype))


def tuned(step, dtype):
    return Tuned(jnp.log(jnp.asarray([1.0, 1.3, 0.7], dtype) * step), jnp.asarray([0.2, -0.1], dtype))


def test_a_proposal_is_the_kernels_own():
    target = eg.Target(quartic, like=jnp.zeros(2))
    ensemble = start(target.density.batched, 0.3 * jax.random.normal(KEY, (50, 2)))
    params = AffineParams(jnp.float32(0.4), jnp.int32(3), chart(jnp.float32))

    @jax.jit
    def both(ensemble):
        steps = jnp.full(2, params.step)
        move = propose(KERNEL, target.density.batched, params.chart, steps, params.leapfrogs, ensemble, KEY)
        return move, *KERNEL.transition(target.density.batched, params, ensemble, KEY)

    move, moved, info = both(ensemble)
    np.testing.assert_array_equal(move.accepted, info.accepted)
    np.testing.assert_allclose(move.probability, info.acceptance, rtol=1e-4)
    np.testing.assert_allclose(move.proposal.position[info.accepted], moved.position[info.accepted], rtol=1e-4)


def test_gradients_are_finite_for_any_step_size():
    target = eg.Target(quartic, like=jnp.zeros(2))
    objective = Refinement(KERNEL, 32)
    run = jax.jit(lambda params: objective.estimate(target.density.batched, params, fixed(jnp.float32), KEY))
    for step in 10.0 ** np.arange(-4, 9):
        value, gradient, acceptance = run(tuned(step, jnp.float32))
        assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves((value, gradient, acceptance))), step
    np.testing.assert_array_equal(gradient.log_step, 0)  # everything diverged


def test_gradient_of_a_linear_target_is_that_of_differences(x64):
    """Forces are constant there, so that freezing them is exact; energy is conserved and every move is accepted."""
    slope = jnp.array([0.7, -0.4])
    target = eg.Target(lambda x: x @ slope, like=jnp.zeros(2))
    objective = Refinement(KERNEL, 200)
    begin, rest = tuned(0.5, jnp.float64), fixed(jnp.float64)

    run = jax.jit(lambda params: objective.estimate(target.density.batched, params, rest, KEY))
    _, gradient, acceptance = run(begin)
    np.testing.assert_allclose(acceptance, 1, rtol=1e-9)
    for name, leaf in gradient._asdict().items():
        for index in range(len(leaf)):
            shift = jnp.zeros_like(leaf).at[index].set(1e-5)
            up, down = (run(begin._replace(**{name: getattr(begin, name) + s * shift}))[0] for s in (1, -1))
            np.testing.assert_allclose(leaf[index], (up - down) / 2e-5, rtol=1e-4)


def test_a_stretched_metric_is_one():
    found = stretched(chart(jnp.float32), jnp.array([0.5, -0.2]))
    x = jax.random.normal(KEY, (4, 2))
    np.testing.assert_allclose(found.whiten(found.push(x)), x, rtol=1e-5)
    np.testing.assert_allclose(found.log_det, np.log(np.linalg.det(found.root)), rtol=1e-5)


@pytest.fixture(scope="module")
def greedy():
    return eg.fit(eg.targets.get("gaussian"), jax.random.key(0), eg.GEI(certify=False), progress=False)


def test_refining_shortens_a_schedule_at_equal_memory(greedy, tmp_path):
    short = eg.refine(greedy, KEY, iterations=20)
    before, after = (sampler.params.schedule.step.shape[0] for sampler in (greedy, short))
    assert after <= 3 * before // 4 and short.depth < greedy.depth
    assert judge(short, jax.random.key(9)).memory < 0.15
    assert short.cost.gradients > greedy.cost.gradients and short.record["memory"].shape == (2,)
    truth = greedy.target.truth
    draws = short.sample(jax.random.key(1), 20_000, progress=False).unconstrained
    error = np.abs(draws.mean(axis=0) - truth.mean) / np.sqrt(np.diag(truth.covariance) / 20_000)
    assert error.max() < 4.5  # of independent draws from the target: one time in 70,000
    short.save(tmp_path / "short.ergodic")
    assert eg.load(tmp_path / "short.ergodic", greedy.target).depth == short.depth


def test_a_number_of_steps_is_what_one_gets(greedy):
    assert eg.refine(greedy, KEY, steps=2, iterations=5).params.schedule.step.shape == (2,)
    short = shortened(replace(greedy, source={"builtin": "gaussian"}), 3)
    assert short.params.schedule.leapfrogs.shape == (3,) and short.source == {"builtin": "gaussian"}


def test_what_cannot_be_refined_is_refused(greedy, gaussian_sampler):
    for other in (gaussian_sampler, greedy.target):
        with pytest.raises(eg.ConfigError, match=r"sampler of eg\.GEI"):
            eg.refine(other, KEY)
    with pytest.raises(eg.ConfigError, match="would not shorten"):
        eg.refine(greedy, KEY, steps=1000)
    with pytest.raises(eg.ConfigError, match="iterations"):
        eg.refine(greedy, KEY, iterations=0)
