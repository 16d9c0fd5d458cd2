import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest

import ergodic as eg
from ergodic.kernels import Ensemble, start
from ergodic.kernels.l2hmc import L2HMC
from ergodic.tuning.ascent import maximise
from ergodic.tuning.esjd import ExpectedJump

CHAINS = 12
KEY = jax.random.key(4)
init = jax.jit(L2HMC.init, static_argnums=(0, 2, 3, 4, 5))


def skewed(x):
    return -x[0] - jnp.exp(-x[0]) - 0.5 * (x[1] - 0.25 * x[0] ** 2) ** 2


def begun(objective, dtype, step=0.5, like=None):
    """A density, parameters that no relu's kink meets, and chains somewhere."""
    target = eg.Target(skewed if like is None else like, like=jnp.zeros(2, dtype))
    flat, unravel = jax.flatten_util.ravel_pytree(init(objective.kernel, jax.random.key(0), None, 2, dtype, step))
    params = unravel(flat + 0.1 * jax.random.normal(jax.random.key(1), flat.shape, dtype))
    x = 0.5 + jnp.abs(jax.random.normal(jax.random.key(2), (CHAINS, 2), dtype))
    return target.density, params, start(target.density.batched, x)


def test_it_is_the_loss_of_the_authors_code(x64):
    """λ mean(1/δ) - mean(δ)/λ over chains plus the same over fresh z, with both written out; and its gradient."""
    objective = ExpectedJump(L2HMC(leapfrogs=2, hidden=4, head_factor=0.3), jump_scale=0.3)
    density, params, chains = begun(objective, jnp.float64)
    row, gradient, after = jax.jit(objective.estimate, static_argnums=0)(density, params, chains, KEY)

    fresh_key, move_key = jax.random.split(KEY)
    z = jax.random.normal(fresh_key, (CHAINS, 2), jnp.float64)
    x = jnp.concatenate([chains.position, z])
    both = start(density.batched, x)

    def loss(flat):
        proposal, acceptance, info = objective.kernel.differentiable_proposal(
            density.batched, unravel(flat), both, move_key
        )
        delta = jnp.sum((x - proposal.position) ** 2, axis=1) * acceptance + 1e-4
        mean = [jnp.mean(delta[:CHAINS]), jnp.mean(delta[CHAINS:])]
        inverse = [jnp.mean(1 / delta[:CHAINS]), jnp.mean(1 / delta[CHAINS:])]
        return 0.3 * sum(inverse) - sum(mean) / 0.3, (mean, proposal, info)

    flat, unravel = jax.flatten_util.ravel_pytree(params)
    # The loss here, and on both sides along ten random directions for finite differences.
    directions = jax.random.normal(jax.random.key(8), (10, flat.size), jnp.float64)
    shifts = 1e-6 * jnp.concatenate([jnp.zeros((1, flat.size)), directions, -directions])
    values, others = jax.jit(jax.vmap(lambda shift: loss(flat + shift)))(shifts)
    value, (mean, proposal, info) = values[0], jax.tree.map(lambda leaf: leaf[0], others)
    np.testing.assert_allclose(row["objective"], -value, rtol=1e-12)
    np.testing.assert_allclose(row["jump"] + 1e-4, mean[0], rtol=1e-12)
    np.testing.assert_allclose(row["initial_jump"] + 1e-4, mean[1], rtol=1e-12)
    assert not np.any(info.diverged) and 0.1 < np.mean(info.acceptance) < 0.95

    # The chains go on by the Metropolis step, accepted or not.
    stepped = jnp.where(info.accepted[:CHAINS, None], proposal.position[:CHAINS], chains.position)
    np.testing.assert_allclose(after.position, stepped, rtol=1e-12)
    np.testing.assert_allclose(after.logdensity, density.batched(stepped)[0], rtol=1e-10)

    along = directions @ jax.flatten_util.ravel_pytree(gradient)[0]
    np.testing.assert_allclose(-along, (values[1:11] - values[11:]) / 2e-6, rtol=1e-5)


def test_gradients_are_finite_for_any_step_size():
    """Step sizes 1e-4 to 1e8 on a quartic, in float32."""
    objective = ExpectedJump(L2HMC(leapfrogs=4, head_factor=0.5))
    density, params, chains = begun(
        objective, jnp.float32, like=lambda x: -jnp.sum(x**4) + x[0] * x[1] ** 2 + 0.3 * x[0]
    )
    estimate = jax.jit(objective.estimate, static_argnums=0)
    for step in 10.0 ** np.arange(-4, 9):
        log_step = jnp.asarray(np.log(step), jnp.float32)
        row, gradient, after = estimate(density, params._replace(log_step=log_step), chains, KEY)
        for leaf in jax.tree.leaves((row, gradient, after)):
            assert np.all(np.isfinite(leaf)), f"step size {step}"
    for leaf in jax.tree.leaves(gradient):
        np.testing.assert_array_equal(leaf, 0)  # everything diverged: exactly zero
    np.testing.assert_array_equal(after.position, chains.position)
    assert float(row["divergence"]) == 1


def test_fresh_states_outside_the_support_and_endless_jumps_are_no_trouble():
    """log x1 has half of z outside; along x2 there are jumps so long that their square overflows."""
    objective = ExpectedJump(L2HMC(leapfrogs=2, head_factor=0.5))
    density, params, chains = begun(
        objective, jnp.float32, like=lambda x: jnp.log(x[0]) - x[0] - 2 * jnp.log1p((x[1] / 1e19) ** 2)
    )
    estimate = jax.jit(objective.estimate, static_argnums=0)
    for step in (0.1, 1e19):
        log_step = jnp.asarray(np.log(step), jnp.float32)
        row, gradient, after = estimate(density, params._replace(log_step=log_step), chains, KEY)
        for leaf in jax.tree.leaves((row, gradient, after)):
            assert np.all(np.isfinite(leaf)), f"step size {step}"


@pytest.fixture(scope="module")
def trained():
    """Sixty iterations on N(0, diag(9, 1)), chains at N(0, I)."""
    target = eg.Target(lambda x: -0.5 * jnp.sum((x / jnp.array([3.0, 1.0])) ** 2), like=jnp.zeros(2))
    objective = ExpectedJump(L2HMC(leapfrogs=3))
    params = init(objective.kernel, jax.random.key(0), None, 2, jnp.float32, 0.1)
    carry = start(target.density.batched, jax.random.normal(jax.random.key(1), (50, 2)))
    return carry, maximise(
        objective, target.density, params, KEY, iterations=60, learning_rate=0.01, carry=carry, progress=False
    )


def test_training_makes_jumps_longer(trained):
    _, (_, record, _) = trained
    assert np.mean(record["jump"][-10:]) > 5 * np.mean(record["jump"][:10])
    assert np.mean(record["objective"][-10:]) > np.mean(record["objective"][:10])
    assert all(column.shape == (60,) for column in record.values())


def test_the_chains_live_on_from_iteration_to_iteration(trained):
    before, (_, record, after) = trained
    assert isinstance(after, Ensemble) and after.position.shape == (50, 2)
    assert np.all(np.asarray(after.position) != np.asarray(before.position))
    np.testing.assert_allclose(record["expected_logdensity"][-1], jnp.mean(after.logdensity), rtol=1e-6)
