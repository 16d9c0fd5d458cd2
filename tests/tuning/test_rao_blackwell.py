import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodic as eg
from ergodic.chain import ChainParams, simulate
from ergodic.initial import DiagonalGaussian
from ergodic.kernels import HMC, start
from ergodic.kernels.ensemble import select
from ergodic.kernels.l2hmc import L2HMC
from ergodic.tuning import emlbo
from ergodic.tuning.rao_blackwell import RaoBlackwell, frozen_force, full

PARTICLES, STEPS, DIM = 16, 3, 2
KEY = jax.random.key(11)


def quartic(x):
    """Steep, asymmetric and coupled: forces overflow quickly for large steps."""
    return -jnp.sum(x**4) + x[0] * x[1] ** 2 + 0.3 * x[0]


def params_of(step, dtype):
    spread = jax.random.uniform(jax.random.key(3), (2, STEPS, DIM), dtype, -0.3, 0.3)
    initial = DiagonalGaussian(jnp.array([0.2, -0.1], dtype), jnp.log(jnp.array([0.7, 0.9], dtype)))
    kernel = HMC(leapfrogs=4)
    return kernel, ChainParams(initial, kernel.Params(jnp.log(jnp.asarray(step, dtype)) + spread[0], spread[1]))


def compiled(estimator):
    """An estimator as one program for each density, kernel and number of particles."""
    return jax.jit(estimator, static_argnums=(0, 1, 4))


FROZEN, FULL, HELD = compiled(frozen_force), compiled(full), compiled(emlbo.full)


@functools.cache
def in_double():
    """The quartic's density in double precision: one for all tests, which then share their programs."""
    return eg.Target(quartic, like=jnp.zeros(2, jnp.float64)).density.batched


@pytest.mark.parametrize("estimator", [frozen_force, full])
def test_gradients_are_finite_for_any_step_size(estimator):
    target = eg.Target(quartic, like=jnp.zeros(2))
    kernel = HMC(leapfrogs=4)
    run = jax.jit(lambda p: estimator(target.density.batched, kernel, p, KEY, PARTICLES))
    for step in 10.0 ** np.arange(-4, 9, 0.5):
        _, params = params_of(step, jnp.float32)
        estimate, gradient = run(params)
        for leaf in jax.tree.leaves((estimate, gradient)):
            assert np.all(np.isfinite(leaf)), f"step size {step}"
    np.testing.assert_array_equal(gradient.transitions.log_step, 0)  # everything diverged: exactly zero


def test_gradients_are_finite_when_some_starts_are_outside_the_support():
    target = eg.Target(lambda x: jnp.sum(jnp.log(x) - x), like=jnp.ones(2))
    kernel, params = params_of(0.05, jnp.float32)
    for estimator in (FROZEN, FULL):
        estimate, gradient = estimator(target.density.batched, kernel, params, KEY, 64)
        assert 0 < float(estimate.nonfinite) < 1 and np.isfinite(estimate.objective)
        assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(gradient))
        assert np.any(np.asarray(gradient.transitions.log_step) != 0)


@functools.partial(jax.jit, static_argnums=(0, 1, 4))
def _written_out(density, kernel, params, key, frozen):
    """Σ_t E[p log π*(x') + (1 - p) log π*(x)] as a function of φ, decisions held, for reverse mode."""
    noise_key, chain_key = jax.random.split(key)
    noise = jax.random.normal(noise_key, (PARTICLES, DIM), params.initial.mean.dtype)
    keys = jax.random.split(chain_key, STEPS)

    def forced(x):
        value, force = density(x)
        return value, jax.lax.stop_gradient(force) if frozen else force

    def value_of(x):
        """log π* whose derivative is the force, which is what the stopped force must not take away."""
        return density(x)[0]

    def objective(transitions):
        ensemble, total = start(forced, params.initial.transform(noise)), 0.0
        for t in range(STEPS):
            phi = jax.tree.map(lambda leaf, t=t: leaf[t], transitions)
            proposal, p, info = kernel.differentiable_proposal(forced, phi, ensemble, keys[t])
            total = total + jnp.mean(p * value_of(proposal.position) + (1 - p) * value_of(ensemble.position))
            ensemble = select(info.accepted, proposal, ensemble)
        return total

    return jax.value_and_grad(objective)(params.transitions)


