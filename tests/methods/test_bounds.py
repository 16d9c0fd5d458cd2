"""The variational baselines' bounds: never above log Z, and HVI's exactly there when its reverse model is exact."""

import functools

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest

import ergodic as eg
from ergodic.initial import DiagonalGaussian
from ergodic.kernels import HMCParams
from ergodic.tuning.elbo import Elbo
from ergodic.tuning.hvi_elbo import HVIParams, hvi_bound
from ergodic.tuning.mlp import MLP

N = 20_000


@functools.partial(jax.jit, static_argnums=(0, 1))
def _bound(method, density, params, key):
    """The bound's integrand over fresh draws."""
    if method.name == "HVI":
        return hvi_bound(density, method.leapfrogs, params, key, N)[0]
    if method.name == "HVAE":
        return method.bound(density, params, key, N)[0]
    x = params.sample(key, N)
    return density(x)[0] + params.entropy()


@pytest.mark.parametrize("target_name", ["gaussian", pytest.param("wave2", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "method",
    [
        eg.MeanField(iterations=300),
        eg.HVI(iterations=150, learning_rate=0.03),
        eg.HVI(iterations=150, learning_rate=0.03, tune_initial=True),
        eg.HVAE(iterations=200),
        eg.HVAE(iterations=200, tempering="fixed"),
    ],
    ids=["MeanField", "HVI", "HVI tuned", "HVAE", "HVAE fixed"],
)
def test_no_bound_exceeds_log_z(method, target_name):
    """Mean of the integrand below log Z + 4.5 standard errors: probability of failure 3e-6 each."""
    target = eg.targets.get(target_name)
    sampler = method.fit(target, jax.random.key(0))
    density, key = target.density.batched, jax.random.key(1)
    values = np.asarray(_bound(method, density, sampler.params, key), np.float64)
    error = values.std() / np.sqrt(N)
    assert values.mean() < target.require_truth().log_z + 4.5 * error
    before = np.asarray(_bound(method, density, method.begin(target, jax.random.key(0)), key), np.float64)
    assert values.mean() > before.mean() - 4.5 * before.std() / np.sqrt(N)  # training did not lower it


def test_hvi_is_exact_with_the_exact_reverse_model(x64):
    """A Gaussian target, one leapfrog: everything is linear, and the exact reverse model can be written down.

    With h = ε²/φ1 (φ1 = 1): z' = (1 - h/2) z + ε v', v = (1 - h/2) v' - ε (1 - h/4) z. From q0 = N(0, s²) with
    s² = (1 - h)/(1 - h/2)², z' is N(0, 1) exactly, and v | z' is Gaussian with linear mean: the integrand is log Z for
    every particle, not only on average.
    """
    step = 0.6
    h = step**2
    s2 = (1 - h) / (1 - h / 2) ** 2
    forward = np.array([[1 - h / 2, step], [-step * (1 - h / 4), 1 - h / 2]])
    joint = forward @ np.diag([s2, 1.0]) @ forward.T  # covariance of (z', v)
    assert joint[0, 0] == pytest.approx(1)
    slope, variance = joint[1, 0] / joint[0, 0], joint[1, 1] - joint[1, 0] ** 2 / joint[0, 0]
    zero = jnp.zeros
    reverse = MLP(
        jnp.array([[[slope, 0.0]]]),
        zero((1, 1, 2)),
        zero((1, 2)),
        zero((1, 2, 2)),
        jnp.array([[0.0, np.log(variance)]]),
    )
    initial = DiagonalGaussian(zero(1), jnp.log(jnp.array([np.sqrt(s2)])))
    params = HVIParams(initial, HMCParams(jnp.log(jnp.array([[step]])), zero((1, 1))), reverse)
    target = eg.Target(lambda x: -0.5 * jnp.sum(x**2), like=jnp.zeros(1, jnp.float64))
    bound = jax.jit(hvi_bound, static_argnums=(0, 1, 4))
    values, _ = bound(target.density.batched, 1, params, jax.random.key(0), 500)
    np.testing.assert_allclose(values, 0.5 * np.log(2 * np.pi), atol=1e-12)


def test_hvi_gradient_is_that_of_its_bound(x64):
    """Against finite differences on common random numbers."""
    target = eg.Target(lambda x: -0.25 * jnp.sum(x**4) + x[0] * x[1], like=jnp.zeros(2, jnp.float64))
    method = eg.HVI(steps=2, leapfrogs=3, hidden=3, particles=8, step_size=(0.1, 0.2), tune_initial=True)
    params = method.begin(target, jax.random.key(0))
    flat, unravel = jax.flatten_util.ravel_pytree(params)
    flat = flat + 0.1 * jax.random.normal(jax.random.key(1), flat.shape)

    def mean_bound(flat):
        return jnp.mean(hvi_bound(target.density.batched, 3, unravel(flat), jax.random.key(2), 8)[0])

    gradient, step = jax.jit(jax.grad(mean_bound))(flat), 1e-6
    shifts = step * jnp.eye(flat.size)[::7]
    around = jax.jit(jax.vmap(lambda shift: mean_bound(flat + shift)))
    up, down = around(shifts), around(-shifts)
    np.testing.assert_allclose(gradient[::7], (up - down) / (2 * step), rtol=1e-4, atol=1e-7)


def test_mean_field_finds_the_best_diagonal_gaussian():
    """For a Gaussian target the optimum has precision diag(Σ⁻¹): within 10 %, Adam's noise at this rate."""
    sampler = eg.MeanField(iterations=1500).fit(eg.targets.get("gaussian"), jax.random.key(0))
    precision = np.diag(np.linalg.inv([[2.0, 1.5], [1.5, 1.6]]))
    np.testing.assert_allclose(np.exp(-2 * np.asarray(sampler.params.log_scale)), precision, rtol=0.1)
    assert np.abs(np.asarray(sampler.params.mean)).max() < 0.1


def test_the_elbo_objective_ignores_particles_outside_the_support():
    target = eg.Target(lambda x: jnp.sum(jnp.log(x) - x), like=jnp.ones(1))
    row, gradient, _ = jax.jit(Elbo(200).estimate, static_argnums=0)(
        target.density, DiagonalGaussian(jnp.ones(1), jnp.zeros(1)), (), jax.random.key(0)
    )
    assert np.isfinite(row["objective"]) and np.all(np.isfinite(gradient.mean))
