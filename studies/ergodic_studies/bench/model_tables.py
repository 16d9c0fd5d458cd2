"""Tables of `ergodic bench models`: who is fastest on how many models, and where GEI's seconds go.

Gradients are in thousands. They and depths are totals: tuning, certificate and drawing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..harness.tables import Table
from .model_measure import Outcome

OURS = "GEI"
_SIZES = ("1000", "4000")
_FAR = 0.05
"""A b2 above this must never be certified."""
_NEAR = 0.01
"""A b2 above this is not converged."""
_SLOW = 2.0
"""So many times the seconds of the fastest NUTS are too many."""


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

    def gradients(self, size: str) -> float:
        """To so many draws, all parts together."""
        return self.median(lambda cell: cell["gradients"][size])

    def parts(self) -> tuple[float, float, float]:
        """Seconds of compiling, of tuning, and of the certificate with what that compiled."""
        return (
            self.median(lambda cell: cell["compile_seconds"]),
            self.median(lambda cell: cell["tuning_seconds"]),
            self.median(lambda cell: cell["certificate_seconds"]),
        )

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
    shown = (("Seconds", _seconds), ("Gradients, in thousands,", _gradients))
    tables = [
        _by_model(f"{what} to {int(size):,} draws that can be trusted", rows, labels, size, show)
        for what, show in shown
        for size in _SIZES
    ]
    ours = OURS in labels
    return [*([_summary(rows, labels)] if ours else []), *tables, *([_parts(rows)] if ours else []), _every_cell(cells)]


def fastest(rows: Rows, model: str, size: str) -> str | None:
    """The sampler that has so many trusted draws first; None where nobody has."""
    times = {row.label: row.seconds(size) for row in rows.values() if row.model == model and row.trusted(size)}
    return min(times, key=lambda label: times[label]) if times else None


def _summary(rows: Rows, labels: Sequence[str]) -> Table:
    """On how many models GEI passed, and on how many it is the fastest."""
    names = [model for model, label in rows if label == OURS]
    ours = {name: rows[name, OURS] for name in names}
    ended = [name for name in names if ours[name].good]
    seeds = [cell for row in ours.values() for cell in row.cells]
    lines: list[list[object]] = [
        ["certificate passed", _count([name for name in names if ours[name].trusted("1000")], names)],
        ["certificate ≤ tuning + compile", _count([name for name in ended if _is_short(ours[name])], ended)],
        ["runs over their time", sum(cell.get("killed", False) for cell in seeds)],
        [f"passed, yet b2 > {_NEAR} and > 3 × noise", _wrong(seeds, _NEAR)],
        [f"passed, yet b2 > {_FAR} and > 3 × noise", _wrong(seeds, _FAR)],
    ]
    for size in _SIZES if len(labels) > 1 else ():
        wins = [name for name in names if fastest(rows, name, size) == OURS]
        lines.append([f"fastest to {int(size):,} trusted draws", _count(wins, names)])
    for size in _SIZES if len(labels) > 1 else ():
        others = {pair: row for pair, row in rows.items() if row.label != OURS}
        best = {name: fastest(others, name, size) for name in names if ours[name].trusted(size)}
        both = {name: rows[name, label] for name, label in best.items() if label is not None}
        slow = [name for name, row in both.items() if ours[name].seconds(size) > _SLOW * row.seconds(size)]
        found = f" ({', '.join(slow)})" if slow else ""
        words = f"more than twice as slow as a NUTS to {int(size):,}, where both can be trusted"
        lines.append([words, f"{len(slow)} of {len(both)}{found}"])
    for label in labels:
        both_run = [name for name in names if label != OURS and (name, label) in rows]
        wins = [
            name
            for name in both_run
            if fastest({p: rows[p] for p in ((name, OURS), (name, label))}, name, "1000") == OURS
        ]
        if both_run:
            lines.append([f"faster than {label} to 1,000", _count(wins, both_run)])
    return Table.of("GEI on models that people write", ["", "models"], lines)


def _is_short(row: Row) -> bool:
    """Whether the certificate took no longer than what came before it."""
    compiling, tuning, certificate = row.parts()
    return certificate <= compiling + tuning


def _wrong(seeds: Sequence[Outcome], level: float) -> str:
    """Passed certificates of draws that are off, of all runs; by models that have a truth."""
    known = [cell for cell in seeds if "b2_max" in cell and "error" not in cell]
    passed = [cell for cell in known if cell["verdict"] == "passed"]
    wrong = [cell for cell in passed if not cell["b2_max"] <= max(level, 3 * cell.get("b2_noise", 0.0))]
    unknown = sum("b2_max" not in cell and cell.get("verdict") == "passed" for cell in seeds)
    found = f"{len(wrong)} of {len(seeds)} runs ({len(wrong) / len(seeds):.1%})"
    named = f": {', '.join(dict.fromkeys(cell['model'] for cell in wrong))}" if wrong else ""
    return found + named + (f"; {unknown} that passed have no truth" if unknown else "")


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
        "Compiling, tuning, certificate, and drawing what is not in hand; medians over seeds. ×: draws that cannot be "
        "trusted, or fewer than wanted in the time; then figures are scaled to as many. *: the fastest."
    )
    return Table.of(title, ["model", "dim", *labels], lines, note)


def _shown(row: Row, size: str, text: str, best: str | None) -> str:
    if not row.good:
        return row.said()
    return text + (" *" if row.label == best else "" if row.trusted(size) else " ×")


def _seconds(row: Row, size: str, best: str | None) -> str:
    return _shown(row, size, f"{row.seconds(size):.1f}", best)


def _gradients(row: Row, size: str, best: str | None) -> str:
    return _shown(row, size, _thousands(row.gradients(size)), best)


def _thousands(gradients: float | int) -> str:
    return f"{gradients / 1000:,.{0 if gradients >= 9_950 else 1}f}"


def _parts(rows: Rows) -> Table:
    """GEI's seconds by what they were spent on, its verdicts and its bias."""
    columns = ["model", "dim", "verdict", "b1", "b2", "noise", "compile s", "tuning s", "certificate s"]
    columns += ["certificate / (tuning + compile)", "in hand", "drawing s to 1,000", "to 4,000"]
    columns += ["tuning gradients", "certificate gradients", "a draw's depth"]
    lines = []
    for row in (row for row in rows.values() if row.label == OURS):
        named = [row.model, row.cells[0]["dim"], row.said()]
        if not row.good:
            lines.append([*named, *[""] * (len(columns) - len(named))])
            continue
        compiling, tuning, certificate = row.parts()
        lines.append(
            [
                *named,
                *(_bias(row, name) for name in ("b1_max", "b2_max", "b2_noise")),
                *(f"{seconds:.1f}" for seconds in (compiling, tuning, certificate)),
                f"{certificate / (tuning + compiling):.2f}",
                f"{row.median(lambda cell: cell['kept']):,.0f}",
                f"{row.median(lambda cell: cell['drawing_seconds']['1000']):.2f}",
                f"{row.median(lambda cell: cell['drawing_seconds']['4000']):.2f}",
                _thousands(row.median(lambda cell: cell["tuning_gradients"])),
                _thousands(row.median(lambda cell: cell["certificate_gradients"])),
                f"{row.median(lambda cell: cell['draw_depth']):,.0f}",
            ]
        )
    note = (
        "b1, b2: the largest squared bias of a first and of a second moment; noise: what of b2 is the truth's own. In "
        "hand: effective draws that the certificate left. Gradients in thousands. Compiling of the certificate and of "
        "drawing is in their seconds."
    )
    return Table.of("Where GEI's seconds go", columns, lines, note)


