"""A deep ensemble (Lakshminarayanan, Pritzel & Blundell 2017), for scale: networks trained by Adam from random starts.

Each climbs log p(w, τ, y), so that it is a local maximum of the posterior, not a draw of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from ergodic.bnn.network import Data, RegressionNetwork
from ergodic.runtime.cores import over_cores
from ergodic.tuning.adam import Adam


@dataclass(frozen=True)
class DeepEnsemble:
    """Settings: how many networks, and Adam's iterations and rate, which falls to a hundredth."""

    members: int = 5
    iterations: int = 3000
    learning_rate: float = 0.01

    def sample(self, network: RegressionNetwork, data: Data, key: Array) -> Float[np.ndarray, "splits members dim"]:
        """The trained networks of every split."""
        keys = jax.random.split(key, data.y.shape[0])
        return np.asarray(over_cores(_train, (self, network), (), data, keys))


def _train(method: DeepEnsemble, network: RegressionNetwork, data: Data, key: Array) -> Array:
    rates = method.learning_rate * jnp.geomspace(1.0, 0.01, method.iterations)
    noise = jax.vmap(lambda key: jax.random.normal(key, (network.dim,)))(jax.random.split(key, method.members))
    begin, adam = jnp.asarray(network.random_scale(), noise.dtype)[None, :] * noise, Adam()
    force = jax.vmap(jax.grad(network.logdensity), (0, None))

    def step(carry: tuple[Array, PyTree], rate: Array) -> tuple[tuple[Array, PyTree], None]:
        positions, state = carry
        direction, state = adam.step(force(positions, data), state)
        return (positions + rate * direction, state), None

    return jax.lax.scan(step, (begin, adam.init(begin)), rates)[0][0]
