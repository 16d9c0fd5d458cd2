import functools

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest

import ergodic as eg
from ergodic.chain import ChainParams, simulate
from ergodic.initial import DiagonalGaussian
from ergodic.kernels import HMC, Ensemble, start
from ergodic.tuning.emlbo import frozen_force, full

PARTICLES, STEPS, DIM = 16, 3, 2
KEY = jax.random.key(11)


def quartic(x):
    """Steep, asymmetric and coupled: forces overflow quickly for large steps."""
    return -jnp.sum(x**4) + x[0] * x[1] ** 2 + 0.3 * x[0]


def params_of(step, dtype):
    key = jax.random.key(3)
    spread = jax.random.uniform(key, (2, STEPS, DIM), dtype, -0.3, 0.3)
    initial = DiagonalGaussian(jnp.array([0.2, -0.1], dtype), jnp.log(jnp.array([0.7, 0.9], dtype)))
    kernel = HMC(leapfrogs=4)
    return kernel, ChainParams(initial, kernel.Params(jnp.log(jnp.asarray(step, dtype)) + spread[0], spread[1]))


def compiled(estimator):
    """An estimator as one program for each density, kernel and number of particles."""
    return jax.jit(estimator, static_argnums=(0, 1, 4))


FROZEN, FULL = compiled(frozen_force), compiled(full)


@functools.cache
def in_double():
    """The quartic's density in double precision: one for all tests, which then share their programs."""
    return eg.Target(quartic, like=jnp.zeros(2, jnp.float64)).density.batched


@pytest.mark.parametrize("estimator", [frozen_force, full])
@pytest.mark.parametrize("adjusted", [True, False])
def test_gradients_are_finite_for_any_step_size(estimator, adjusted):
    """DESIGN's test number one: step sizes 1e-4 to 1e8 on a quartic, in float32."""
    target = eg.Target(quartic, like=jnp.zeros(2))
    kernel = HMC(leapfrogs=4, adjusted=adjusted)
    run = jax.jit(lambda p: estimator(target.density.batched, kernel, p, KEY, PARTICLES))
    for step in 10.0 ** np.arange(-4, 9):
        _, params = params_of(step, jnp.float32)
        estimate, gradient = run(params)
        for leaf in jax.tree.leaves((estimate, gradient)):
            assert np.all(np.isfinite(leaf)), f"step size {step}"
    np.testing.assert_array_equal(gradient.transitions.log_step, 0)  # everything diverged: exactly zero
    np.testing.assert_array_equal(gradient.transitions.log_variance, 0)


def test_gradients_are_finite_when_some_starts_are_outside_the_support():
    target = eg.Target(lambda x: jnp.sum(jnp.log(x) - x), like=jnp.ones(2))
    kernel, params = params_of(0.05, jnp.float32)
    for estimator in (FROZEN, FULL):
        estimate, gradient = estimator(target.density.batched, kernel, params, KEY, 64)
        assert 0 < float(estimate.nonfinite) < 1
        for leaf in jax.tree.leaves(gradient):
            assert np.all(np.isfinite(leaf))
        assert np.any(np.asarray(gradient.transitions.log_step) != 0)


def _stopped(density):
    """The same density whose force carries no gradient."""

    def batched(x):
        value, force = density(x)
        return value, jax.lax.stop_gradient(force)

    return batched


def _reverse_mode(density, kernel, params, key):
    """∂ E_{pT}[log π*] by reverse mode with a stopped force and the accepts held, written out plainly."""
    noise_key, chain_key = jax.random.split(key)
    noise = jax.random.normal(noise_key, (PARTICLES, DIM), params.initial.mean.dtype)
    keys = jax.random.split(chain_key, STEPS)

    def final(transitions):
        ensemble = start(_stopped(density), params.initial.transform(noise))
        for t in range(STEPS):
            ensemble, _ = kernel.differentiable_transition(
                _stopped(density), jax.tree.map(lambda leaf, t=t: leaf[t], transitions), ensemble, keys[t]
            )
        return jnp.mean(density(ensemble.position)[0])

    return jax.jit(jax.value_and_grad(final))(params.transitions)


