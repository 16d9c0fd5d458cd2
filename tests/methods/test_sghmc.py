import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import solve_discrete_lyapunov

import ergodic as eg


def stationary_variance(precision, step, friction, noise):
    """Of θ under Chen's update on U = precision θ²/2, exactly: the discrete Lyapunov equation of (θ, v)."""
    move = np.array([[1.0, 1.0], [-step * precision, 1 - friction - step * precision]])
    return solve_discrete_lyapunov(move, np.diag([0.0, noise]))[0, 0]


@pytest.mark.parametrize("step", [0.01, 0.1])
def test_stationary_variance_of_a_gaussian_is_the_theorys(step):
    """Chains are independent of each other: one draw each, variance against theory, |z| < 4.5, failure 7e-6 each.

    What is left of the start decays as exp(-friction/2) an iteration: by exp(-20) over the burn-in.
    """
    scale = np.array([0.5, 1.0])
    target = eg.Target(lambda x: -0.5 * jnp.sum((x / scale.astype(np.float32)) ** 2), like=jnp.zeros(2))
    method = eg.SGHMC(step_size=step, friction=0.1, chains=20_000, burn_in=400, thin=1)
    x = method.fit(target, jax.random.key(0)).sample(jax.random.key(1), 20_000).unconstrained.astype(np.float64)
    for i in range(2):
        theory = stationary_variance(1 / scale[i] ** 2, step, 0.1, 2 * 0.1 * step)
        z = (np.mean(x[:, i] ** 2) - theory) / (theory * np.sqrt(2 / len(x)))
        assert abs(z) < 4.5
    # and the theory says something: the step size leaves a bias, larger for the larger step
    assert stationary_variance(4.0, 0.1, 0.1, 0.02) / 0.25 > 1.05


def test_minibatch_noise_widens_the_distribution():
    """Data split over minibatches: exact gradients against minibatch gradients of the same posterior."""
    data = jnp.asarray(np.random.default_rng(0).normal(size=400), jnp.float32)

    def full(x):
        return -0.5 * jnp.sum((data - x[0]) ** 2) - 0.5 * jnp.sum(x**2)

    def minibatch(x, key):
        rows = jax.random.randint(key, (10,), 0, 400)
        return -0.5 * 40 * jnp.sum((data[rows] - x[0]) ** 2) - 0.5 * jnp.sum(x**2)

    method = eg.SGHMC(step_size=1e-4, friction=0.05, chains=2000, burn_in=600, thin=1)
    spread = []
    for target in (eg.Target(full, like=jnp.zeros(1)), eg.Target(full, like=jnp.zeros(1), minibatch=minibatch)):
        draws = method.fit(target, jax.random.key(0)).sample(jax.random.key(1), 2000)
        spread.append(draws.unconstrained.std())
    assert spread[0] == pytest.approx(1 / np.sqrt(401), rel=0.1)
    assert spread[1] > 1.2 * spread[0]


def test_the_scale_adapted_form_learns_scales():
    """Two coordinates whose gradients differ by a factor 100: V does too, and both are sampled at their own scale."""
    scale = jnp.array([0.1, 1.0])
    target = eg.Target(lambda x: -0.5 * jnp.sum((x / scale) ** 2), like=jnp.zeros(2))
    method = eg.SGHMC(scale_adapted=True, step_size=0.05, chains=500, burn_in=3000, thin=20, initial_scale=0.3)
    sampler = method.fit(target, jax.random.key(0))
    square = np.median(np.asarray(sampler.params.state.square), axis=0)
    assert square[0] > 20 * square[1]
    x = sampler.sample(jax.random.key(1), 5000).unconstrained
    np.testing.assert_allclose(x.std(axis=0), [0.1, 1.0], rtol=0.3)


def test_a_broken_minibatch_is_refused():
    with pytest.raises(eg.TargetError, match="minibatch returned an array"):
        eg.Target(lambda x: -jnp.sum(x**2), like=jnp.zeros(2), minibatch=lambda x, key: x)
    with pytest.raises(eg.ConfigError, match="noise < friction"):
        eg.SGHMC(friction=0.1, noise=0.2)