def _bias(row: Row, name: str) -> str:
    values = [value for cell in row.good if isinstance(value := cell.get(name), float)]
    return f"{np.median(values):.2g}" if values else ""


def _every_cell(cells: Sequence[Outcome]) -> Table:
    columns = ["model", "sampler", "seed", "outcome", "b1", "b2", "1,000 s", "4,000 s", "1,000 kgrad", "4,000 kgrad"]
    columns += ["1,000 depth", "4,000 depth", "effective", "core"]
    lines: list[list[object]] = []
    for cell in cells:
        row = Row(cell["model"], cell["label"], (cell,))
        named = [cell["model"], cell["label"], cell["seed"], row.said()]
        if not row.good:
            lines.append([*named, *[""] * (len(columns) - len(named))])
            continue
        biases = (_bias(row, name) for name in ("b1_max", "b2_max"))
        seconds = (f"{cell['total_seconds'][size]:.1f}" for size in _SIZES)
        gradients = (_thousands(cell["gradients"][size]) for size in _SIZES)
        depths = (f"{cell['depths'][size]:,}" for size in _SIZES)
        share = f"{cell['cpu_share']:.2f}"
        lines.append([*named, *biases, *seconds, *gradients, *depths, f"{cell['effective']:,.0f}", share])
    note = (
        "Seconds are wall-clock here; core: the share that the process had of its processor. kgrad: thousands of "
        "gradients; depth: those that follow one another, chains side by side. All are of tuning, certificate and "
        "drawing together."
    )
    return Table.of("Every cell", columns, lines, note)
