"""Marks of several methods in small panels, one per target."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullFormatter

from .style import COLOURS, INK, SOFT, new_figure, tidy

_SHAPES = "os^DvPX<>"
_FLOOR = 1e-6
"""Biases below this are drawn here: they are chance."""


class Mark(NamedTuple):
    """One method on one target."""

    label: str
    seconds: float
    bias: float


def bias_against_seconds(panels: Mapping[str, Sequence[Mark]], labels: Sequence[str]) -> Figure:
    """b2_max against seconds, both logarithmic, a panel per target, a mark per method, and the line of convergence."""
    colours = [*COLOURS.values(), INK, SOFT]
    styles = {label: (_SHAPES[i % len(_SHAPES)], colours[i % len(colours)]) for i, label in enumerate(labels)}
    panels = {title: marks for title, marks in panels.items() if marks}
    columns = min(5, len(panels))
    rows = -(-len(panels) // columns)
    figure = new_figure(2.6 * columns + 0.6, 2.2 * rows + 0.8)
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for axis, (title, marks) in zip(axes, panels.items(), strict=False):
        axis.axhline(0.01, color=SOFT, linewidth=1, linestyle=":")
        for mark in marks:
            shape, colour = styles[mark.label]
            bias = min(max(mark.bias, _FLOOR), 1e3) if math.isfinite(mark.bias) else 1e3
            axis.plot(min(mark.seconds, 900), bias, shape, color=colour, markersize=6, alpha=0.85)
        axis.set(xscale="log", yscale="log")
        axis.set_title(title, fontsize=9, color=INK)
        for side in (axis.xaxis, axis.yaxis):
            side.set_minor_formatter(NullFormatter())
        axis.set_xlim(1, 1000)
        tidy(axis)
    for axis in axes[len(panels) :]:
        axis.set_axis_off()
    handles = [Line2D([], [], marker=s, color=c, linestyle="", label=label) for label, (s, c) in styles.items()]
    figure.legend(handles=handles, loc="outside upper center", ncols=min(len(labels), 5), fontsize=8, frameon=False)
    figure.supxlabel("seconds to 10,000 draws", fontsize=9)
    figure.supylabel("b2, largest", fontsize=9)
    return figure
