"""Two-dimensional histograms of draws, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from ergodic.targets.quadrature import Box

from .style import DENSITY, INK, SOFT, new_figure


class Panel(NamedTuple):
    """One histogram: draws ``(n, 2)``, the region shown, and a few words above it."""

    draws: np.ndarray
    view: Box
    title: str
    note: str = ""


def histogram_grid(rows: Sequence[Sequence[Panel]], labels: Sequence[str], bins: int = 90) -> Figure:
    """A grid of histograms, one list of panels a row, with a label at the left of each row.

    Panels of one column share a colour scale, so that missing or misplaced mass shows as a different brightness.
    """
    columns = max(map(len, rows))
    figure = new_figure(2.1 * columns + 0.5, 2.35 * len(rows))
    axes = np.atleast_2d(figure.subplots(len(rows), columns, squeeze=False))
    for column in range(columns):
        counts = [_histogram(row[column], bins) for row in rows]
        top = max(np.quantile(c[c > 0], 0.995) if (c > 0).any() else 1.0 for c in counts)
        for line, (row, count) in enumerate(zip(rows, counts, strict=True)):
            axis, panel = axes[line, column], row[column]
            axis.imshow(
                count.T,
                origin="lower",
                extent=(*panel.view[0], *panel.view[1]),
                aspect="auto",
                cmap=DENSITY,
                vmin=0,
                vmax=top,
                interpolation="nearest",
            )
            axis.set_xticks([])
            axis.set_yticks([])
            axis.set_title(panel.title, fontsize=9, color=INK)
            if panel.note:
                axis.set_xlabel(panel.note, fontsize=8, color=SOFT)
    for line, label in enumerate(labels):
        axes[line, 0].set_ylabel(label, fontsize=9, color=INK)
    return figure


def _histogram(panel: Panel, bins: int) -> np.ndarray:
    counts, _, _ = np.histogram2d(panel.draws[:, 0], panel.draws[:, 1], bins=bins, range=panel.view)
    return counts / len(panel.draws)
