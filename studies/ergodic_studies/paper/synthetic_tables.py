"""The synthetic study's tables, from its cells: what the report page and docs/results.md show."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ..harness.tables import Table
from .synthetic_cells import Measured

# Table 2 of the paper: -E[log π*] and seconds for 100,000 draws, targets a to f.
PAPER = {
    "HVI": ((4.94, 0.20), (1.22, 0.41), (5.22, 0.92), (1.70, 0.25), (1.37, 0.87), (1.64, 0.54)),
    "HEI": ((3.49, 0.25), (0.79, 0.44), (4.78, 1.58), (0.99, 0.30), (0.59, 0.58), (0.57, 0.56)),
    "GHMC": ((3.43, 35.7), (0.80, 64.28), (4.74, 41.23), (1.03, 48.54), (0.63, 85.30), (0.59, 81.0)),
    "HAIS": ((3.38, 16.62), (0.78, 26.94), (4.70, 125.32), (1.00, 22.61), (0.60, 33.07), (0.49, 33.69)),
    "rejection": ((3.31, None), (0.76, None), (4.66, None), (0.98, None), (0.58, None), (0.49, None)),
}
_LETTERS = "abcdef"
_TIMES = (
    "÷ HEI: sampling seconds over HEI's, for the draws stated; tuned ÷ HEI: tuning and sampling over HEI's. "
    "Effective: what the draws are worth as independent ones."
)
PAPER_TUNING = {"HVI": 2.367, "HEI (stop gradient)": 1.620, "GHMC": 7.100}


def _of(cells: list[Measured], label: str, target: str) -> list[Measured]:
    return [cell for cell in cells if cell["label"] == label and cell["target"] == target]


def _paper(label: str, index: int, letters: Sequence[str], which: int) -> str:
    if label not in PAPER or len(letters) != len(_LETTERS) or index > 3:
        return ""  # (e) and (f) have another envelope in the paper: not comparable
    value = PAPER[label][index][which]
    return "" if value is None else f"{value:g}"


def method_table(
    cells: list[Measured],
    targets: Sequence[str],
    exact: dict[str, float],
    floors: dict[str, float],
    methods: Iterable[str],
) -> Table:
    """Table 2: -E[log π*], median and spread over seeds, the paper's figure, and the distance to exact draws."""
    rows: list[list[str]] = [["exact", *(f"{exact[name]:.3f}" for name in targets)]]
    rows.append(["SW noise floor", *(f"{floors[name]:.3f}" for name in targets)])
    for label in methods:
        values, distances, paper = [label], ["  SW"], ["  paper"]
        for index, name in enumerate(targets):
            group = _of(cells, label, name)
            estimates = [cell["estimate"] for cell in group]
            spread = (max(estimates) - min(estimates)) / 2
            values.append(f"{np.median(estimates):.3f} ± {spread:.3f}")
            distances.append(f"{np.median([cell['distance'] for cell in group]):.3f}")
            paper.append(_paper(label, index, targets, 0))
        rows += [values, distances] + ([paper] if any(paper[1:]) else [])
    return Table.of(
        "Table 2: estimates of −E[log π*], and sliced Wasserstein distance to exact draws",
        ["", *targets],
        rows,
        "Median over seeds ± half the range. SW: sliced Wasserstein distance of 20,000 draws to exact ones. "
        "The paper's figures for (e) and (f) are of targets with another envelope, and are left out.",
    )


def ranking_table(
    cells: list[Measured], targets: Sequence[str], exact: dict[str, float], floors: dict[str, float]
) -> Table:
    """HEI beside HVI: whose error and whose distance is smaller on each target."""
    rows = []
    for name in targets:
        row: list[str] = [name]
        for measure in ("error", "distance"):
            pair = []
            for label in ("HEI", "HVI"):
                group = _of(cells, label, name)
                value = [abs(c["estimate"] - exact[name]) if measure == "error" else c["distance"] for c in group]
                pair.append(float(np.median(value)))
            row += [f"{pair[0]:.3f}", f"{pair[1]:.3f}", "HEI" if pair[0] < pair[1] else "HVI"]
        rows.append([*row, f"{floors[name]:.3f}"])
    columns = ["target", "|error| HEI", "HVI", "closer", "SW HEI", "HVI", "closer", "SW floor"]
    return Table.of("HEI against HVI", columns, rows, "Medians over seeds.")


def time_table(cells: list[Measured], targets: Sequence[str], methods: Iterable[str]) -> Table:
    """Seconds for the first seed: compile, tuning, 100,000 draws; effective draws per second; and HEI's advantage."""
    rows = []
    first = {(c["label"], c["target"]): c for c in cells if c["seed"] == 0}
    for label in methods:
        for index, name in enumerate(targets):
            cell, hei = first[label, name], first["HEI", name]
            ours = hei["sampling_seconds"]
            both = hei["sampling_seconds"] + hei["tuning_seconds"]
            total = cell["sampling_seconds"] + cell["tuning_seconds"]
            rows.append(
                [
                    label,
                    name,
                    f"{cell['compile_seconds']:.1f}",
                    f"{cell['tuning_seconds']:.2f}",
                    f"{cell['sampling_seconds']:.2f}",
                    f"{cell['draws']:,}",
                    f"{cell['effective_size']:,.0f}",
                    f"{cell['sampling_seconds'] / ours:.1f}",
                    f"{total / both:.1f}",
                    _paper(label, index, targets, 1),
                ]
            )
    columns = [
        *("method", "target", "compile s", "tuning s", "sampling s", "draws", "effective"),
        *("÷ HEI", "tuned ÷ HEI", "paper s"),
    ]
    return Table.of("Times, seed 0", columns, rows, _TIMES)


def tuning_table(timing: dict[str, dict[str, float]]) -> Table:
    """Table 3, left: seconds for 100 iterations, averaged over targets, and as ratios to HEI with the stop-gradient."""
    mean = {label: float(np.mean(list(by_target.values()))) for label, by_target in timing.items()}
    base, paper_base = mean["HEI (stop gradient)"], PAPER_TUNING["HEI (stop gradient)"]
    rows = [
        [
            label,
            f"{seconds:.3f}",
            f"{seconds / base:.2f}",
            f"{PAPER_TUNING[label] / paper_base:.2f}" if label in PAPER_TUNING else "",
        ]
        for label, seconds in mean.items()
    ]
    return Table.of(
        "Table 3, left: tuning time for 100 iterations",
        ["method", "seconds", "ratio to HEI (stop gradient)", "the paper's ratio"],
        rows,
        "Mean over targets of the median over interleaved repeats; compiled before.",
    )
