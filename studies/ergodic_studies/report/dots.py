"""Points by target and variant, on a logarithmic axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from .style import COLOURS, INK, SOFT, new_figure, tidy


def dots(
    names: Sequence[str], values: Mapping[str, Sequence[Sequence[float]]], label: str, level: float | None = None
) -> Figure:
    """For each variant the median over seeds at each name, with the range as a line; a level to be under, dotted."""
    figure = new_figure(1.6 + 0.85 * len(names), 3.6)
    axis = figure.subplots()
    colours = [INK, *COLOURS.values()]
    if level is not None:
        axis.axhline(level, color=SOFT, linestyle=":", linewidth=1.2)
    for index, (variant, groups) in enumerate(values.items()):
        x = np.arange(len(names)) + (index - (len(values) - 1) / 2) * 0.12
        low, middle, high = (np.array([f(group) for group in groups]) for f in (np.min, np.median, np.max))
        colour = colours[index % len(colours)]
        axis.vlines(x, low, high, color=colour, linewidth=1, alpha=0.6)
        axis.plot(x, middle, "o", color=colour, markersize=4, label=variant)
    axis.set_yscale("log")
    axis.set_ylabel(label, fontsize=9)
    axis.set_xticks(range(len(names)), names, fontsize=8, rotation=20)
    axis.legend(fontsize=7.5, frameon=False, ncols=2)
    tidy(axis)
    return figure
