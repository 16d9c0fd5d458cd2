"""Simulation-based calibration (Talts et al., 2018): is the sampler right for the model, over the model's own prior?

θ_s is drawn from the prior and y_s from the model at θ_s. Then θ_s is one more draw of the posterior given y_s, and its
rank among L draws of that posterior is uniform on 0, ..., L, for every function of θ. All posteriors are one family,
which one schedule serves (`fit_many`): data are arguments of its programs.

Ranks are judged by their empirical distribution function, with bands in which all of it lies with a given probability
(Säilynoja, Bürkner and Vehtari, 2022). Where F is the count of ranks below k, each of S simulations alone, F is
Binomial(S, k/(L+1)); the least of its two-sided p-values over k is compared with that of uniform ranks, simulated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, PyTree
from scipy import special

from .adapters.plots import Panel, figure_of
from .api import fit
from .diagnostics.summary import scalar_names
from .draws import constrained, variables
from .family import Family
from .many import fit_many
from .protocols import Familial
from .runtime import html
from .runtime.errors import ConfigError, unknown
from .runtime.programs import Cost, Stopwatch, compiled
from .runtime.validation import positive_int
from .sampler import require_key
from .simulation import require, simulated
from .target import Target

_NULL = 10_000
"""Sets of uniform ranks that are simulated."""
_LEAST = 20
_LOGDENSITY = "log π*"


class Bands(NamedTuple):
    """Where the empirical distribution function of uniform ranks lies as a whole, with probability 1 - level."""

    at: np.ndarray
    """k/(L+1), k = 1, ..., L."""
    low: np.ndarray
    high: np.ndarray


@dataclass(frozen=True, eq=False)
class Calibration:
    """What `sbc` found.

    Attributes:
      names: the scalars that were looked at; log π* last.
      ranks: of the true value among the draws, ``(simulations, scalars)``, from 0 to ``draws``.
      draws: how many draws a rank is among.
      p_values: that ranks as uneven come by chance, a scalar each.
      level: the probability, at most, that a sound sampler of a right model is failed, all scalars together.
      alone: simulations that the family's schedule did not serve, and were fitted on their own.
      unsure: those of them whose own certificate did not pass.
      cost: of everything.
    """

    names: tuple[str, ...]
    ranks: np.ndarray
    draws: int
    p_values: np.ndarray
    level: float
    alone: int
    unsure: int
    cost: Cost

    @property
    def passed(self) -> bool:
        """Whether all ranks may be uniform."""
        return bool(self.p_values.min() * len(self.names) >= self.level)

    @property
    def verdict(self) -> str:
        """The same in words: ``"passed"`` or ``"failed"``."""
        return "passed" if self.passed else "failed"

    def bands(self) -> Bands:
        """Bands for each scalar, of which all hold at once with probability 1 - level."""
        return bands(len(self.ranks), self.draws, self.level / len(self.names))

    def summary(self, rows: int | None = 12) -> str:
        """The scalars with the least even ranks, and what the verdict means."""
        width = max(map(len, self.names))
        lines = [f"{'':<{width}}  p-value  what ranks say"]
        order = np.argsort(self.p_values)[:rows].tolist()
        lines += [f"{self.names[i]:<{width}}  {self.p_values[i]:7.2g}  {self._words(i)}" for i in order]
        if len(order) < len(self.names):
            lines.append(f"... {len(self.names) - len(order):,} more scalars; summary(rows=None) shows all")
        lines.append(f"calibration: {self.verdict} ({len(self.ranks)} simulations, {self.draws} draws each)")
        if self.alone:
            lines.append(f"{self.alone} simulations were fitted on their own; {self.unsure} of these did not pass")
        return "\n".join(lines)

    def _words(self, scalar: int) -> str:
        """How ranks are uneven, where they are."""
        if self.p_values[scalar] * len(self.names) >= self.level:
            return "uniform, as far as can be seen"
        u = (self.ranks[:, scalar] + 0.5) / (self.draws + 1)
        shift, spread = float(u.mean() - 0.5), float(u.var() * 12)
        if abs(shift) > 1.5 / np.sqrt(len(u) * 3):
            return (
                f"draws are too {'small' if shift > 0 else 'large'}: true values rank {'high' if shift > 0 else 'low'}"
            )
        return "draws are too narrow" if spread > 1 else "draws are too wide"

    def plot(self) -> Any:
        """A Matplotlib figure: by how much the ranks' distribution function is off, with bands, of 12 scalars."""
        inside = self.bands()

        def panel(scalar: int) -> Panel:
            curve = np.mean(self.ranks[:, scalar, None] < np.arange(1, self.draws + 1), axis=0)

            def draw(axis: Any) -> None:
                axis.fill_between(
                    inside.at, inside.low - inside.at, inside.high - inside.at, color="#9db8cc", alpha=0.5
                )
                axis.plot(inside.at, curve - inside.at, color="#c0502e", linewidth=1.2)
                axis.axhline(0, color="#777777", linewidth=0.7)
                axis.set_title(f"{self.names[scalar]}: p = {self.p_values[scalar]:.2g}", fontsize=7)

            return draw

        return figure_of([panel(int(i)) for i in np.argsort(self.p_values)[:12]])

    def _repr_html_(self) -> str:
        order = np.argsort(self.p_values)[:12].tolist()
        rows = [(self.names[i], f"{self.p_values[i]:.2g}", html.Html(html.text(self._words(i)))) for i in order]
        said = html.text(f"{len(self.ranks)} simulations, {self.draws} draws each")
        table = html.table(("scalar", "p-value", "what ranks say"), rows)
        return html.panel("Simulation-based calibration", f"{html.badge(self.verdict)} {said}", table)

    def __repr__(self) -> str:
        return f"Calibration({self.verdict}: {len(self.ranks)} simulations, smallest p-value {self.p_values.min():.2g})"


