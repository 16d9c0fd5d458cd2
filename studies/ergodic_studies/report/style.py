"""How figures look: colours, and a figure without a screen."""

from __future__ import annotations

import io
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from ergodic.runtime.files import write_atomically

INK, SOFT = "#22262e", "#8a93a3"
COLOURS = {"blue": "#2f6fde", "orange": "#e07b00", "green": "#1f9d6b", "red": "#d0364b", "violet": "#7a52c7"}
DENSITY = "magma"


def new_figure(width: float, height: float) -> Figure:
    """An empty figure that needs no display."""
    figure = Figure(figsize=(width, height), dpi=130, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def tidy(axis: Axes) -> None:
    """Make an axis quiet: two spines, small ticks."""
    axis.spines[["top", "right"]].set_visible(False)
    axis.tick_params(labelsize=8, colors=INK)


def save_figure(figure: Figure, path: Path) -> Path:
    """Write a PNG atomically."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    write_atomically(path, buffer.getvalue())
    return path
