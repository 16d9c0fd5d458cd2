"""A neck before and after it was straightened: draws in x, and the same draws in the coordinates u that were learned.

Of the outermost layer that moves anything, the first driver is shown, against that of which it drives the most. What is
driven is a coordinate; or a direction of the layer, where no coordinate alone is driven nearly as much: the effects of
a group share a common shift, and it is their differences that the group's scale drives.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ergodic.charts.driven import ACROSS, UNMOVED
from ergodic.charts.telling import ToldChart

from .style import INK, SOFT, new_figure, tidy

_GROUPS = 6
"""Groups of draws, from the lowest values of the driver to the highest, in which others are compared."""
_ALONE = 0.8
"""A coordinate is shown where it is driven at least by this part of what the most driven direction is."""
_SHOWN = 0.005
"""The part of the draws at either end of an axis that may be out of the picture: a neck has long tails."""
_FEW = 30
"""Fewer draws show nothing."""


class Neck(NamedTuple):
    """A driver and what it drives, ``(n, 2)``, in x and in u, with the names of both axes."""

    x: Float[np.ndarray, "n 2"]
    u: Float[np.ndarray, "n 2"]
    names: tuple[str, str]
    inside: tuple[str, str]
    """The names in u."""


def neck_of(told: ToldChart) -> Neck | None:
    """What a sampler's main driver drives the most; None without a chart, or with hardly any draws."""
    layers = [layer for layer in told.coordinates.on_host().layers if layer.kind != UNMOVED]
    if not layers or len(told.positions) < _FEW:
        return None
    layer, x = layers[0], told.positions.astype(np.float64)
    u, inside = told.coordinates.on_host().inverse(x), told.coordinates.names(told.names)
    driver = int(np.argmax(layer.drivers[:, 0]))
    v = x[:, driver]
    moved = np.flatnonzero(layer.moves())
    each = driven(v, x[:, moved])
    best = moved[int(np.argmax(each))]
    names, names_inside = (told.names[driver], told.names[best]), (inside[driver], inside[best])
    found = Neck(x[:, [driver, best]], u[:, [driver, best]], names, names_inside)
    if layer.kind != ACROSS or layer.directions is None:
        return found
    rows = np.asarray(layer.directions.out, np.float64)
    rows = rows[rows.any(axis=1)]
    across = driven(v, x @ rows.T)
    if each.max() >= _ALONE * across.max():
        return found
    row = rows[int(np.argmax(across))]
    row = row / row[np.argmax(np.abs(row * x.std(axis=0)))]
    name = combination(row, x.std(axis=0), told.names)
    outside, within = (np.stack([part[:, driver], part @ row], axis=1) for part in (x, u))
    return Neck(outside, within, (names[0], name), (names_inside[0], f"{name} in the chart"))


def driven(v: Float[np.ndarray, "n"], y: Float[np.ndarray, "n others"]) -> Float[np.ndarray, "others"]:
    """How much v drives each of others, between groups of draws along v: two effects, added.

    They are the logarithm of the ratio of its widest and its narrowest spread, and how far its mean moves, in units of
    the widest spread.
    """
    groups = np.array_split(np.argsort(v), _GROUPS)
    spread = np.maximum([y[group].std(axis=0) for group in groups], 1e-12)
    mean = np.array([y[group].mean(axis=0) for group in groups])
    found: Float[np.ndarray, "others"] = np.ptp(np.log(spread), axis=0) + np.ptp(mean, axis=0) / spread.max(axis=0)
    return found


def combination(row: Float[np.ndarray, "dim"], spread: Float[np.ndarray, "dim"], names: tuple[str, ...]) -> str:
    """A direction in the model's names: its two largest parts, and dots where there are more."""
    share = np.abs(row * spread)
    order = np.argsort(-share)
    parts = [_term(row[i], names[i]) for i in order[:2] if share[i] > 0.1 * share.max()]
    rest = " …" if (share[order[2:]] > 0.1 * share.max()).any() else ""
    return " ".join(parts).removeprefix("+ ") + rest


def _term(factor: float, name: str) -> str:
    size = "" if round(abs(factor), 1) == 1 else f"{abs(factor):.1g} "
    return f"{'−' if factor < 0 else '+'} {size}{name}"


def neck_figure(neck: Neck) -> Figure:
    """Draws in x on the left, the same draws in u on the right; a draw has the colour of its driver in both."""
    figure = new_figure(7.2, 3.5)
    colour = np.argsort(np.argsort(neck.x[:, 0]))
    sides = ((neck.x, neck.names, "draws, as the model has them"), (neck.u, neck.inside, "the same draws in the chart"))
    for axis, (draws, names, title) in zip(figure.subplots(1, 2), sides, strict=True):
        axis.scatter(*draws.T, c=colour, cmap="viridis", s=7, alpha=0.7, linewidths=0)
        axis.set_xlabel(names[0], fontsize=9, color=INK)
        axis.set_ylabel(names[1], fontsize=9, color=INK)
        axis.set_title(title, fontsize=9.5, color=SOFT)
        _look_at(axis, draws)
        tidy(axis)
    return figure


def _look_at(axis: Axes, draws: Float[np.ndarray, "n 2"]) -> None:
    low, high = np.quantile(draws, (_SHOWN, 1 - _SHOWN), axis=0)
    margin = 0.08 * np.maximum(high - low, 1e-12)
    axis.set_xlim(low[0] - margin[0], high[0] + margin[0])
    axis.set_ylim(low[1] - margin[1], high[1] + margin[1])
