"""What `Sampler.sample` gives: positions, a few statistics of each draw, and what they cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import jax
import numpy as np
from jaxtyping import Array, Float, PyTree
from numpy.typing import ArrayLike

from .protocols import Fact
from .runtime import html
from .runtime.arviz import ess
from .runtime.drawing import Batch, Kind
from .runtime.errors import ConfigError, unknown
from .runtime.ports import Port
from .runtime.programs import Cost, compiled
from .runtime.resampling import resampled, shares
from .runtime.validation import positive_int
from .target import Layout, Target, leaf_name

if TYPE_CHECKING:
    from .diagnostics.summary import Summary
else:
    Summary = object  # stands above this file

_CONSTRAIN_CHUNK = 1 << 14


summarising: Port[Callable[[Draws, int | None, Sequence[str] | None], Summary]] = Port("Draws.summary")
"""(draws, rows, var_names) to the table of them, with what should worry at first sight."""
framing: Port[Callable[[Draws, Literal["pandas", "polars"], Sequence[str] | None], Any]] = Port("Draws.to_pandas")
"""(draws, library, var_names) to a data frame of that library."""
plotting: Port[Callable[[Draws, Sequence[str] | None], Any]] = Port("Draws.plot")
"""(draws, var_names) to a Matplotlib figure."""
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

    def __getitem__(self, which: int | str | slice | ArrayLike) -> PyTree:
        """``draws["theta"]`` is a variable, ``draws[i]`` one position, ``draws[a:b]`` and ``draws[rows]`` are draws.

        Rows are numbers or a mask. Of correlated draws only slices can be taken, which keep every chain's order.
        """
        if isinstance(which, str):
            return self.to_numpy([which])[which]
        if isinstance(which, int | np.integer):
            at = range(len(self))[int(which)]
            return jax.tree_util.tree_map(lambda leaf: leaf[at], self.position)
        if isinstance(which, slice):
            return self._part(which, self.chains // math.gcd(self.chains, which.step or 1))
        if self.kind is Kind.CORRELATED:
            raise ConfigError("rows of correlated draws belong to chains: take a slice, such as draws[a:b]")
        rows = np.asarray(which)
        if rows.ndim != 1 or rows.dtype.kind not in "bi":
            raise ConfigError(
                f"draws[...] takes a name, a number, a slice, or rows as numbers or a mask: not {which!r}"
            )
        return self._part(rows, 1)

    def __iter__(self) -> Iterator[PyTree]:
        """One position after the other, as ``draws[i]`` gives them."""
        leaves, structure = jax.tree_util.tree_flatten(self.position)
        return (jax.tree_util.tree_unflatten(structure, row) for row in zip(*leaves, strict=True))

    def __getstate__(self) -> dict[str, Any]:
        return {each.name: self.__dict__[each.name] for each in fields(self)}  # without what is computed from them

    def _part(self, rows: slice | np.ndarray, chains: int) -> Draws:
        """Some of the draws, with their share of the cost."""
        logdensity = self.logdensity[rows]
        share = len(logdensity) / max(len(self), 1)
        return replace(
            self,
            unconstrained=self.unconstrained[rows],
            logdensity=logdensity,
            stats={name: column[rows] for name, column in self.stats.items()},
            cost=Cost(
                round(share * self.cost.gradients),
                self.cost.depth,
                share * self.cost.compile_seconds,
                share * self.cost.run_seconds,
            ),
            chains=chains,
        )

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

    def by_chain(self, values: np.ndarray) -> np.ndarray:
        """Values with one row per draw as ``(chains, steps, ...)``; an incomplete last step is left out."""
        steps = len(values) // self.chains
        return np.swapaxes(values[: steps * self.chains].reshape(steps, self.chains, *values.shape[1:]), 0, 1)

    def summary(self, rows: int | None = 30, *, var_names: Sequence[str] | None = None) -> Summary:
        """Mean, sd, quantiles, Monte Carlo error and effective size of every coordinate, as a table and as arrays.

        The table shows the first ``rows`` coordinates, and log π*; None: all. ``var_names`` chooses variables. What
        should worry at first sight is said below it.
        """
        return summarising.verb(self, rows, var_names)

    def to_numpy(self, var_names: Sequence[str] | None = None) -> dict[str, np.ndarray]:
        """Every variable, or those named, by name: arrays whose first axis is that of the draws."""
        return variables(self.position, var_names)

    def to_pandas(self, var_names: Sequence[str] | None = None) -> Any:
        """A pandas DataFrame: a row per draw, a column per scalar, named as in `summary`; and log π* in ``lp``."""
        return framing.verb(self, "pandas", var_names)

    def to_polars(self, var_names: Sequence[str] | None = None) -> Any:
        """A Polars DataFrame, with the columns that `to_pandas` has."""
        return framing.verb(self, "polars", var_names)

    to_dataframe = to_pandas  # what ArviZ calls it

    def to_arviz(self, *, predictive: bool | None = None, log_likelihood: bool | None = None) -> PyTree:
        """As ArviZ InferenceData: chain=1, draw=n; attributes say whether the draws are independent.

        Where the target's model knows them, also dims, coords, observed_data, constant_data, posterior_predictive and
        log_likelihood. The last two are computed now: ``True`` asks for one, ``False`` leaves it out, None includes it
        if it has at most 50 million values. Predictions are the same each time: their key comes from the draws' seed.
        """
        return converting.verb(self, predictive=predictive, log_likelihood=log_likelihood)

    def plot(self, var_names: Sequence[str] | None = None) -> Any:
        """A Matplotlib figure: E[log π*] along the chain, and every scalar's marginal with its mean and error."""
        return plotting.verb(self, var_names)

    def _repr_html_(self) -> str:
        curve = html.sparkline(self.trace.get("expected_logdensity", ()), "E[log π*] along the chain")
        return html.panel(repr(self), curve, self.summary(10)._repr_html_())

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