@pytest.mark.parametrize(
    "step", [pytest.param(0.02, marks=pytest.mark.slow), 0.15, pytest.param(0.4, marks=pytest.mark.slow)]
)
def test_frozen_force_equals_reverse_mode_with_a_stopped_force(x64, step):
    density = in_double()
    kernel, params = params_of(step, jnp.float64)
    estimate, gradient = FROZEN(density, kernel, params, KEY, PARTICLES)
    value, expected = _reverse_mode(density, kernel, params, KEY)
    np.testing.assert_allclose(estimate.final, value, rtol=1e-12)
    np.testing.assert_allclose(gradient.transitions.log_step, expected.log_step, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(gradient.transitions.log_variance, expected.log_variance, rtol=1e-9, atol=1e-12)
    assert np.all(np.asarray(estimate.acceptance) > 0)


def _held(density, kernel, params, accepted, key):
    """E_{pT}[log π*] + ELBO(P0) with the accept decisions and the chain's start held: for finite differences."""
    noise_key, chain_key = jax.random.split(key)
    noise = jax.random.normal(noise_key, (PARTICLES, DIM), jnp.float64)
    keys = jax.random.split(chain_key, STEPS)

    def objective(initial, transitions, held_initial):
        ensemble = start(density, held_initial.transform(noise))
        for t in range(STEPS):
            step, variance = jnp.exp(transitions.log_step[t])[None], jnp.exp(transitions.log_variance[t])[None]
            momentum = jnp.sqrt(variance) * jax.random.normal(
                jax.random.split(keys[t])[0], (PARTICLES, DIM), jnp.float64
            )
            x, r = ensemble.position, momentum
            for _ in range(kernel.leapfrogs):
                r = r + 0.5 * step * density(x)[1]
                x = x + step / variance * r
                r = r + 0.5 * step * density(x)[1]
            x = jnp.where(accepted[t][:, None], x, ensemble.position)
            ensemble = Ensemble(x, *density(x))
        elbo = jnp.mean(density(initial.transform(noise))[0]) + initial.entropy()
        return jnp.mean(ensemble.logdensity) + elbo

    return objective


@pytest.mark.parametrize("step", [pytest.param(0.05, marks=pytest.mark.slow), 0.3])
def test_full_equals_finite_differences_with_accepts_held(x64, step):
    density = in_double()
    kernel, params = params_of(step, jnp.float64)
    estimate, gradient = FULL(density, kernel, params, KEY, PARTICLES)

    keys = jax.random.split(jax.random.split(KEY)[1], STEPS)
    noise = jax.random.normal(jax.random.split(KEY)[0], (PARTICLES, DIM), jnp.float64)

    @jax.jit
    def decisions(params):
        ensemble, accepted = start(density, params.initial.transform(noise)), []
        for t in range(STEPS):
            phi = jax.tree.map(lambda leaf, t=t: leaf[t], params.transitions)
            ensemble, info = kernel.transition(density, phi, ensemble, keys[t])
            accepted.append(info.accepted)
        return jnp.stack(accepted)

    accepted = decisions(params)
    objective = _held(density, kernel, params, accepted, KEY)
    flat, unravel = jax.flatten_util.ravel_pytree(params)
    analytic = jax.flatten_util.ravel_pytree(gradient)[0]
    h = 1e-6
    shifts = h * jnp.concatenate([jnp.zeros((1, flat.size)), jnp.eye(flat.size), -jnp.eye(flat.size)])

    @jax.jit
    @jax.vmap
    def shifted(shift):
        moved = unravel(flat + shift)
        return objective(moved.initial, moved.transitions, params.initial)

    here, *around = np.asarray(shifted(shifts))
    np.testing.assert_allclose(here, estimate.objective, rtol=1e-10)
    up, down = np.split(np.asarray(around), 2)
    np.testing.assert_allclose(analytic, (up - down) / (2 * h), rtol=2e-5, atol=2e-7)
    assert not np.all(np.asarray(accepted)) or step < 0.1  # the larger step has rejections in it


def test_both_gradients_agree_where_forces_hardly_matter(x64):
    """For tiny steps the frozen force drops only second-order terms."""
    kernel, params = params_of(1e-3, jnp.float64)
    a = FROZEN(in_double(), kernel, params, KEY, PARTICLES)[1]
    b = FULL(in_double(), kernel, params, KEY, PARTICLES)[1]
    for one, other in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_allclose(one, other, rtol=0.05, atol=1e-4)
    np.testing.assert_allclose(a.initial.mean, b.initial.mean, rtol=1e-10)  # the ELBO part has no approximation


def test_the_estimate_is_of_the_chain_that_sampling_runs():
    """The tuner and `simulate` walk the same runs for the same key."""
    target = eg.targets.get("gaussian")
    kernel, params = params_of(0.2, jnp.float32)
    estimate, _ = FROZEN(target.density.batched, kernel, params, KEY, 64)
    end, _, trace = jax.jit(simulate, static_argnums=(0, 1, 4))(target.density.batched, kernel, params, KEY, 64)
    np.testing.assert_allclose(estimate.final, jnp.mean(end.logdensity), rtol=1e-5)
    np.testing.assert_allclose(estimate.initial, trace.expected_logdensity[0], rtol=1e-5)
    np.testing.assert_allclose(estimate.acceptance, trace.acceptance, rtol=1e-5)


def test_elbo_of_a_gaussian_is_the_closed_form():
    """E_{p0}[log π*] over 100,000 draws within 4.5 standard errors; probability of failure 7e-6."""
    target = eg.targets.get("gaussian")
    kernel, params = params_of(0.2, jnp.float32)
    n = 100_000
    estimate, _ = FROZEN(target.density.batched, kernel, params, KEY, n)
    precision = np.linalg.inv([[2.0, 1.5], [1.5, 1.6]])
    mean, var = (
        np.asarray(params.initial.mean, np.float64),
        np.exp(2 * np.asarray(params.initial.log_scale, np.float64)),
    )
    exact = -0.5 * (np.trace(precision @ np.diag(var)) + mean @ precision @ mean)
    quadratic = precision @ np.diag(var)
    sd = np.sqrt(0.5 * np.trace(quadratic @ quadratic) + mean @ precision @ np.diag(var) @ precision @ mean)
    assert abs(float(estimate.initial) - exact) < 4.5 * sd / np.sqrt(n)
    np.testing.assert_allclose(estimate.entropy, np.log(2 * np.pi * np.e) + 0.5 * np.log(var).sum(), rtol=1e-5)
    np.testing.assert_allclose(estimate.elbo, estimate.initial + estimate.entropy, rtol=1e-6)
