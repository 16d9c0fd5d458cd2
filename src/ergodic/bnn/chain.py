"""The ergodic chain on a network's posterior, for all splits of a table at once (the paper's appendix).

T = 50 transitions of 3 leapfrogs from `start.MeanField`, tuned by E_{p_T}[log p(w, y)] with frozen forces; P0 stays.
Two modes:

- ``minibatches=None``: forces from all rows, Metropolis-corrected. Exact but for the chain's length.
- ``minibatches=19`` (the appendix): every force from one of so many parts of the rows, drawn at random, and x_T judged
  on another; no Metropolis step (`kernels/stochastic.py` says what that costs).

Two ways of tuning. ``acceptance=None`` is the paper's, and on networks it undoes itself: the objective's gradient holds
the Metropolis decisions, so that steps grow until nearly all are rejected. With ``acceptance=a``, which is ours, the
objective only shapes a transition's step sizes over the coordinates, and their common factor goes where a part a of the
moves is accepted:

    log φ2 ← log φ2 + η (g - mean g) + κ (α - a)        g Adam's direction, α the mean acceptance of this transition
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from ..chain import ChainParams, Trace, advance
from ..kernels import HMC, Ensemble, HMCParams, start
from ..kernels.stochastic import StochasticDensity, StochasticHMC
from ..runtime.errors import ConfigError
from ..runtime.validation import boolean, numbers, optional, positive_float, positive_int, settle
from ..tuning.acceptance import check_acceptance
from ..tuning.emlbo import frozen_runs
from .network import Data, Network
from .over_splits import over_splits
from .start import MeanField

_GAIN = 0.5
"""κ."""
_ROW_PASSES = 100_000
"""Rows times leapfrogs of a long chain's transition: large tables get the same arithmetic (docs/bnn.md: its time)."""
_FEW = 1100
"""Rows below which it gets √(this / rows) times that: few rows may have little noise, and steps are short then."""
_LONGEST = 800
"""Leapfrogs of its transition at most."""


class Fitted(NamedTuple):
    """Chains of every split, and how tuning went."""

    params: ChainParams
    """Every leaf with a leading axis of splits."""
    record: dict[str, np.ndarray]
    """Iterations by splits: ``expected`` (E_{p_T}[log p]) and ``acceptance``."""


@dataclass(frozen=True)
class NetworkChain:
    """Settings of HEI on networks.

    Attributes:
      steps, leapfrogs: T and L.
      iterations: of tuning; the appendix's 10 epochs of 19 minibatches are 190.
      particles: runs an iteration.
      learning_rate: Adam's, on log step sizes.
      minibatches: None for all rows and a Metropolis step, or how many parts the rows are in.
      initial: P0.
      step_size: range from which the first step sizes are drawn.
      acceptance: None, or the part of moves that every transition's step size is to have accepted.
      adjusted: whether moves by forces from all rows are Metropolis-corrected.
    """

    steps: int = 50
    leapfrogs: int = 3
    iterations: int = 190
    particles: int = 8
    learning_rate: float = 0.02
    minibatches: int | None = None
    initial: MeanField = field(default_factory=MeanField)
    step_size: tuple[float, float] = (0.002, 0.005)
    acceptance: float | None = None
    adjusted: bool = True

    name = "HEI"

    def __post_init__(self) -> None:
        settle(
            self,
            **dict.fromkeys(("steps", "leapfrogs", "iterations", "particles"), positive_int),
            learning_rate=positive_float,
            minibatches=optional(positive_int),
            step_size=numbers(positive_float, 2),
            acceptance=optional(check_acceptance),
            adjusted=boolean,
        )
        if self.acceptance is not None and self.minibatches is not None:
            raise ConfigError("with minibatches every move is accepted: acceptance must be None")

    @property
    def kernel(self) -> Any:
        """One transition."""
        if self.minibatches is not None:
            return StochasticHMC(self.leapfrogs)
        return HMC(self.leapfrogs, adjusted=self.adjusted)

    def density(self, network: Network, data: Data) -> Any:
        """What the kernel takes: the posterior, or its estimates from parts of the rows."""
        return network.density(data) if self.minibatches is None else parts(network, data, self.minibatches)

    def fit(self, network: Network, data: Data, key: Array) -> Fitted:
        """Tune a chain to every split; ``data`` has a leading axis of splits."""
        keys = jax.random.split(key, data.y.shape[0])
        params, record = over_splits(_fit, (self, network), data, keys)
        return Fitted(params, {name: np.asarray(values) for name, values in record.items()})

    def untuned(self, network: Network, data: Data, key: Array) -> ChainParams:
        """The chains before tuning."""
        keys = jax.vmap(lambda key: jax.random.split(key)[0])(jax.random.split(key, data.y.shape[0]))
        return over_splits(_begin, (self, network), data, keys)

    def sample(
        self, network: Network, data: Data, params: ChainParams, key: Array, networks: int
    ) -> tuple[Float[np.ndarray, "splits networks dim"], Trace]:
        """Independent draws of every split's posterior, and averages along its chain (a leading axis of splits)."""
        keys = jax.random.split(key, data.y.shape[0])
        positions, trace = over_splits(_sample, (self, network, networks), data, params, keys)
        return np.asarray(positions), trace


