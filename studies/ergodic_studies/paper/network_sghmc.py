"""SGHMC on a network's posterior, for all splits at once: `methods/sghmc.py`'s updates with minibatches of rows.

The three variants of the paper's table: Chen's update with one setting for all tables, the same with a setting chosen
for each table, both chosen on rows held out of the training rows, and the scale-adapted update with its authors'
settings (ε 0.01, friction 0.05, 3,000 of 13,000 steps burnt in, every 100th kept, 20 rows per minibatch).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ergodic.bnn.network import Data, RegressionNetwork
from ergodic.methods.sghmc import SGHMC, SGHMCState
from ergodic.runtime.cores import over_cores
from ergodic.target import Density


@dataclass(frozen=True)
class NetworkSGHMC:
    """Settings.

    Attributes:
      update: step size, friction and the rest of SGHMC; its chains run side by side on every split.
      rows: of a minibatch, drawn for each chain and step.
    """

    update: SGHMC = field(default_factory=lambda: SGHMC(scale_adapted=True, chains=10))
    rows: int = 20

    def sample(
        self, network: RegressionNetwork, data: Data, key: Array, networks: int
    ) -> Float[np.ndarray, "splits networks dim"]:
        """Networks of every split: chains after burn-in, every ``thin``-th state."""
        keys = jax.random.split(key, data.y.shape[0])
        return np.asarray(over_cores(_sample, (self, network, networks), (), data, keys))


def _posterior(network: RegressionNetwork, data: Data, rows: int) -> Density:
    """The posterior, which estimates itself from so many rows, drawn anew every time."""

    def estimate(position: dict[str, Array], key: Array) -> Array:
        chosen = jax.random.randint(key, (rows,), 0, data.rows)
        return network.log_joint(position, Data(data.x[chosen], data.y[chosen]), data.rows / rows)

    return Density(lambda position: network.log_joint(position, data), network.layout, estimate)


def _sample(method: NetworkSGHMC, network: RegressionNetwork, networks: int, data: Data, key: Array) -> Array:
    update = method.update
    kept = -(-networks // update.chains)
    first_key, burn_key, keep_key = jax.random.split(key, 3)
    density = _posterior(network, data, method.rows)

    def step(state: SGHMCState, key: Array, learning: bool) -> tuple[SGHMCState, None]:
        return update.update(density, state, key, learning), None

    def keep(state: SGHMCState, key: Array) -> tuple[SGHMCState, Array]:
        keys = jax.random.split(key, update.thin)
        state, _ = jax.lax.scan(lambda state, key: step(state, key, False), state, keys)
        return state, state.position

    noise = jax.vmap(lambda key: jax.random.normal(key, (network.dim,)))(jax.random.split(first_key, update.chains))
    position = jnp.asarray(network.random_scale(), noise.dtype)[None, :] * noise
    one, zero = jnp.ones_like(position), jnp.zeros_like(position)
    state = SGHMCState(position, zero, one, zero, one)
    burn_keys = jax.random.split(burn_key, update.burn_in)
    state, _ = jax.lax.scan(lambda state, key: step(state, key, True), state, burn_keys)
    positions = jax.lax.scan(keep, state, jax.random.split(keep_key, kept))[1]
    return positions.reshape(-1, network.dim)[:networks]
