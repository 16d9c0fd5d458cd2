"""The tables of the study of HEI's safeguards, from its cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypedDict

import numpy as np

from ..harness.tables import Table


class Guarded(TypedDict):
    """What was measured of one variant on one target with one seed."""

    label: str
    target: str
    seed: int
    b2_max: float
    distance: float
    acceptance: float
    seconds: float
    compile_seconds: float
    gradients: int
    iterations: int
    kept: int | None
    """The iteration that early stopping chose."""
    scale: float | None


Cells = list[Guarded]
Measure = Literal["b2_max", "distance", "acceptance", "seconds"]
MEASURES: dict[Measure, tuple[str, str]] = {
    "b2_max": ("Bias of second moments, b2_max", ".2g"),
    "distance": ("Distance to the target", ".3f"),
    "acceptance": ("Mean acceptance of the step accepted least", ".2f"),
    "seconds": ("Seconds of tuning", ".2f"),
}
"""Title and format."""
_LEAST: dict[Measure, float] = {"b2_max": 1e-3, "distance": 0.02, "seconds": 1e-3}
"""What is below counts as this in a ratio: it is noise."""
_CHANGED = 1.25
"""Medians within this factor of each other count as the same."""


def median(cells: Cells, label: str, target: str, measure: Measure) -> float:
    """The median of a measure over seeds."""
    return float(np.median([c[measure] for c in cells if (c["label"], c["target"]) == (label, target)]))


def measure_table(
    cells: Cells, labels: Sequence[str], targets: Sequence[str], measure: Measure, more: str = ""
) -> Table:
    """One measure: a row per target, a column per variant."""
    title, form = MEASURES[measure]
    rows = [[name, *(format(median(cells, label, name, measure), form) for label in labels)] for name in targets]
    columns = ["target", *labels]
    return Table.of(title + more, columns, rows, "Medians over seeds.")


def summary_table(
    cells: Cells, labels: Sequence[str], targets: Sequence[str], title: str, against: str | None = None
) -> Table:
    """A row per variant: how many times plain EI's bias, distance and time, and on how many targets it is better."""
    base = labels[0] if against is None else against
    rows = []
    for label in labels:
        row = [label]
        compared: tuple[Measure, ...] = ("b2_max", "distance")
        for measure in compared:
            ratios = _ratios(cells, label, base, targets, measure)
            better, worse = int(np.sum(ratios < 1 / _CHANGED)), int(np.sum(ratios > _CHANGED))
            row += [f"{_geometric(ratios):.2f}", f"{better}, {worse}"]
        converged = sum(median(cells, label, name, "b2_max") < 0.01 for name in targets)
        dead = min(median(cells, label, name, "acceptance") for name in targets)
        seconds = _geometric(_ratios(cells, label, base, targets, "seconds"))
        rows.append([*row, f"{converged} of {len(targets)}", f"{dead:.2f}", f"{seconds:.1f}"])
    return Table.of(
        title,
        [
            *("variant", "b2_max ×", "better, worse", "distance ×", "better, worse"),
            *("converged", "least acceptance", "seconds ×"),
        ],
        rows,
        f"×: times that of {base}, geometric mean over targets of medians over seeds (b2 below 0.001 and "
        f"distances below 0.02 count as that). Better, worse: targets on which it is so by more than {_CHANGED:g} "
        "times. Converged: b2_max below 0.01.",
    )


def _ratios(cells: Cells, label: str, base: str, targets: Sequence[str], measure: Measure) -> np.ndarray:
    values = [
        [max(median(cells, which, name, measure), _LEAST[measure]) for name in targets] for which in (label, base)
    ]
    return np.asarray(values[0]) / np.asarray(values[1])


def _geometric(ratios: np.ndarray) -> float:
    return float(np.exp(np.mean(np.log(ratios))))
