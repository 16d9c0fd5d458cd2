"""Lines over the steps of a chain, against a known truth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ergodic.target import Truth

from .style import COLOURS, INK, SOFT, new_figure, tidy


class Curve(NamedTuple):
    """E_{p_t}[log π*] for t = 0..T, with its name and colour."""

    values: np.ndarray
    label: str
    colour: str
    dashed: bool = False


def convergence(panels: Sequence[tuple[str, Sequence[Curve]]], truth: float) -> Figure:
    """E_{p_t}[log π*] against t, a panel for each title, with the true value as a line."""
    figure = new_figure(4.6 * len(panels), 3.4)
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for axis, (title, curves) in zip(axes, panels, strict=True):
        axis.axhline(truth, color=SOFT, linewidth=1.2, linestyle=":", label="truth")
        for curve in curves:
            axis.plot(
                np.arange(len(curve.values)),
                curve.values,
                color=COLOURS[curve.colour],
                linestyle="--" if curve.dashed else "-",
                marker="o",
                markersize=3,
                linewidth=1.4,
                label=curve.label,
            )
        axis.set_title(title, fontsize=10, color=INK)
        axis.set_xlabel("t, transitions", fontsize=9)
        axis.set_ylabel(r"$E_{p_t}[\log \pi^*]$", fontsize=9)
        axis.legend(fontsize=7.5, frameon=False)
        tidy(axis)
    return figure


def floor_study(
    margins: Sequence[float], values: Sequence[float], distances: Sequence[float], truth: float, noise: float
) -> Figure:
    """What the margin of the entropy floor above H(π) does: E_{p_T}[log π*] and the distance to exact draws."""
    figure = new_figure(8.4, 3.1)
    left, right = figure.subplots(1, 2)
    for axis, series, line, label, name in (
        (left, values, truth, r"$E_{p_T}[\log \pi^*]$", "truth"),
        (right, distances, noise, "sliced W1 to exact draws", "noise floor"),
    ):
        axis.axhline(line, color=SOFT, linestyle=":", linewidth=1.2, label=name)
        axis.plot(margins, series, color=COLOURS["violet"], marker="o", markersize=4, linewidth=1.4)
        axis.set_xlabel("margin of the floor above $H(\\pi)$, nats", fontsize=9)
        axis.set_ylabel(label, fontsize=9)
        axis.legend(fontsize=8, frameon=False)
        tidy(axis)
    right.set_ylim(bottom=0)
    return figure


def chain_curves(panels: Sequence[tuple[str, float, Sequence[Curve]]]) -> Figure:
    """E_{p_t}[log π*] against t, a small panel per target, each with its own truth."""
    figure, axes = _small_panels(len(panels))
    for axis, (title, truth, curves) in zip(axes, panels, strict=True):
        axis.axhline(truth, color=SOFT, linewidth=1.2, linestyle=":", label="exact")
        for curve in curves:
            style = "--" if curve.dashed else "-"
            axis.plot(curve.values, style, color=COLOURS[curve.colour], marker="o", markersize=2.5, label=curve.label)
        axis.set_title(title, fontsize=9, color=INK)
        tidy(axis)
    axes[0].legend(fontsize=7, frameon=False)
    figure.supxlabel("t, transitions", fontsize=9)
    figure.supylabel(r"$E_{p_t}[\log \pi^*]$", fontsize=9)
    return figure


def training_curves(panels: Sequence[tuple[str, Truth, np.ndarray, np.ndarray, np.ndarray]]) -> Figure:
    """Over training: HVI's bound and E[log π*], and HEI's E[log π*], with the true values."""
    figure, axes = _small_panels(len(panels))
    for axis, (title, truth, bound, hvi, hei) in zip(axes, panels, strict=True):
        axis.plot(np.linspace(0, 1, len(bound)), bound, color=COLOURS["violet"], linewidth=0.8, label="HVI bound")
        axis.plot(np.linspace(0, 1, len(hvi)), hvi, color=COLOURS["orange"], linewidth=0.8, label="HVI E[log π*]")
        axis.plot(np.linspace(0, 1, len(hei)), hei, color=COLOURS["blue"], linewidth=1.2, label="HEI E[log π*]")
        axis.axhline(truth.log_z, color=COLOURS["violet"], linewidth=1, linestyle=":", label="log Z")
        axis.axhline(truth.expected_logdensity, color=SOFT, linewidth=1, linestyle=":", label="exact E[log π*]")
        low = min(truth.expected_logdensity, truth.log_z) - 4
        axis.set_ylim(low, max(truth.log_z, truth.expected_logdensity) + 1)
        axis.set_title(title, fontsize=9, color=INK)
        tidy(axis)
    axes[0].legend(fontsize=6.5, frameon=False)
    figure.supxlabel("part of training done (HVI: 1,000 iterations; HEI: 50)", fontsize=9)
    return figure


def _small_panels(count: int) -> tuple[Figure, list[Axes]]:
    columns = min(3, count)
    rows = -(-count // columns)
    figure = new_figure(3.4 * columns, 2.5 * rows)
    return figure, list(figure.subplots(rows, columns, squeeze=False).ravel()[:count])
