import jax
import jax.numpy as jnp
import numpy as np

import ergodic as eg
from ergodic.chain import ChainParams, simulate
from ergodic.initial import DiagonalGaussian, scale_for_entropy
from ergodic.kernels import HMC
from statistics_ergodic import z_of_mean


def test_gradients_a_draw_are_steps_times_leapfrogs_plus_one():
    """Counted by the density itself as it runs, one callback an evaluation of the whole ensemble."""
    seen = []

    def batched(x):
        jax.debug.callback(lambda: seen.append(1))
        return jax.vmap(jax.value_and_grad(lambda v: -0.5 * jnp.sum(v**2)))(x)

    kernel = HMC(leapfrogs=5)
    params = ChainParams(
        DiagonalGaussian(jnp.zeros(2), jnp.zeros(2)), kernel.init(jax.random.key(0), 7, 2, jnp.float32)
    )
    jax.block_until_ready(jax.jit(lambda p: simulate(batched, kernel, p, jax.random.key(1), 8))(params))
    jax.effects_barrier()
    assert len(seen) == 7 * 5 + 1 == eg.HEI(steps=7, leapfrogs=5).depth(params)


def test_the_trace_follows_the_chain():
    target = eg.targets.get("gaussian")
    sampler = eg.HEI(steps=4).untuned(target, jax.random.key(0))
    draws = sampler.sample(jax.random.key(1), 500)
    assert draws.trace["expected_logdensity"].shape == (5,)
    assert draws.trace["acceptance"].shape == draws.trace["divergence"].shape == (4,)
    np.testing.assert_allclose(draws.trace["expected_logdensity"][-1], draws.logdensity.mean(), rtol=1e-5)
    np.testing.assert_allclose(draws.trace["acceptance"].mean(), draws.stats["acceptance_rate"].mean(), rtol=1e-5)


def test_p0_samples_density_and_entropy_agree():
    """E[-log p0] = H(P0) within 4.5 standard errors, and moments likewise: probability of failure below 1e-4."""
    p0 = DiagonalGaussian(jnp.array([1.0, -2.0]), jnp.log(jnp.array([0.5, 3.0])))
    x = p0.sample(jax.random.key(0), 200_000)
    assert abs(z_of_mean(-p0.logdensity(x), float(p0.entropy()))) < 4.5
    assert np.abs(z_of_mean(x, np.asarray(p0.mean, np.float64))).max() < 4.5
    squares = (np.asarray(x, np.float64) - np.asarray(p0.mean)) ** 2
    assert np.abs(z_of_mean(squares, np.array([0.25, 9.0]))).max() < 4.5
    np.testing.assert_allclose(
        DiagonalGaussian(jnp.zeros(3), jnp.full(3, jnp.log(scale_for_entropy(4.2, 3)))).entropy(), 4.2, rtol=1e-5
    )
