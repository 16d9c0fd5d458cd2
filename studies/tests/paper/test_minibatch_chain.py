"""The appendix's chain on minibatches: its kernel without noise, and chains of several splits at once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodic as eg
from ergodic.bnn.chain import from_network_start
from ergodic.bnn.network import Data, RegressionNetwork
from ergodic.kernels import HMC, start
from ergodic_studies.paper.minibatch_chain import MinibatchChain
from ergodic_studies.paper.stochastic_hmc import StochasticHMC

NETWORK = RegressionNetwork(2, (4,))


def test_without_noise_the_stochastic_kernel_is_hmc(x64):
    """The same momentum, exact forces: the same move and sensitivity as HMC without a Metropolis step."""

    def exact(x):
        return -0.25 * jnp.sum(x**4, axis=-1), -(x**3)

    params = HMC(3).init(jax.random.key(0), 1, 2, jnp.float64, (0.1, 0.2))
    one = jax.tree.map(lambda leaf: leaf[0], params)
    one = one._replace(log_variance=jnp.array([0.3, -0.2]))
    ensemble = start(exact, jax.random.normal(jax.random.key(1), (5, 2), jnp.float64))
    key = jax.random.key(2)
    end, info, sensitivity = StochasticHMC(3).frozen_transition(lambda x, _: exact(x), one, ensemble, key)
    wanted, _, expected = HMC(3, adjusted=False).frozen_transition(exact, one, ensemble, key)
    assert np.allclose(end.position, wanted.position, rtol=1e-12) and np.all(info.accepted)
    assert np.allclose(sensitivity, expected, rtol=1e-10)


def test_chains_of_all_splits_move_by_parts_of_the_rows():
    """Two splits in one program: finite networks, tuned steps, the P0 that variational inference gave."""
    x = jax.random.normal(jax.random.key(0), (2, 24, 2))
    data = Data(x, jnp.sin(x[..., 0]))
    settings = eg.LongChain(6, 2, 15, 4, learning_rate=0.02, acceptance=None, vi_iterations=30, step_size=(0.02, 0.05))
    method = MinibatchChain.like(from_network_start(settings, NETWORK))
    samplers = method.fit_family(NETWORK.family(data, minibatches=4), jax.random.key(0))
    draws = samplers.sample(jax.random.key(1), 20)
    assert draws.unconstrained.shape == (2, 20, NETWORK.dim) and np.all(np.isfinite(draws.unconstrained))
    assert draws[0].attributes["adjusted"] is False and not np.array_equal(*samplers.params.initial.mean)


def test_settings_and_families_that_do_not_fit_are_refused():
    with pytest.raises(eg.ConfigError, match="acceptance must be None"):
        MinibatchChain(acceptance=0.8)
    family = eg.Family(lambda x, d: -jnp.sum((x - d) ** 2), jnp.zeros((2, 3)), jnp.zeros(3))
    with pytest.raises(eg.TargetError, match="minibatch"):
        MinibatchChain().fit_family(family, jax.random.key(0))
