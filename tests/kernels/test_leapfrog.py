import jax
import jax.numpy as jnp
import numpy as np

from ergodic import kernels
from ergodic.kernels import start

leapfrog = jax.jit(kernels.leapfrog, static_argnums=(0, 5))

STEP = np.array([[0.05, 0.11, 0.2]])
VARIANCE = np.array([[0.5, 1.7, 3.0]])


def logdensity(x):
    """Asymmetric and non-quadratic, so that a sign error cannot hide."""
    return -0.25 * jnp.sum(x**4) + x[0] * x[1] - jnp.exp(0.3 * x[2]) + 0.5 * x[0]


@jax.jit
def density(x):
    return jax.vmap(jax.value_and_grad(logdensity))(x)


def states(n=4):
    x, r = jax.random.normal(jax.random.key(0), (2, n, 3), jnp.float64)
    return x, r * np.sqrt(VARIANCE)


def test_it_is_the_appendix_algorithm(x64):
    """Against the paper's pseudocode, written out with 2 L forces."""
    x, r = states()
    a, b = x, r
    for _ in range(7):
        b = b + 0.5 * STEP * density(a)[1]
        a = a + STEP / VARIANCE * b
        b = b + 0.5 * STEP * density(a)[1]
    end, momentum = leapfrog(density, start(density, x), r, jnp.asarray(STEP), jnp.asarray(VARIANCE), 7)
    np.testing.assert_allclose(end.position, a, rtol=1e-12)
    np.testing.assert_allclose(momentum, b, rtol=1e-12)
    np.testing.assert_allclose(end.logdensity, density(a)[0], rtol=1e-12)
    np.testing.assert_allclose(end.gradient, density(a)[1], rtol=1e-12)


def test_it_is_reversible(x64):
    x, r = states()
    end, momentum = leapfrog(density, start(density, x), r, jnp.asarray(STEP), jnp.asarray(VARIANCE), 20)
    back, flipped = leapfrog(density, end, -momentum, jnp.asarray(STEP), jnp.asarray(VARIANCE), 20)
    np.testing.assert_allclose(back.position, x, atol=1e-12)
    np.testing.assert_allclose(flipped, -r, atol=1e-12)
    assert np.abs(end.position - x).max() > 0.1  # it did go somewhere


def test_it_preserves_volume(x64):
    def flow(z):
        x, r = z[None, :3], z[None, 3:]
        end, momentum = leapfrog(density, start(density, x), r, jnp.asarray(STEP), jnp.asarray(VARIANCE), 12)
        return jnp.concatenate([end.position[0], momentum[0]])

    x, r = states(3)
    jacobians = jax.jit(jax.vmap(jax.jacfwd(flow)))(jnp.concatenate([x, r], axis=1))
    np.testing.assert_allclose(np.linalg.det(np.asarray(jacobians)), np.ones(3), rtol=1e-10)


def test_energy_error_is_second_order(x64):
    """Halving the step at equal length divides the energy error by four."""
    x, r = states(1)

    def error(step, count):
        begin = start(density, x)
        one = jnp.ones((1, 3))
        end, momentum = leapfrog(density, begin, r, step * one, one, count)
        return 0.5 * jnp.sum(momentum**2 - r**2) - (end.logdensity - begin.logdensity)[0]

    ratio = float(error(0.02, 10) / error(0.01, 20))
    assert 3.7 < ratio < 4.3