def concatenate(draws: Sequence[Draws]) -> Draws:
    """Draws of one sampler, made with different keys, as one; with what all of them cost.

    Correlated draws of equally many steps stay chains side by side; otherwise the later ones are appended to the
    earlier ones' chains.
    """
    draws = list(draws)
    if not draws or not all(isinstance(each, Draws) for each in draws):
        raise ConfigError("concatenate needs a list of Draws, with at least one")
    first = draws[0]
    for each in draws[1:]:
        facts = [(part.kind, part.unconstrained.shape[1], part.attributes.get("method")) for part in (first, each)]
        if (each.target is not first.target and each.target.name != first.target.name) or facts[0] != facts[1]:
            raise ConfigError(f"concatenate needs draws of one sampler: these are {first!r} and {each!r}")
    seen: dict[object, list[np.ndarray]] = {}
    for each in draws:
        others = seen.setdefault(each.attributes.get("seed"), [])
        if each.independent and any(_shares_a_row(each.unconstrained, other) for other in others):
            raise ConfigError("concatenate was given the same draws twice: make them with different keys")
        others.append(each.unconstrained)
    beside = first.kind is Kind.CORRELATED and len({len(each) // each.chains for each in draws}) == 1

    def put(columns: list[np.ndarray]) -> np.ndarray:
        if not beside:
            return np.concatenate(columns)
        chains = np.concatenate([each.by_chain(column) for each, column in zip(draws, columns, strict=True)])
        return np.swapaxes(chains, 0, 1).reshape(-1, *chains.shape[2:])

    sizes = np.array([len(each) for each in draws])
    return replace(
        first,
        unconstrained=put([each.unconstrained for each in draws]),
        logdensity=put([each.logdensity for each in draws]),
        stats={name: put([each.stats[name] for each in draws]) for name in first.stats},
        trace={
            name: sum(size * each.trace[name] for size, each in zip(sizes, draws, strict=True)) / sizes.sum()
            for name in first.trace
        },
        cost=sum((each.cost for each in draws[1:]), first.cost),
        chains=sum(each.chains for each in draws) if beside else first.chains,
    )


def _shares_a_row(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether a row of the one is a row of the other, bit for bit."""
    rows = {row.tobytes() for row in one}
    return any(row.tobytes() in rows for row in other)


def variables(tree: PyTree, names: Sequence[str] | None = None) -> dict[str, np.ndarray]:
    """The leaves of draws by the names of variables; all, or those that are named, in that order."""
    found = {leaf_name(path): np.asarray(leaf) for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]}
    for name in [] if names is None else names:
        if name not in found:
            raise ConfigError(unknown("variable", name, found))
    return found if names is None else {name: found[name] for name in names}


def stated(draws: Draws) -> Draws:
    """Draws whose attributes say how many independent ones they are worth."""
    return replace(draws, attributes=draws.attributes | {"effective_size": round(draws.effective_size(), 1)})


_UNEQUAL = (
    "runs with weights have no {}, because plain averages over them are wrong: .mean(f) weights them, .resample(key) "
    "gives equally weighted draws, and .runs has the positions"
)
