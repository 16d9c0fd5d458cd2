"""What `Sampler.sample` gives: positions, a few statistics of each draw, and what they cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import jax
import numpy as np
from jaxtyping import Array, Float, PyTree

from .protocols import Fact
from .runtime.arviz import ess
from .runtime.drawing import Kind
from .runtime.errors import ConfigError
from .runtime.ports import Port
from .runtime.programs import Cost, compiled
from .runtime.validation import positive_int
from .target import Layout, Target

if TYPE_CHECKING:
    from .diagnostics.summary import Summary
else:
    Summary = object  # stands above this file

_CONSTRAIN_CHUNK = 1 << 14


summarising: Port[Callable[[Draws, int | None], Summary]] = Port("Draws.summary")
"""(draws, rows) to the table of them, with what should worry at first sight."""
converting: Port[Callable[..., PyTree]] = Port("Draws.to_arviz")
"""(draws, predictive=..., log_likelihood=...) to ArviZ InferenceData."""


def constrained(target: Target, positions: np.ndarray) -> PyTree:
    """Flat positions ``(n, dim)`` as the pytree the user wants to see, leading axis = draws; some at a time."""
    if target.constrain is None:
        return target.layout.unravel(positions)
    blocks = (positions[at : at + _CONSTRAIN_CHUNK] for at in range(0, len(positions), _CONSTRAIN_CHUNK))
    static = (target.layout, target.constrain)
    parts = [jax.device_get(compiled(_constrain, static, block)(block)) for block in blocks]
    return jax.tree_util.tree_map(lambda *leaves: np.concatenate(leaves), *parts)


def _constrain(
    layout: Layout, constrain: Callable[[PyTree], PyTree], positions: Float[Array, "particles dim"]
) -> PyTree:
    return jax.vmap(lambda flat: constrain(layout.unravel(flat)))(positions)


@dataclass(frozen=True, eq=False)
class Draws:
    """Draws from an approximation of a target, as NumPy arrays with one row per draw.

    Attributes:
      target: what was sampled.
      unconstrained: flat unconstrained positions, ``(n, dim)``.
      logdensity: log π* of the unconstrained position, ``(n,)``.
      stats: further values per draw, ``(n,)`` each, such as ``acceptance_rate``, ``diverging``, ``energy_error``;
        ``log_weight`` where draws are weighted.
      trace: averages along the chain, ``expected_logdensity``, ``acceptance``, ``divergence``, over every run that was
        simulated (the last chunk may have simulated more than were asked for).
      cost: gradients and seconds spent on these draws.
      attributes: plain facts about where they come from: method, its settings, whether draws are independent.
      kind: what the draws are to one another.
      chains: how many ran side by side; draws are in the order step 1 of every chain, step 2 of every chain, ...
    """

    target: Target
    unconstrained: np.ndarray
    logdensity: np.ndarray
    stats: dict[str, np.ndarray] = field(default_factory=dict)
    trace: dict[str, np.ndarray] = field(default_factory=dict)
    cost: Cost = field(default_factory=Cost)
    attributes: dict[str, Fact] = field(default_factory=dict)
    kind: Kind = Kind.CORRELATED
    chains: int = 1

    def __len__(self) -> int:
        return len(self.logdensity)

    @cached_property
    def position(self) -> PyTree:
        """The draws as a pytree, leading axis = draws, constrained where the target has a `constrain` map."""
        return constrained(self.target, self.unconstrained)

    @property
    def independent(self) -> bool:
        """Whether each draw comes from a run of its own, unweighted."""
        return self.kind is Kind.INDEPENDENT

    @cached_property
    def weights(self) -> np.ndarray:
        """Normalised weights, ``(n,)``: 1/n each unless the method weights its draws."""
        log_weight = self.stats.get("log_weight")
        if log_weight is None:
            return np.full(len(self), 1 / len(self))
        weight = np.exp(log_weight.astype(np.float64) - log_weight.max())
        return weight / weight.sum()

    def mean(self, values: np.ndarray) -> np.ndarray | np.floating:
        """The (weighted) average over draws of one value, or one row, per draw."""
        return self.weights @ np.asarray(values, np.float64)

    def effective_size(self) -> float:
        """How many independent draws these are worth.

        n for independent draws; (Σw)²/Σw² for weighted ones; for correlated ones ArviZ's bulk estimate, the smallest
        over coordinates and log π*.
        """
        if self.kind is Kind.WEIGHTED:
            return float(1 / np.sum(self.weights**2))
        if self.kind is Kind.INDEPENDENT:
            return float(len(self))
        columns = np.concatenate([self.unconstrained, self.logdensity[:, None]], axis=1, dtype=np.float64)
        chains = self.by_chain(columns)
        if chains.shape[1] < 4:  # too short to tell of correlation: each chain counts as one draw
            return float(min(self.chains, len(self)))
        return float(min(ess(chains[:, :, i]) for i in range(chains.shape[2])))

    def log_z(self) -> tuple[float, float]:
        """log of the average weight, and its standard error, where weights estimate the normalising constant."""
        log_weight = self.stats.get("log_weight")
        if log_weight is None:
            raise ConfigError(
                f"{self.attributes.get('method', 'the method')} gives no weights, so no estimate of log Z"
            )
        top = float(log_weight.max())
        weight = np.exp(log_weight.astype(np.float64) - top)
        return top + float(np.log(weight.mean())), float(weight.std(ddof=1) / weight.mean() / np.sqrt(len(weight)))

    def resample(self, key: Array, n: int | None = None) -> Draws:
        """n unweighted draws, chosen with replacement by weight (systematic resampling). They may repeat."""
        n = len(self) if n is None else positive_int(n, "n, the number of draws")
        places = (np.arange(n) + float(jax.random.uniform(key))) / n
        chosen = np.minimum(np.searchsorted(np.cumsum(self.weights), places), len(self) - 1)
        chosen = np.asarray(jax.random.permutation(jax.random.fold_in(key, 1), chosen))
        stats = {name: column[chosen] for name, column in self.stats.items() if name != "log_weight"}
        return replace(
            self,
            unconstrained=self.unconstrained[chosen],
            logdensity=self.logdensity[chosen],
            stats=stats,
            kind=Kind.CORRELATED,
        )

    def joined(self, more: Draws) -> Draws:
        """These draws and others of the same sampler, with what both cost."""
        one, two = len(self), len(more)
        trace = {name: (one * column + two * more.trace[name]) / (one + two) for name, column in self.trace.items()}
        return replace(
            self,
            unconstrained=np.concatenate([self.unconstrained, more.unconstrained]),
            logdensity=np.concatenate([self.logdensity, more.logdensity]),
            stats={name: np.concatenate([column, more.stats[name]]) for name, column in self.stats.items()},
            trace=trace,
            cost=self.cost + more.cost,
        )

    def by_chain(self, values: np.ndarray) -> np.ndarray:
        """Values with one row per draw as ``(chains, steps, ...)``; an incomplete last step is left out."""
        steps = len(values) // self.chains
        return np.swapaxes(values[: steps * self.chains].reshape(steps, self.chains, *values.shape[1:]), 0, 1)

    def summary(self, rows: int | None = 30) -> Summary:
        """Mean, sd, quantiles, Monte Carlo error and effective size of every coordinate, as a table and as arrays.

        The table shows the first ``rows`` coordinates, and log π*; None: all. What should worry at first sight is said
        below it.
        """
        return summarising.verb(self, rows)

    def to_arviz(self, *, predictive: bool | None = None, log_likelihood: bool | None = None) -> PyTree:
        """As ArviZ InferenceData: chain=1, draw=n; attributes say whether the draws are independent.

        Where the target's model knows them, also dims, coords, observed_data, constant_data, posterior_predictive and
        log_likelihood. The last two are computed now: ``True`` asks for one, ``False`` leaves it out, None includes it
        if it has at most 50 million values. Predictions are the same each time: their key comes from the draws' seed.
        """
        return converting.verb(self, predictive=predictive, log_likelihood=log_likelihood)

    def __repr__(self) -> str:
        mean = float(self.mean(self.logdensity))
        return (
            f"Draws({len(self):,} {self.kind} draws of '{self.target.name}', dim={self.target.dim}, "
            f"E[log π*]={mean:.4g}, {self.cost.gradients:,} gradients in {self.cost.run_seconds:.2f} s)"
        )
