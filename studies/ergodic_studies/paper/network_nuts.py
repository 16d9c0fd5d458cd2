"""The gold standard: long runs of NUTS on a network's posterior, and whether they agree with each other.

A posterior over weights has modes without number (units can be exchanged), which no run visits all; what a run can be
asked is whether its chains agree on what the network *does*. So R-hat and effective draws are of f(x; w) on rows, and
of the noise, over chains that start at different trained networks.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from ergodic.bnn.network import Data, RegressionNetwork
from ergodic.bnn.prediction import Mixture
from ergodic.initial import DiagonalGaussian
from ergodic.methods.nuts import NUTS
from ergodic.methods.peers import lenient
from ergodic.runtime.arviz import arviz as import_arviz
from ergodic.runtime.cores import over_cores
from ergodic.runtime.validation import settle
from ergodic.target import Density

from .deep_ensemble import DeepEnsemble


class Agreement(NamedTuple):
    """How far chains agree, over rows and the noise."""

    rhat_median: float
    rhat_max: float
    effective_median: float
    effective_min: float


@dataclass(frozen=True)
class LongRun:
    """Settings.

    Attributes:
      nuts: chains, warm-up and the longest trajectory.
      draws: kept of each chain.
      thin: transitions from one kept draw to the next.
      iterations: of training the networks that chains start at, by Adam.
    """

    nuts: NUTS = field(default_factory=lambda: NUTS(chains=4, warmup=1000, max_doublings=10))
    draws: int = 1000
    thin: int = 1
    iterations: int = 3000

    def __post_init__(self) -> None:
        settle(self)

    def sample(
        self, network: RegressionNetwork, data: Data, key: Array
    ) -> Float[np.ndarray, "splits chains draws dim"]:
        """Chains of every split. Each runs alone: side by side, all would wait for the longest trajectory."""
        train_key, run_key = jax.random.split(key)
        begin = DeepEnsemble(self.nuts.chains, self.iterations).sample(network, data, train_key)
        splits, chains, dim = begin.shape
        rows = jax.tree.map(lambda leaf: jnp.repeat(leaf, chains, axis=0), data)
        keys = jax.random.split(run_key, splits * chains)
        positions = over_cores(_run, (self, network), (), rows, jnp.asarray(begin.reshape(-1, 1, dim)), keys)
        return np.asarray(positions).reshape(splits, chains, self.draws, dim)


def _run(method: LongRun, network: RegressionNetwork, data: Data, begin: Array, key: Array) -> Array:
    """One chain's draws, from one point."""
    warm_key, draw_key = jax.random.split(key)
    nuts, at = replace(method.nuts, chains=1), DiagonalGaussian(begin[0], jnp.full_like(begin[0], -jnp.inf))
    density = Density(lambda position: network.log_joint(position, data), network.layout)
    with lenient():
        params, _ = nuts.warm_up(density, at, warm_key)

    def keep(state: PyTree, key: Array) -> tuple[PyTree, Array]:
        def advance(state: PyTree, key: Array) -> tuple[PyTree, None]:
            return nuts.advance(density, params, state, key)[0], None

        state, _ = jax.lax.scan(advance, state, jax.random.split(key, method.thin))
        return state, state.position[0]

    return jax.lax.scan(keep, params.state, jax.random.split(draw_key, method.draws))[1]


def agreement(mixture: Mixture, chains: int) -> Agreement:
    """R-hat and effective draws (ArviZ) of every row's f(x; w) and of the noise; networks lie chain after chain."""
    arviz = import_arviz()
    values = np.column_stack([mixture.means, mixture.scales]).reshape(chains, -1, mixture.means.shape[1] + 1)
    rhat = np.array([float(arviz.rhat(column)) for column in np.moveaxis(values, -1, 0)])
    effective = np.array([float(arviz.ess(column)) for column in np.moveaxis(values, -1, 0)])
    return Agreement(float(np.median(rhat)), float(rhat.max()), float(np.median(effective)), float(effective.min()))