def sbc(
    target: Target,
    key: Array,
    simulations: int = 200,
    *,
    draws: int = 99,
    var_names: Sequence[str] | None = None,
    method: Familial | None = None,
    level: float = 0.01,
) -> Calibration:
    """Calibrate the sampler on data simulated from the model: ranks of true values must be uniform.

    Args:
      target: of a model that can be simulated, as `from_numpyro` gives it; its own data are not used. A target of one's
        own says how by ``model=eg.Model(prior=..., predictive=..., joint=...)``.
      key: a JAX random key.
      simulations: how many data sets; 200 see a shift of a quarter of a standard deviation.
      draws: of each posterior; L, among which a true value has its rank.
      var_names: variables to look at; all, and log π*, if None.
      method: `GEI` with its settings, as `fit_many` takes it.
      level: the probability, at most, that a sound sampler of a right model is failed.

    Returns:
      A `Calibration`: ``.passed``, ``.summary()``, ``.plot()`` with simultaneous bands, and the ranks.

    Example:
      >>> found = eg.sbc(eg.from_numpyro(model, y), jax.random.key(0))
      >>> print(found.summary())
    """
    simulations, draws = positive_int(simulations, "simulations"), positive_int(draws, "draws")
    if simulations < _LEAST:
        raise ConfigError(f"simulations={simulations} are too few to tell anything: use {_LEAST} or more")
    if not isinstance(target, Target):
        raise ConfigError(f"sbc needs a Target, such as eg.from_numpyro(model, data), not a {type(target).__name__}")
    clock, key = Stopwatch(), require_key(key)
    model = require(target, "prior", "predictive", "joint")
    simulate_key, fit_key, draw_key, alone_key = jax.random.split(key, 4)
    true, data = simulated(target, simulate_key, simulations)
    family = Family(
        lambda position, datum: model.joint(position, datum),  # type: ignore[misc]
        data,
        target.layout.unravel(np.zeros(target.dim, target.dtype)),
        constrain=target.constrain,
        name=target.name,
        prior=target.prior,
    )
    samplers = fit_many(family, fit_key, method)
    found = samplers.sample(draw_key, draws)
    x, level_of, alone, unsure = found.unconstrained.copy(), found.logdensity.copy(), 0, 0
    cost = samplers.cost + found.cost
    for at in np.flatnonzero(~samplers.settled):
        own = fit(family[int(at)], jax.random.fold_in(alone_key, int(at)), progress=False)
        mine = own.sample(jax.random.fold_in(alone_key, simulations + int(at)), draws, progress=False)
        x[at], level_of[at] = mine.unconstrained, mine.logdensity
        alone, unsure = alone + 1, unsure + (own.certificate is None or own.certificate.passed is not True)
        cost = cost + own.cost + mine.cost
    at_truth = np.asarray(_joint_at(family, true))
    names, here, there = _scalars(target, true, x, var_names)
    here, there = np.column_stack([here, at_truth]), np.concatenate([there, level_of[..., None]], axis=2)
    ranks = (there < here[:, None, :]).sum(axis=1)
    ties = (there == here[:, None, :]).sum(axis=1)  # of discrete values: broken at random
    ranks = ranks + np.random.default_rng(0).integers(0, ties + 1)
    p_values = uniform_p(ranks, draws)
    seconds = clock.cost(cost.gradients, cost.depth)
    return Calibration((*names, _LOGDENSITY), ranks, draws, p_values, level, alone, int(unsure), seconds)


