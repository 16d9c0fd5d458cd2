"""Tables of the network study, from its cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

PUBLISHED = {
    "paper: HEI": (("-2.17 ± 0.07", "-0.47 ± 0.06", "-2.71 ± 0.03", "-0.71 ± 0.03")),
    "paper: SGHMC, best average": ("-3.47 ± 0.51", "-13.58 ± 0.98", "-4.87 ± 0.05", "-1.82 ± 0.75"),
    "paper: SGHMC, tuned a table": ("-2.49 ± 0.15", "-1.75 ± 0.19", "-4.16 ± 0.72", "-1.29 ± 0.28"),
    "paper: SGHMC, scale-adapted": ("-2.54 ± 0.04", "-1.11 ± 0.08", "-3.38 ± 0.24", "-1.04 ± 0.17"),
    "PBP": ("-2.57", "-1.63", "-3.16", "-0.97"),
    "MC dropout (tuned grid)": ("-2.40", "-1.25", "-2.93", "-0.93"),
    "deep ensembles": ("-2.41", "-1.18", "-3.06", "-0.94"),
}
"""Table 5 of the paper, and what others published for one hidden layer of 50: Boston, Yacht, Concrete, Wine."""
ORDER = ("boston", "yacht", "concrete", "wine")

Row = dict[str, Any]


def _values(cells: Sequence[Row], table: str, label: str, measure: str = "log_likelihood") -> np.ndarray:
    for cell in cells:
        if cell["table"] == table and cell["label"] == label:
            return np.array([score[measure] for score in cell["scores"]])
    return np.array([])


def _mean(values: np.ndarray) -> str:
    if not len(values):
        return ""
    error = f" ± {values.std(ddof=1) / np.sqrt(len(values)):.2f}" if len(values) > 1 else ""
    return f"{values.mean():.2f}{error}"


def score_table(cells: Sequence[Row], tables: Sequence[str], labels: Sequence[str]) -> Row:
    """Table 5: test log-likelihood in the target's own units, mean and standard error over splits; RMSE, coverage."""
    rows: list[list[str]] = []
    for label in labels:
        rows.append([label, *(_mean(_values(cells, name, label)) for name in tables)])
        rows.append(["  RMSE", *(_mean(_values(cells, name, label, "rmse")) for name in tables)])
        covered = [
            [_values(cells, name, label, measure) for measure in ("coverage_50", "coverage_90")] for name in tables
        ]
        shown = [" / ".join(f"{100 * v.mean():.0f} %" for v in pair) if len(pair[0]) else "" for pair in covered]
        rows.append(["  in 50 and 90 % intervals", *shown])
    for label, values in PUBLISHED.items():
        by_name = dict(zip(ORDER, values, strict=True))
        if set(tables) & set(by_name):
            rows.append([label, *(by_name.get(name, "") for name in tables)])
    return {
        "title": "Table 5: test log-likelihood of Bayesian networks",
        "note": "Mean and standard error over splits, of the mixture over sampled networks, in the target's own units.",
        "columns": ["", *tables],
        "rows": rows,
    }


def difference_table(cells: Sequence[Row], tables: Sequence[str], labels: Sequence[str]) -> Row:
    """HEI minus every other, split by split: mean, standard error."""
    rows = []
    for label in labels:
        if label == "HEI":
            continue
        shown = []
        for name in tables:
            ours, other = _values(cells, name, "HEI"), _values(cells, name, label)
            if not len(ours) or len(ours) != len(other):
                shown.append("")
                continue
            gap = ours - other
            shown.append(f"{gap.mean():+.3f} ± {gap.std(ddof=1) / np.sqrt(len(gap)):.3f}")
        rows.append([label, *shown])
    return {
        "title": "HEI's log-likelihood minus the others', paired over splits",
        "note": "Mean and standard error of the difference on the same splits.",
        "columns": ["against", *tables],
        "rows": rows,
    }
