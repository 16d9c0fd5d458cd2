"""Small images in a grid: what a generative model makes up, and what it makes of images it is shown."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from .style import INK, new_figure

_LABELS = 1.4
"""Inches for labels."""


def image_rows(
    rows: Sequence[tuple[str, Float[np.ndarray, "images pixels"]]], shape: tuple[int, int], width: float = 8.0
) -> Figure:
    """A labelled row of images each; light ink on dark ground."""
    count = max(len(images) for _, images in rows)
    figure = new_figure(width, width / (count + 2) * len(rows) * 1.05)
    figure.set_layout_engine("none")  # which would leave labels no room beside images of a fixed shape
    room = {"left": _LABELS / width, "right": 0.995, "top": 0.99, "bottom": 0.01, "hspace": 0.08}
    axes = figure.subplots(len(rows), 1, squeeze=False, gridspec_kw=room)[:, 0]
    for axis, (label, images) in zip(axes, rows, strict=True):
        gap = np.ones((shape[0], 1))
        strip = [part for image in images for part in (np.asarray(image).reshape(shape), gap)][:-1]
        axis.imshow(np.concatenate(strip, axis=1), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
        axis.set_xticks([])
        axis.set_yticks([])
        axis.spines[:].set_visible(False)
        axis.set_ylabel(label, fontsize=7.5, color=INK, rotation=0, ha="right", va="center")
    return figure
