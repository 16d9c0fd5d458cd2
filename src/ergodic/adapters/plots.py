"""Pictures of draws and samplers: what `Draws.plot` and `Sampler.plot` give, as figures of Matplotlib."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..diagnostics.summary import scalar_names
from ..draws import Draws
from ..draws import plotting as plotting_draws
from ..runtime.errors import ConfigError
from ..runtime.extras import require
from ..runtime.progress import in_notebook
from ..sampler import Sampler, plotting

Panel = Callable[[Any], None]
"""Draws into one of Matplotlib's axes."""
_MARGINALS = 12
_DRIVERS = 2
_COLUMNS = 3
_POINTS = 2000
_LINE, _SOFT, _MARK = "#2f6f9f", "#9db8cc", "#c0502e"


@plotting_draws.provide
def plot_draws(draws: Draws, var_names: Sequence[str] | None = None) -> Any:
    """E[log π*] along the chain, and the marginals of the first twelve scalars, or of the variables that are named."""
    return figure_of([*_along(draws), *_marginals(draws, var_names)])


@plotting.provide
def plot_sampler(sampler: Sampler) -> Any:
    """The certified draws: along the chain, each of two drivers against what it drives the most, and marginals."""
    if sampler.draws is None:
        raise ConfigError("a sampler is plotted by its certified draws: sampler.certify(key) first")
    return figure_of([*_along(sampler.draws), *_drivers(sampler, sampler.draws), *_marginals(sampler.draws, None)])


def figure_of(panels: Sequence[Panel]) -> Any:
    """A figure with a panel each, three in a row."""
    if in_notebook():
        require("matplotlib.pyplot", "plots", "plot()")  # which makes notebooks show figures
    rows = -(-len(panels) // _COLUMNS)
    figure = require("matplotlib.figure", "plots", "plot()").Figure((3.4 * _COLUMNS, 2.5 * rows), layout="constrained")
    axes = figure.subplots(rows, _COLUMNS, squeeze=False).ravel()
    for axis, draw in zip(axes, panels, strict=False):
        draw(axis)
        axis.tick_params(labelsize=7)
        axis.spines[["top", "right"]].set_visible(False)
    for axis in axes[len(panels) :]:
        axis.set_axis_off()
    return figure


def _along(draws: Draws) -> list[Panel]:
    """What there are averages of along the chain: E[log π*], with what the draws say it is, and acceptance."""
    inside = draws.logdensity[np.isfinite(draws.logdensity)].astype(np.float64)
    error = inside.std() / np.sqrt(max(draws.effective_size(), 1.0))

    def levels(axis: Any) -> None:
        curve = draws.trace["expected_logdensity"]
        axis.plot(np.arange(len(curve)), curve, color=_LINE, marker="o", markersize=2.5, linewidth=1.2)
        axis.axhspan(inside.mean() - 2 * error, inside.mean() + 2 * error, color=_SOFT, alpha=0.5, linewidth=0)
        settled = np.append(curve[len(curve) // 3 :], inside.mean() + np.array([-3, 3]) * error)
        room = 0.3 * np.ptp(settled) + 1e-6  # the first steps may come from far away
        axis.set_ylim(settled.min() - room, settled.max() + room)
        axis.set_title("E[log π*] along the chain, and of the draws ± 2 errors", fontsize=7)
        axis.set_xlabel("transitions", fontsize=7)

    def acceptance(axis: Any) -> None:
        rate = draws.trace["acceptance"]
        axis.plot(1 + np.arange(len(rate)), rate, color=_LINE, marker="o", markersize=2.5, linewidth=1.2)
        axis.set_ylim(0, 1.02)
        axis.set_title("acceptance along the chain", fontsize=7)
        axis.set_xlabel("transition", fontsize=7)

    known = {"expected_logdensity": levels, "acceptance": acceptance}
    return [panel for name, panel in known.items() if np.size(draws.trace.get(name, ())) > 1]


def _drivers(sampler: Sampler, draws: Draws) -> list[Panel]:
    """Each of the chart's first drivers against the coordinate whose mean or spread changes the most along it."""
    x = draws.unconstrained[np.isfinite(draws.logdensity)][:_POINTS].astype(np.float64)
    names = sampler.target.names

    def panel(driver: int) -> Panel:
        spread = np.log(np.abs(x - np.median(x, axis=0)) + 1e-12)
        changes = np.maximum(_correlation(x[:, driver], x), _correlation(x[:, driver], spread))
        changes[driver] = -1
        driven = int(np.argmax(changes))

        def draw(axis: Any) -> None:
            axis.plot(x[:, driver], x[:, driven], ".", color=_LINE, markersize=2, alpha=0.5)
            axis.set_title(f"{names[driver]} drives {names[driven]}", fontsize=7)

        return draw

    return [panel(int(driver)) for driver in sampler.chart.coordinates.on_host().drivers()[:_DRIVERS]]


def _correlation(one: np.ndarray, others: np.ndarray) -> np.ndarray:
    one, others = one - one.mean(), others - others.mean(axis=0)
    return np.abs(one @ others) / (np.linalg.norm(one) * np.linalg.norm(others, axis=0) + 1e-300)


def _marginals(draws: Draws, var_names: Sequence[str] | None) -> list[Panel]:
    """A histogram of every scalar, with the mean and twice its error."""
    chosen, scalars = draws.to_numpy(var_names), scalar_names(draws.target)
    worth = max(draws.effective_size(), 1.0)

    def panel(name: str, values: np.ndarray) -> Panel:
        values = values[np.isfinite(values)].astype(np.float64)
        low, high = np.quantile(values, (0.002, 0.998))

        def draw(axis: Any) -> None:
            axis.hist(values, np.linspace(low, high, 50) if high > low else 50, color=_SOFT)
            error = 2 * values.std() / np.sqrt(worth)
            axis.axvspan(values.mean() - error, values.mean() + error, color=_MARK, alpha=0.4, linewidth=0)
            axis.axvline(values.mean(), color=_MARK, linewidth=1)
            axis.set_title(f"{name}: {values.mean():.3g} ± {error / 2:.1g}, sd {values.std():.3g}", fontsize=7)
            axis.set_yticks([])

        return draw

    return [
        panel(name, column)
        for variable, values in chosen.items()
        for name, column in zip(scalars[variable], values.reshape(len(draws), -1).T, strict=True)
    ][:_MARGINALS]
