"""Lines on logarithmic axes, some panels side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from matplotlib.figure import Figure

from .style import COLOURS, INK, SOFT, new_figure, tidy


class Panel(NamedTuple):
    """One panel: named lines, each x and y, and a level to be under."""

    title: str
    x: str
    y: str
    lines: Mapping[str, tuple[Sequence[float], Sequence[float]]]
    level: float | None = None


def panels(several: Sequence[Panel]) -> Figure:
    """All of them in a row."""
    figure = new_figure(3.9 * len(several), 3.3)
    for axis, panel in zip(figure.subplots(1, len(several), squeeze=False)[0], several, strict=True):
        if panel.level is not None:
            axis.axhline(panel.level, color=SOFT, linewidth=1.2, linestyle=":")
        for (label, (x, y)), colour in zip(panel.lines.items(), COLOURS.values(), strict=False):
            axis.plot(x, y, marker="o", markersize=3.5, linewidth=1.3, color=colour, label=label)
        axis.set(xscale="log", yscale="log")
        axis.set_title(panel.title, fontsize=10, color=INK)
        axis.set_xlabel(panel.x, fontsize=9)
        axis.set_ylabel(panel.y, fontsize=9)
        axis.legend(fontsize=7.5, frameon=False)
        tidy(axis)
    return figure
