"""Bounds of the total variation against T, below what the paper's Figure 6a shows: E[log π*] along the chain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from .style import COLOURS, INK, SOFT, new_figure, tidy

_SHOWN = 0.4, 0.1
"""Nats below and above the exact value."""


class BoundPanel(NamedTuple):
    """What is drawn of one target: a column of two panels."""

    title: str
    truth: float
    """E_π[log π*]."""
    trace: Sequence[float]
    """E_{p_t}[log π*] for t = 0, 1, ...; empty where draws carry weights."""
    transitions: int
    """T of one pass."""
    curve: Sequence[float]
    """Limits of TV(P_T, π), TV(P_2T, π), ...; empty where there are none."""
    means: Sequence[float]
    """What they are limits of."""


def bound_curves(panels: Sequence[BoundPanel], wanted: float) -> Figure:
    """Two rows, a column for each target: E[log π*] along the chain, and bounds at its passes."""
    figure = new_figure(2.5 * len(panels), 4.6)
    above, below = figure.subplots(2, len(panels), squeeze=False)
    for place, (panel, top, bottom) in enumerate(zip(panels, above, below, strict=True)):
        last = max(1, len(panel.trace) - 1)
        top.axhline(panel.truth, color=SOFT, linewidth=1.2, linestyle=":", label="exact")
        top.plot(panel.trace, color=COLOURS["blue"], linewidth=1.2, label="GEI, three passes")
        top.set_title(panel.title, fontsize=9, color=INK)
        bottom.axhline(wanted, color=SOFT, linewidth=1.2, linestyle=":", label=f"{wanted:g}")
        t = panel.transitions * np.arange(1, len(panel.curve) + 1)
        shown = t <= last
        means = np.maximum(np.asarray(panel.means), 1e-4)
        bottom.plot(
            t[shown], np.asarray(panel.curve)[shown], "o-", color=COLOURS["violet"], markersize=4, label="limit, 95 %"
        )
        bottom.plot(
            t[shown], means[shown], "o--", color=COLOURS["orange"], markersize=3, linewidth=0.9, label="estimate"
        )
        for each in range(1, 4):
            top.axvline(min(each * panel.transitions, last), color=SOFT, linewidth=0.5)
        if not len(panel.curve):
            words = "no bound: weighted draws" if not len(panel.trace) else "no bound: pairs have not met"
            bottom.text(0.5, 0.5, words, transform=bottom.transAxes, ha="center", fontsize=8, color=INK)
        bottom.set_yscale("log")
        bottom.set_ylim(1e-4, 1.2)
        for axis in (top, bottom):
            axis.set_xlim(0, last)
            tidy(axis)
        top.set_ylim(panel.truth - _SHOWN[0], panel.truth + _SHOWN[1])
        if not place:
            top.set_ylabel(r"$E_{p_t}[\log \pi^*]$", fontsize=9)
            bottom.set_ylabel("total variation at most", fontsize=9)
            top.legend(fontsize=7, frameon=False)
            bottom.legend(fontsize=7, frameon=False)
    figure.supxlabel("t, transitions", fontsize=9)
    return figure
