"""Tables of `ergodic bench models`: who is fastest on how many models, and where GEI's seconds go."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..harness.tables import Table
from .model_measure import Outcome

OURS = "GEI"
_FAR = 0.05
"""A b2 above this must never be certified."""
_NEAR = 0.01


class Row(NamedTuple):
    """One sampler on one model: its seeds."""

    model: str
    label: str
    cells: tuple[Outcome, ...]

    @property
    def good(self) -> list[Outcome]:
        """The seeds that ended by themselves, without an error."""
        return [cell for cell in self.cells if "error" not in cell]

    def median(self, get: Callable[[Outcome], float]) -> float:
        """Over the seeds that ended; not a number where there are none."""
        return float(np.median([get(cell) for cell in self.good])) if self.good else math.nan

    def trusted(self, size: str) -> bool:
        """Whether most seeds reached so many draws that can be trusted."""
        return 2 * sum(cell["reached"][size] for cell in self.good) > len(self.cells)

    def seconds(self, size: str) -> float:
        """To so many draws, of a processor: wall-clock, times the share that the process had of its core."""
        return self.median(lambda cell: cell["total_seconds"][size] * min(1.0, cell["cpu_share"]))

    def said(self) -> str:
        """The verdicts of its seeds, or what happened instead."""
        words = [_word(cell) for cell in self.cells]
        counted = {word: words.count(word) for word in words}
        return ", ".join(word if len(words) == 1 else f"{count} {word}" for word, count in counted.items())


def _word(cell: Outcome) -> str:
    if cell.get("killed", False):
        return f"over {cell['limit']:.0f} s"
    if "error" in cell:
        return "raised"
    return cell["verdict"] or f"R-hat {cell['rhat']:.3f}"


Rows = Mapping[tuple[str, str], Row]


def all_tables(cells: Sequence[Outcome]) -> list[Table]:
    """A summary, seconds and gradients by model and sampler, GEI's parts, and every cell."""
    pairs = dict.fromkeys((cell["model"], cell["label"]) for cell in cells)
    rows = {pair: Row(*pair, tuple(c for c in cells if (c["model"], c["label"]) == pair)) for pair in pairs}
    labels = tuple(dict.fromkeys(label for _, label in rows))
    tables = [
        _by_model("Seconds to 1,000 draws that can be trusted", rows, labels, "1000", _seconds),
        _by_model("Seconds to 4,000 draws that can be trusted", rows, labels, "4000", _seconds),
        _by_model("Gradients to 1,000 draws that can be trusted", rows, labels, "1000", _gradients),
        _every_cell(cells),
    ]
    if OURS in labels:
        tables = [_summary(rows, labels), *tables[:3], _parts(rows), tables[3]]
    return tables


def fastest(rows: Rows, model: str, size: str) -> str | None:
    """The sampler that has so many trusted draws first; None where nobody has."""
    times = {row.label: row.seconds(size) for row in rows.values() if row.model == model and row.trusted(size)}
    return min(times, key=lambda label: times[label]) if times else None


def _summary(rows: Rows, labels: Sequence[str]) -> Table:
    """On how many models GEI passed, and on how many it is the fastest."""
    names = [model for model, label in rows if label == OURS]
    ours = {name: rows[name, OURS] for name in names}
    seeds = [cell for row in ours.values() for cell in row.cells]
    passed = [cell for cell in seeds if cell.get("verdict") == "passed" and "error" not in cell]
    biased = [cell for cell in passed if cell.get("b2_max", 0.0) > _far(cell)]
    lines: list[list[object]] = [
        ["certificate passed", _count([name for name in names if ours[name].trusted("1000")], names)],
        ["cells over their time", sum(cell.get("killed", False) for cell in seeds)],
        ["certificates passed at b2 > 0.05", len(biased)],
    ]
    for size in ("1000", "4000") if len(labels) > 1 else ():
        wins = [name for name in names if fastest(rows, name, size) == OURS]
        lines.append([f"fastest to {int(size):,} trusted draws", _count(wins, names)])
    for label in labels:
        both = [name for name in names if label != OURS and (name, label) in rows]
        wins = [
            name for name in both if fastest({p: rows[p] for p in ((name, OURS), (name, label))}, name, "1000") == OURS
        ]
        if both:
            lines.append([f"faster than {label} to 1,000", _count(wins, both)])
    return Table.of("GEI on models that people write", ["", "models"], lines)


def _far(cell: Outcome) -> float:
    return max(_FAR, 3 * cell.get("b2_noise", 0.0))


