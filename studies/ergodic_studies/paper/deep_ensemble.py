"""A deep ensemble (Lakshminarayanan, Pritzel & Blundell 2017), for scale: networks trained by Adam from random starts.

Each climbs log p(w, τ, y), so that it is a local maximum of the posterior, not a draw of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from ergodic.bnn.network import Data, Network
from ergodic.bnn.over_splits import over_splits
from ergodic.bnn.start import random_network


@dataclass(frozen=True)
class Ensemble:
    """Settings: how many networks, and Adam's iterations and rate, which falls to a hundredth."""

    members: int = 5
    iterations: int = 3000
    learning_rate: float = 0.01

    def sample(self, network: Network, data: Data, key: Array) -> Float[np.ndarray, "splits members dim"]:
        """The trained networks of every split."""
        keys = jax.random.split(key, data.y.shape[0])
        return np.asarray(over_splits(_train, (self, network), data, keys))


def _train(method: Ensemble, network: Network, data: Data, key: Array) -> Array:
    rates = method.learning_rate * jnp.geomspace(1.0, 0.01, method.iterations)
    begin = jax.vmap(lambda key: random_network(network, key))(jax.random.split(key, method.members))
    density, adam = network.density(data), optax.scale_by_adam()

    def step(carry: tuple[Array, optax.OptState], rate: Array) -> tuple[tuple[Array, optax.OptState], None]:
        positions, state = carry
        with jax.numpy_dtype_promotion("standard"):  # optax raises a float to an integer count
            direction, state = adam.update(density(positions)[1], state)
        return (positions + rate * direction, state), None

    return jax.lax.scan(step, (begin, adam.init(begin)), rates)[0][0]
