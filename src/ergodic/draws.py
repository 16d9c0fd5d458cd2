"""What `Sampler.sample` gives: positions, a few statistics of each draw, and what they cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jaxtyping import Array, Float, PyTree

from .protocols import Fact
from .runtime.arviz import ess
from .runtime.drawing import Batch, Kind
from .runtime.errors import ConfigError
from .runtime.ports import Port
from .runtime.programs import Cost, compiled
from .runtime.resampling import resampled, shares
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
        ``copies`` where they were resampled (how often a draw's run comes), ``log_weight`` where they are weighted.
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
    def runs(self) -> PyTree:
        """What `position` has, also where runs carry weights, of which run i counts ``weights[i]``."""
        return constrained(self.target, self.unconstrained)

    @property
    def position(self) -> PyTree:
        """The draws as a pytree, leading axis = draws, constrained where the target has a `constrain` map."""
        return self.runs

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
        return shares(log_weight)

    def mean(self, values: np.ndarray) -> np.ndarray | np.floating:
        """The (weighted) average over draws of one value, or one row, per draw."""
        return self.weights @ np.asarray(values, np.float64)

    def effective_size(self) -> float:
        """How many independent draws these are worth.

        n for independent draws; n²/Σ N² for resampled ones, whose runs come N times each; (Σw)²/Σw² for weighted ones;
        for correlated ones ArviZ's bulk estimate, the smallest over coordinates and log π*.
        """
        if self.kind is Kind.WEIGHTED:
            return float(1 / np.sum(self.weights**2))
        if self.kind is Kind.RESAMPLED:
            return float(len(self) / np.mean(self.stats["copies"]))
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
            if self.kind is Kind.RESAMPLED:
                raise ConfigError("these draws have no weights any more: sample(key, n, weighted=True).log_z()")
            raise ConfigError(f"{self.attributes.get('method', 'it')} gives no weights, so no estimate of log Z")
        top = float(log_weight.max())
        weight = np.exp(log_weight.astype(np.float64) - top)
        return top + float(np.log(weight.mean())), float(weight.std(ddof=1) / weight.mean() / np.sqrt(len(weight)))

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
        mean, worth = float(self.mean(self.logdensity)), ""
        if self.kind in (Kind.WEIGHTED, Kind.RESAMPLED):
            worth = f" worth {self.effective_size():,.0f} independent ones"
        return (
            f"{type(self).__name__}({len(self):,} {self.kind} draws of '{self.target.name}'{worth}, "
            f"dim={self.target.dim}, E[log π*]={mean:.4g}, {self.cost.gradients:,} gradients in "
            f"{self.cost.run_seconds:.2f} s)"
        )


@dataclass(frozen=True, eq=False, repr=False)
class WeightedDraws(Draws):
    """Runs that count by their weights, as ``sample(key, n, weighted=True)`` gives them.

    A plain average over them would be wrong, so `position` and `to_arviz` refuse. `mean` weights them, `resample` makes
    equally weighted draws, and `runs` has their positions.
    """

    kind: Kind = Kind.WEIGHTED

    @property
    def position(self) -> PyTree:
        """An error: runs with weights have no positions that could be averaged."""
        raise ConfigError(_UNEQUAL.format("position"))

    def mean(self, values: np.ndarray | Callable[[PyTree], np.ndarray]) -> np.ndarray | np.floating:
        """The weighted average of one value, or one row, per run; or of a function that maps `runs` to them."""
        return super().mean(values(self.runs) if callable(values) else values)

    def resample(self, key: Array, n: int | None = None) -> Draws:
        """n equally weighted draws, chosen by weight (systematic resampling); in ``stats["copies"]``, how often each.

        Fewer than the runs are worth hardly repeat. By default n is the number of runs, and many do.
        """
        n = len(self) if n is None else positive_int(n, "n, the number of draws")
        runs: tuple[Any, ...] = (self.unconstrained, self.logdensity, self.stats, self.trace)
        made: tuple[Any, Any, Any, Any] = resampled(Batch(*runs), n, key)  # on the host, as these are
        facts = {name: fact for name, fact in self.attributes.items() if name != "weighted_draws"}
        facts["resampled_draws"] = True
        return stated(Draws(self.target, *made, self.cost, facts, Kind.RESAMPLED))

    def to_arviz(self, *, predictive: bool | None = None, log_likelihood: bool | None = None) -> PyTree:
        """An error: ArviZ knows no weights."""
        raise ConfigError(_UNEQUAL.format("to_arviz()"))


def stated(draws: Draws) -> Draws:
    """Draws whose attributes say how many independent ones they are worth."""
    return replace(draws, attributes=draws.attributes | {"effective_size": round(draws.effective_size(), 1)})


_UNEQUAL = (
    "runs with weights have no {}, because plain averages over them are wrong: .mean(f) weights them, .resample(key) "
    "gives equally weighted draws, and .runs has the positions"
)