def _count(found: Sequence[str], of: Sequence[str]) -> str:
    missing = [name for name in of if name not in found]
    return f"{len(found)} of {len(of)}" + (f" (not {', '.join(missing)})" if 0 < len(missing) <= 12 else "")


def _by_model(
    title: str, rows: Rows, labels: Sequence[str], size: str, show: Callable[[Row, str, str | None], str]
) -> Table:
    names = list(dict.fromkeys(model for model, _ in rows))
    lines = []
    for name in names:
        here = [rows.get((name, label)) for label in labels]
        dim = next(row.cells[0]["dim"] for row in here if row is not None)
        best = fastest(rows, name, size)
        lines.append([name, dim, *("" if row is None else show(row, size, best) for row in here)])
    note = (
        "Compiling, tuning, certificate and drawing; medians over seeds. ×: draws that cannot be trusted, or fewer "
        "than wanted in the time; then figures are scaled to as many. *: the fastest."
    )
    return Table.of(title, ["model", "dim", *labels], lines, note)


def _shown(row: Row, size: str, text: str, best: str | None) -> str:
    if not row.good:
        return row.said()
    return text + (" *" if row.label == best else "" if row.trusted(size) else " ×")


def _seconds(row: Row, size: str, best: str | None) -> str:
    return _shown(row, size, f"{row.seconds(size):.1f}", best)


def _gradients(row: Row, size: str, best: str | None) -> str:
    return _shown(row, size, f"{row.median(lambda cell: cell['gradients'][size]):,.0f}", best)


def _parts(rows: Rows) -> Table:
    """GEI's seconds by what they were spent on, its verdicts and its bias."""
    columns = [
        "model",
        "dim",
        "verdict",
        "b1",
        "b2",
        "noise",
        "compile s",
        "tuning s",
        "certificate s",
        "1,000 draws s",
    ]
    columns += ["certificate / (tuning + compile)", "tuning gradients", "certificate gradients", "depth"]
    lines = []
    for row in (row for row in rows.values() if row.label == OURS):
        begun = [cell for cell in row.cells if "fit_seconds" in cell]
        named = [row.model, row.cells[0]["dim"], row.said()]
        if not begun or not row.good:
            lines.append([*named, *[""] * (len(columns) - len(named))])
            continue
        rest = row.median(lambda cell: cell["tuning_seconds"] + cell["compile_seconds"])
        certificate = row.median(lambda cell: cell["certificate_seconds"])
        lines.append(
            [
                *named,
                *(_bias(row, name) for name in ("b1_max", "b2_max", "b2_noise")),
                f"{row.median(lambda cell: cell['compile_seconds']):.1f}",
                f"{row.median(lambda cell: cell['tuning_seconds']):.1f}",
                f"{certificate:.1f}",
                f"{row.median(lambda cell: cell['drawing_seconds']['1000']):.2f}",
                f"{certificate / rest:.2f}",
                f"{row.median(lambda cell: cell['tuning_gradients']):,.0f}",
                f"{row.median(lambda cell: cell['certificate_gradients']):,.0f}",
                f"{row.median(lambda cell: cell['depth']):,.0f}",
            ]
        )
    note = "b1, b2: the largest squared bias of a first and of a second moment; noise: what of b2 is the truth's own."
    return Table.of("Where GEI's seconds go", columns, lines, note)


def _bias(row: Row, name: str) -> str:
    values = [value for cell in row.good if isinstance(value := cell.get(name), float)]
    return f"{np.median(values):.2g}" if values else ""


def _every_cell(cells: Sequence[Outcome]) -> Table:
    columns = [
        "model",
        "sampler",
        "seed",
        "outcome",
        "b1",
        "b2",
        "1,000 s",
        "4,000 s",
        "gradients",
        "effective",
        "core",
    ]
    lines: list[list[object]] = []
    for cell in cells:
        row = Row(cell["model"], cell["label"], (cell,))
        named = [cell["model"], cell["label"], cell["seed"], row.said()]
        if not row.good:
            lines.append([*named, *[""] * (len(columns) - len(named))])
            continue
        seconds = (f"{cell['total_seconds'][size]:.1f}" for size in ("1000", "4000"))
        gradients, share = f"{cell['gradients']['1000']:,}", f"{cell['cpu_share']:.2f}"
        biases = (_bias(row, name) for name in ("b1_max", "b2_max"))
        lines.append([*named, *biases, *seconds, gradients, f"{cell['effective']:,.0f}", share])
    note = "Seconds are wall-clock here; core: the share that the process had of its processor. Gradients to 1,000."
    return Table.of("Every cell", columns, lines, note)
