"""Lines of the generative study: test log-likelihood against training time, and convergence on single images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from .style import COLOURS, INK, SOFT, new_figure, tidy

_PALETTE = (*COLOURS.values(), INK, "#0093a8", "#b58900", SOFT)


def against_time(curves: Sequence[tuple[str, np.ndarray, np.ndarray]], unit: str = "s") -> Figure:
    """log p(y) of test images, a line per label (seconds, values over seeds by mark); the band is the seeds' range,
    the line their median."""
    figure = new_figure(6.8, 4.0)
    axis = figure.subplots()
    scale = {"s": 1.0, "min": 60.0, "h": 3600.0}[unit]
    for index, (label, seconds, values) in enumerate(curves):
        colour, x = _PALETTE[index % len(_PALETTE)], seconds.mean(axis=0) / scale
        axis.plot(x, np.median(values, axis=0), color=colour, marker="o", markersize=3, linewidth=1.4, label=label)
        if len(values) > 1:
            axis.fill_between(x, values.min(axis=0), values.max(axis=0), color=colour, alpha=0.12, linewidth=0)
    # A way of training that failed would flatten all the rest.
    middles = np.concatenate([np.median(values, axis=0) for _, _, values in curves])
    top = middles.max()
    low = max(middles.min(), top - 8 * (top - np.median(middles)))
    axis.set_ylim(low - 0.1 * (top - low), top + 0.1 * (top - low))
    axis.set_xscale("log")
    ticks = sorted({float(f"{second / scale:.2g}") for _, seconds, _ in curves for second in seconds.mean(axis=0)})
    axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.minorticks_off()
    axis.set_xlabel(f"training time, {unit}", fontsize=9)
    axis.set_ylabel("test log p(y), nats", fontsize=9)
    figure.legend(loc="outside right center", fontsize=8, frameon=False)
    tidy(axis)
    return figure


def single_images(curves: Mapping[str, Sequence[Mapping[str, Sequence[float]]]]) -> Figure:
    """Figures 6b and 6c: ``"gap"``, E_{p_t}[log p(x, y)] minus the posterior's, and ``"mmd"``; a line per image.

    ``curves`` has those of the ``"tuned"`` and of the ``"untuned"`` chain.
    """
    figure = new_figure(8.6, 3.4)
    axes = figure.subplots(1, 2)
    for axis, measure, name in zip(axes, ("gap", "mmd"), (r"$E_{p_t} - E_\pi$ of log p(x, y)", "MMD²"), strict=True):
        axis.axhline(0, color=SOFT, linewidth=1.0, linestyle=":")
        for kind, colour in (("untuned", "green"), ("tuned", "blue")):
            for index, row in enumerate(curves[kind]):
                label = kind if index == 0 else None
                axis.plot(
                    range(len(row[measure])), row[measure], color=COLOURS[colour], linewidth=1.1, alpha=0.8, label=label
                )
        axis.set_xlabel("t, transitions", fontsize=9)
        axis.set_ylabel(name, fontsize=9)
        axis.legend(fontsize=8, frameon=False)
        tidy(axis)
    axes[0].set_yscale("symlog", linthresh=1)
    return figure