def bands(simulations: int, draws: int, level: float) -> Bands:
    """Bands that the distribution function of so many uniform ranks on 0..draws leaves with the level's probability."""
    at = np.arange(1, draws + 1) / (draws + 1)
    pointwise = float(np.quantile(_null(simulations, draws), level))
    below = special.bdtr(np.arange(simulations + 1)[:, None], simulations, at)
    low, high = (np.argmax(below >= part, axis=0) for part in (pointwise / 2, 1 - pointwise / 2))
    return Bands(at, low / simulations, high / simulations)


def uniform_p(ranks: np.ndarray, draws: int) -> np.ndarray:
    """p-values that ranks ``(simulations, scalars)`` on 0..draws are uniform, each scalar alone."""
    counts = np.stack([(ranks < k).sum(axis=0) for k in range(1, draws + 1)], axis=1)
    null, least = _null(len(ranks), draws), _least(counts, len(ranks), draws)
    return (1 + (null[None, :] <= least[:, None]).sum(axis=1)) / (len(null) + 1)


def _null(simulations: int, draws: int) -> np.ndarray:
    """The smallest two-sided p-value along the distribution function, of sets of uniform ranks."""
    rng = np.random.default_rng(0)
    histogram = rng.multinomial(simulations, np.full(draws + 1, 1 / (draws + 1)), _NULL)
    return _least(np.cumsum(histogram, axis=1)[:, :-1], simulations, draws)


def _least(counts: np.ndarray, simulations: int, draws: int) -> np.ndarray:
    """min over k of 2 min(P(F ≤ f), P(F ≥ f)) of counts f ``(sets, draws)``, where F is Binomial(S, k/(L+1))."""
    at, values = np.arange(1, draws + 1) / (draws + 1), np.arange(simulations + 1)[:, None]
    below = special.bdtr(values, simulations, at)
    above = 1 - np.concatenate([np.zeros((1, draws)), below[:-1]])
    table = np.minimum(1, 2 * np.minimum(below, above))
    return table[counts, np.arange(draws)].min(axis=1)


def _joint_at(family: Family, true: np.ndarray) -> Array:
    """log π* of every member at its own position."""
    return compiled(_values, (family.density,), family.data, true)(family.data, true)


def _values(density: Any, data: PyTree, positions: Array) -> Array:
    return jax.vmap(lambda datum, x: density.of(datum)(x))(data, positions)


def _scalars(
    target: Target, true: np.ndarray, x: np.ndarray, var_names: Sequence[str] | None
) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Names of scalars, their true values ``(simulations, scalars)``, and their draws."""
    simulations, draws, dim = x.shape
    known = scalar_names(target)
    for name in var_names or ():
        if name not in known:
            raise ConfigError(unknown("variable", name, known))
    here = variables(constrained(target, true), var_names)
    there = variables(constrained(target, x.reshape(-1, dim)), var_names)
    columns = [np.asarray(leaf).reshape(simulations, -1) for leaf in here.values()]
    drawn = [np.asarray(leaf).reshape(simulations, draws, -1) for leaf in there.values()]
    names = [name for variable in here for name in known[variable]]
    return names, np.concatenate(columns, axis=1), np.concatenate(drawn, axis=2)
