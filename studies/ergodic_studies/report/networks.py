"""Lines of the network study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from .style import COLOURS, INK, new_figure, tidy


def along_the_chain(curves: Mapping[str, Mapping[str, Sequence[float]]]) -> Figure:
    """Figure 7: E_{p_t}[log p(w, y)] over t, tuned and untuned, a panel per table."""
    figure = new_figure(3.2 * len(curves), 3.0)
    axes = figure.subplots(1, len(curves), squeeze=False)[0]
    for axis, (name, of_table) in zip(axes, curves.items(), strict=True):
        for kind, colour in (("untuned", "green"), ("tuned", "blue")):
            values = np.asarray(of_table[kind], float)
            axis.plot(np.arange(len(values)), values, color=COLOURS[colour], linewidth=1.4, label=kind)
        both = np.concatenate([np.asarray(of_table[kind], float) for kind in ("untuned", "tuned")])
        low, top = np.quantile(both, 0.1), both.max()  # the first few transitions come from far below
        axis.set_ylim(low - 0.15 * (top - low), top + 0.1 * (top - low))
        axis.set_title(name, fontsize=10, color=INK)
        axis.set_xlabel("t, transitions", fontsize=9)
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axis.legend(fontsize=8, frameon=False)
        tidy(axis)
    axes[0].set_ylabel("E[log p(w, y)]", fontsize=9)
    return figure