def long_chain(rows: int, scale: float = 1.0) -> NetworkChain:
    """Ours: the appendix's 50 transitions, each of as many leapfrogs as a fixed amount of arithmetic buys.

    P0 is a tenth as wide (`ergodic_studies.bench.network_choices`), and step sizes go by acceptance.
    ``scale`` shortens its trajectories.
    """
    passes = _ROW_PASSES * math.sqrt(max(1.0, _FEW / rows))
    return NetworkChain(
        leapfrogs=max(3, round(scale * min(_LONGEST, passes / rows))),
        iterations=25,
        particles=1,
        learning_rate=0.05,
        initial=MeanField(spread=0.1),
        acceptance=0.8,
    )


def parts(network: Network, data: Data, count: int) -> StochasticDensity:
    """Estimates of log p(w, y) and its force from one of ``count`` parts of the rows, one for the whole ensemble.

    Part k are the rows from k n/K to (k + 1) n/K, rounded down; of a part that is a row short, one counts for nothing.
    """
    size = -(-data.rows // count)

    def estimate(positions: Array, key: Array) -> tuple[Array, Array]:
        part = jax.random.randint(key, (), 0, count)
        first, after = part * data.rows // count, (part + 1) * data.rows // count
        rows = first + jnp.arange(size)
        few = Data(data.x[rows], data.y[rows])
        times = jnp.where(rows < after, float(count), 0.0).astype(data.y.dtype)
        return jax.vmap(jax.value_and_grad(lambda flat: network.logdensity(flat, few, times)))(positions)

    return estimate


def _begin(method: NetworkChain, network: Network, data: Data, key: Array) -> ChainParams:
    start_key, chain_key = jax.random.split(key)
    transitions = method.kernel.init(chain_key, method.steps, network.dim, jnp.float32, method.step_size)
    return ChainParams(method.initial.fit(network, data, start_key), transitions)


def _fit(method: NetworkChain, network: Network, data: Data, key: Array) -> tuple[ChainParams, dict[str, Array]]:
    begin_key, tune_key = jax.random.split(key)
    params, adam = _begin(method, network, data, begin_key), optax.scale_by_adam()
    density = method.density(network, data)

    def step(carry: tuple[Any, Any], key: Array) -> tuple[tuple[Any, Any], dict[str, Array]]:
        transitions, state = carry
        noise_key, chain_key = jax.random.split(key)
        begin = _ensemble(method, density, params, noise_key, method.particles)
        runs = frozen_runs(density, method.kernel, transitions, begin, jax.random.split(chain_key, method.steps))
        with jax.numpy_dtype_promotion("standard"):  # optax raises a float to an integer count
            direction, state = adam.update(runs.gradient, state)
        transitions = _updated(method, transitions, direction, runs.acceptance)
        row = {"expected": jnp.mean(runs.end.logdensity), "acceptance": jnp.mean(runs.acceptance)}
        return (transitions, state), row

    keys = jax.random.split(tune_key, method.iterations)
    (transitions, _), record = jax.lax.scan(step, (params.transitions, adam.init(params.transitions)), keys)
    return params._replace(transitions=transitions), record


def _updated(method: NetworkChain, transitions: HMCParams, direction: HMCParams, acceptance: Array) -> HMCParams:
    """One iteration's step along Adam's direction; with its mean over coordinates replaced by what acceptance asks."""
    if method.acceptance is None:
        return jax.tree.map(lambda p, d: p + method.learning_rate * d, transitions, direction)
    shape = direction.log_step - jnp.mean(direction.log_step, axis=-1, keepdims=True)
    common = _GAIN * (acceptance - method.acceptance)[:, None]
    return transitions._replace(log_step=transitions.log_step + method.learning_rate * shape + common)


def _ensemble(method: NetworkChain, density: Any, params: ChainParams, key: Array, particles: int) -> Ensemble:
    """Draws of P0, with what the kernel carries along."""
    position_key, force_key = jax.random.split(key)
    position = params.initial.sample(position_key, particles)
    if method.minibatches is None:
        return start(density, position)
    return start(lambda x: density(x, force_key), position)


def _sample(
    method: NetworkChain, network: Network, networks: int, data: Data, params: ChainParams, key: Array
) -> tuple[Array, Trace]:
    density = method.density(network, data)

    def draw(key: Array) -> tuple[Array, Trace]:
        noise_key, chain_key = jax.random.split(key)
        begin = _ensemble(method, density, params, noise_key, 1)
        end, _, trace = advance(density, method.kernel, params.transitions, begin, chain_key)
        return end.position[0], trace

    positions, traces = jax.lax.map(draw, jax.random.split(key, networks), batch_size=_together())
    return positions, jax.tree.map(lambda values: jnp.mean(values, axis=0), traces)


def _together() -> int | None:
    """Networks that are drawn side by side. On a processor each alone: what it computes then stays in the cache."""
    return None if jax.default_backend() == "cpu" else 100