@pytest.mark.parametrize("step", [0.15, 0.4])
def test_frozen_force_equals_reverse_mode_with_a_stopped_force(x64, step):
    kernel, params = params_of(step, jnp.float64)
    estimate, gradient = FROZEN(in_double(), kernel, params, KEY, PARTICLES)
    value, expected = _written_out(in_double(), kernel, params, KEY, True)
    np.testing.assert_allclose(jnp.sum(estimate.expected), value, rtol=1e-12)
    np.testing.assert_allclose(gradient.transitions.log_step, expected.log_step, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(gradient.transitions.log_variance, expected.log_variance, rtol=1e-9, atol=1e-12)
    assert np.any(np.asarray(estimate.acceptance) < 1)


def test_full_equals_reverse_mode_written_out_and_shares_the_estimate(x64):
    kernel, params = params_of(0.3, jnp.float64)
    estimate, gradient = FULL(in_double(), kernel, params, KEY, PARTICLES)
    _, expected = _written_out(in_double(), kernel, params, KEY, False)
    np.testing.assert_allclose(gradient.transitions.log_step, expected.log_step, rtol=1e-9)
    frozen = FROZEN(in_double(), kernel, params, KEY, PARTICLES)
    for one, other in zip(estimate, frozen[0], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    np.testing.assert_allclose(gradient.initial.mean, frozen[1].initial.mean, rtol=1e-12)


def test_one_step_follows_the_true_slope_where_held_decisions_mislead(x64):
    """Finite differences of E[log π*(x_1)] on the same 20,000 particles, at a step size that is rejected often."""
    target = eg.Target(lambda x: -0.5 * jnp.sum(x**2), like=jnp.zeros(2, jnp.float64))
    kernel, n, h = HMC(leapfrogs=3), 20_000, 1e-5
    initial = DiagonalGaussian(jnp.zeros(2), jnp.full(2, jnp.log(1.5)))

    def chain(log_step):
        return ChainParams(initial, kernel.Params(jnp.full((1, 2), log_step), jnp.zeros((1, 2))))

    at = float(np.log(1.75))
    up, down = (FROZEN(target.density.batched, kernel, chain(at + s), KEY, n)[0].final for s in (h, -h))
    slope = float(up - down) / (2 * h)
    ours = float(jnp.sum(FULL(target.density.batched, kernel, chain(at), KEY, n)[1].transitions.log_step))
    held = float(jnp.sum(HELD(target.density.batched, kernel, chain(at), KEY, n)[1].transitions.log_step))
    assert ours == pytest.approx(slope, rel=1e-3)
    assert abs(held - slope) > 0.5 * abs(slope)


def test_the_estimate_is_of_the_chain_that_sampling_runs():
    """E_{p_t}[log π*] with the decision averaged out, and as it fell, over 20,000 runs: within 5 standard errors."""
    target, n = eg.targets.get("gaussian"), 20_000
    kernel, params = params_of(0.6, jnp.float32)
    estimate, _ = FROZEN(target.density.batched, kernel, params, KEY, n)
    end, _, trace = jax.jit(simulate, static_argnums=(0, 1, 4))(target.density.batched, kernel, params, KEY, n)
    error = 5 * float(jnp.std(end.logdensity)) / np.sqrt(n)
    np.testing.assert_allclose(estimate.expected, trace.expected_logdensity[1:], atol=error)
    np.testing.assert_allclose(estimate.acceptance, trace.acceptance, rtol=1e-5)


def test_another_kernel_can_be_refined():
    """Whatever has a differentiable proposal: here L2HMC's networks."""
    target, kernel = eg.targets.get("gaussian"), L2HMC(leapfrogs=2)
    transitions = jax.jit(L2HMC.init, static_argnums=(0, 2, 3, 4))(kernel, jax.random.key(0), STEPS, 2, jnp.float32)
    params = ChainParams(DiagonalGaussian(jnp.zeros(2), jnp.zeros(2)), transitions)
    objective = RaoBlackwell(kernel, 32, "full", "keep", True)
    row, gradient, _ = jax.jit(objective.estimate, static_argnums=0)(target.density, params, (), KEY)
    assert row["objective"].shape == () and jax.tree.structure(gradient) == jax.tree.structure(params)
    assert any(np.any(np.asarray(leaf) != 0) for leaf in jax.tree.leaves(gradient.transitions))
