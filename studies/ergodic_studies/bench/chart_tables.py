"""Tables of `ergodic bench charts`: the bars, every target with a chart and without, the ablations, every cell.

Depth is of gradients that follow one another: of GEI those of tuning and of one draw, however many draws there are; of
chains all up to 1,000 effective draws, warm-up included.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ..harness.tables import Table
from .chart_cells import ABLATIONS, MAIN
from .chart_targets import PAIRS, PLACES, PLAIN
from .model_measure import Outcome
from .model_tables import Row

OURS, BARE, NUTS = "GEI", "GEI, no chart", ("NumPyro NUTS", "nutpie")
_NEAR = 0.01
Rows = Mapping[tuple[str, str], Row]


def all_tables(cells: Sequence[Outcome]) -> list[Table]:
    """The bars, bias, depth and seconds by target and variant, the ablations, and every cell."""
    pairs = dict.fromkeys((cell["model"], cell["label"]) for cell in cells)
    rows = {pair: Row(*pair, tuple(c for c in cells if (c["model"], c["label"]) == pair)) for pair in pairs}
    main = [label for label in MAIN if any(label == found for _, found in rows)]
    others = [label for label in ABLATIONS if any(label == found for _, found in rows)]
    shown: list[tuple[str, Callable[[Row], str]]] = [
        ("Largest b2 of a coordinate, and verdicts", _bias_and_verdict),
        ("Depth of tuning and a draw", lambda row: _number(depth(row)) + _doubt(row)),
        ("Seconds to 1,000 draws that can be trusted", lambda row: _number(row.seconds("1000"), 1) + _doubt(row)),
    ]
    tables = [_bars(rows), *(_by_target(title, rows, main, show) for title, show in shown)]
    if others:
        tables.append(_by_target("GEI with one choice undone: b2 and depth", rows, [OURS, *others], _in_short))
    return [*tables, _every_cell(cells)]


def depth(row: Row) -> float:
    """Gradients that follow one another: tuning and one draw, or chains to 1,000 draws."""
    return row.median(lambda c: c["tuning_depth"] + c["draw_depth"] if "draw_depth" in c else c["depths"]["1000"])


def bias(row: Row | None, name: str = "b2_max") -> float:
    """A bias, the median over seeds; not a number where the truth is not known."""
    values = [value for cell in (row.good if row is not None else []) if isinstance(value := cell.get(name), float)]
    return float(np.median(values)) if values else math.nan


def _bars(rows: Rows) -> Table:
    """What was asked for, what was found, and whether that is enough; a bar without its cells is left out."""
    lines: list[list[object]] = []
    for name in ("funnel-10-3", "funnel-100-3"):
        if (row := rows.get((name, OURS))) is not None and row.good:
            lines += _funnel_bars(name, row)
    ratios, off = {}, []
    for plain, (centred, _) in PAIRS.items():
        two = rows.get((plain, OURS)), rows.get((centred, OURS))
        if all(row is not None and row.good for row in two):
            ratios[centred] = depth(two[1]) / depth(two[0])  # type: ignore[arg-type]
            off += [row.model for row in two if row is not None and not bias(row) < _NEAR]
    if ratios:
        most = max(ratios, key=lambda name: ratios[name])
        found = f"{ratios[most]:.2f} ({most})"
        lines.append(
            [f"{len(ratios)} centred forms: depth over the non-centred form's < 1.5", found, ratios[most] < 1.5]
        )
        lines.append([f"hierarchies in both forms: b2 < {_NEAR}", f"not {', '.join(off)}" if off else "all", not off])
    for name in PLAIN:
        both = [rows.get((name, label)) for label in (OURS, BARE)]
        if all(row is not None and row.good for row in both):
            ours, bare = (row.seconds("1000") for row in both if row is not None)
            lines.append([f"{name}: seconds over those without a chart < 1.1", f"{ours / bare:.2f}", ours < 1.1 * bare])
    behind, of = [], 0
    for (name, label), row in rows.items():
        its = [depth(other) for nuts in NUTS if (other := rows.get((name, nuts))) is not None and other.good]
        if label == OURS and row.good and its:
            of += 1
            behind += [] if depth(row) < min(its) else [name]
    if of:
        found = f"{of - len(behind)} of {of}" + (f" (not {', '.join(behind)})" if behind else "")
        lines.append(["depth below that of every NUTS that was run", found, not behind])
    return Table.of("Bars", ["bar", "found", "met"], [[*line[:2], "yes" if line[2] else "no"] for line in lines])


def _funnel_bars(name: str, row: Row) -> list[list[object]]:
    """Those of the deepest funnels."""
    tail = PLACES[name].tail
    assert tail is not None
    passed, seeds = sum(cell.get("verdict") == "passed" for cell in row.cells), len(row.cells)
    ratio = row.median(lambda cell: cell["tail"]) / tail.share
    tuning, draw = (row.median(lambda cell, key=key: cell[key]) for key in ("tuning_depth", "draw_depth"))  # type: ignore
    driver = bias(row, "driver_b2")
    return [
        [f"{name}: b2 of the driver < 0.002", f"{driver:.2g}", driver < 0.002],
        [f"{name}: P(v < {tail.level:g}) within 5 % of {tail.share:.4f}", f"{ratio:.3f} of it", abs(ratio - 1) < 0.05],
        [f"{name}: certificate passes in all seeds", f"{passed} of {seeds}", passed == seeds],
        [f"{name}: tuning depth < 1,000, a draw's < 60", f"{tuning:,.0f}, {draw:,.0f}", tuning < 1000 and draw < 60],
    ]


def _by_target(title: str, rows: Rows, labels: Sequence[str], show: Callable[[Row], str]) -> Table:
    lines = []
    for name in dict.fromkeys(model for model, _ in rows):
        here = [rows.get((name, label)) for label in labels]
        if any(row is not None for row in here):
            dim = next(row.cells[0]["dim"] for row in here if row is not None)
            lines.append([name, dim, *("" if row is None else show(row) if row.good else row.said() for row in here)])
    note = "Medians over seeds. ×: most seeds did not reach 1,000 draws that can be trusted."
    return Table.of(title, ["target", "dim", *labels], lines, note)


def _bias_and_verdict(row: Row) -> str:
    return f"{_number(bias(row), digits=2)}, {row.said()}"


def _in_short(row: Row) -> str:
    return f"{_number(bias(row), digits=2)} / {_number(depth(row))}{_doubt(row)}"


def _doubt(row: Row) -> str:
    return "" if row.trusted("1000") else " ×"


def _number(value: float, decimals: int = 0, digits: int | None = None) -> str:
    if math.isnan(value):
        return "no truth"
    return f"{value:,.{decimals}f}" if digits is None else f"{value:.{digits}g}"


def _every_cell(cells: Sequence[Outcome]) -> Table:
    columns = ["target", "variant", "seed", "outcome", "b1", "b2", "b2 of the driver", "tail / truth", "tuning depth"]
    columns += ["a draw's depth", "compile s", "tuning s", "certificate s", "drawing s", "gradients, thousands", "core"]
    lines: list[list[object]] = []
    for cell in cells:
        row, tail = Row(cell["model"], cell["label"], (cell,)), PLACES[cell["model"]].tail
        named = [cell["model"], cell["label"], cell["seed"], row.said()]
        if not row.good:
            lines.append([*named, *[""] * (len(columns) - len(named))])
            continue
        lines.append(
            [
                *named,
                *(_number(bias(row, key), digits=2) for key in ("b1_max", "b2_max")),
                "" if PLACES[cell["model"]].driver is None else _number(bias(row, "driver_b2"), digits=2),
                "" if tail is None else f"{cell['tail'] / tail.share:.3f}",
                f"{cell['tuning_depth']:,}",
                f"{cell['draw_depth']:,}" if "draw_depth" in cell else "",
                *(f"{cell[key]:.1f}" for key in ("compile_seconds", "tuning_seconds", "certificate_seconds")),
                f"{cell['drawing_seconds']['1000']:.2f}",
                f"{cell['gradients']['1000'] / 1000:,.1f}",
                f"{cell['cpu_share']:.2f}",
            ]
        )
    note = (
        "Drawing and gradients are to 1,000 draws; gradients are all, tuning and certificate too. Tail: the share of "
        "draws with v < -5, of the funnels whose driver has a spread of 3. Core: the share that the process had of its "
        "processor; seconds are by the clock."
    )
    return Table.of("Every cell", columns, lines, note)
