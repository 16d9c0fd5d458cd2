"""`ergodic bench posteriors`: GEI, HEI and their peers on synthetic targets and posteriors, from Python functions.

Every cell, one method on one target, is a process of its own (posterior_cells.py); what one seed is measured by is in
posterior_measure.py. The twenty targets that the project's bars are about come first.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ergodic import targets
from ergodic.methods import METHODS
from ergodic.runtime.errors import ConfigError, unknown
from ergodic.runtime.validation import one_of, positive_float, positive_int

from ..harness.results import write_results
from .posterior_cells import LABELS, Cell
from .posterior_tables import all_tables

BAR = (
    *("laplace", "gaussian", "wave1", "rosenbrock"),
    *("ark", "arma", "gp-pois-regr", "hmm", "kidiq", "earnings", "mesquite", "sblrc", "diamonds", "eight-schools"),
    *("german-credit", "ill-conditioned", "ill-conditioned-rotated", "brownian", "student-t", "funnel"),
)
"""The twenty targets of the bars."""
OTHERS = ("dual-moon", "ring", "wave2", "wave3", "unequal-modes", "banana")


class Preset(NamedTuple):
    """How much is run."""

    targets: tuple[str, ...]
    seeds: int
    wanted: int
    limit: float
    small: bool = False


PRESETS = {
    "smoke": Preset(("gaussian", "rosenbrock"), 1, 1_000, 2.0, small=True),
    "cpu": Preset(BAR + OTHERS, 5, 10_000, 20.0),
    "full": Preset(BAR + OTHERS, 5, 10_000, 300.0),
}


def run(
    out: Path,
    preset: str = "cpu",
    *,
    names: Sequence[str] | None = None,
    labels: Sequence[str] | None = None,
    seeds: int | None = None,
    limit: float | None = None,
    again: Sequence[str] = (),
    share: float = 0.0,
    core: int | None = None,
    process: bool = True,
    collect: bool = False,
    say: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Run what is missing, then write tables, a figure and ``results.json`` under ``out``.

    Args:
      names, labels, seeds, limit: targets, methods, seeds and seconds a seed, instead of the preset's.
      again: methods whose cells are run even if they are there.
      share: cells of which a seed had less than this part of a processor, because others used it, are run anew.
      core: the processor that everything runs on; None: all.
      process: a process a cell; without it compile times are not those of a first call.
      collect: run nothing; tables of what is on disk, whatever its number of seeds.
    """
    chosen = PRESETS[one_of(preset, tuple(PRESETS), "preset")]
    if seeds is not None:
        chosen = chosen._replace(seeds=positive_int(seeds, "seeds"))
    if limit is not None:
        chosen = chosen._replace(limit=positive_float(limit, "limit"))
    known = [label for label in LABELS if label in METHODS or label in ("NumPyro NUTS", "nutpie")]
    labels = _checked(labels or known, known, "method of the benchmark")
    again = _checked(again, known, "method of the benchmark")
    names = _checked(names or chosen.targets, targets.names(), "built-in target")
    if core is not None:
        os.sched_setaffinity(0, {core})  # inherited by every cell
    folder = out / "cells"
    cells = [
        Cell(name, label, chosen.seeds, chosen.wanted, chosen.limit, chosen.small) for name in names for label in labels
    ]
    done = []
    if collect:
        done = [found for cell in cells if (found := cell.found(folder)) is not None]
        cells = []
    for index, cell in enumerate(cells):
        kept = None if cell.label in again else cell.kept(folder, share)
        done.append(kept or cell.result(folder, process=process))
        say(f"[{index + 1:>3}/{len(cells)}] {_line(done[-1])}{'  (kept)' if kept else ''}")
    tables = all_tables(done, BAR)
    figure = _figure(done, names, labels, out)
    config = {"preset": preset, **chosen._asdict(), "targets": list(names), "methods": list(labels)}
    command = f"ergodic bench posteriors --preset {preset}" + (" --collect" if collect else "")
    write_results(out, "posteriors", command, config, {"cells": done}, tables=tables, figures=[figure])
    return {"tables": tables, "cells": done}


def _checked(wanted: Sequence[str], known: Sequence[str], what: str) -> tuple[str, ...]:
    """Names as they are known, whatever the case."""
    found = {name.lower(): name for name in known}
    for name in wanted:
        if name.lower() not in found:
            raise ConfigError(unknown(what, name, known))
    return tuple(found[name.lower()] for name in wanted)


def _line(cell: dict[str, Any]) -> str:
    from .posterior_tables import Row

    row = Row.of(cell)
    if row is None:
        return f"{cell['label']:13s} {cell['target']:23s} {cell['results'][0].get('error', '')[:60]}"
    seeds = f"{row.seeds} seeds" + (f", {row.failed} failed" if row.failed else "")
    return (
        f"{cell['label']:13s} {cell['target']:23s} b2 {row.b2_max:8.2g}  compile {row.compile:5.1f} s  "
        f"tune {row.tuning:6.2f} s  10,000 in {row.sampling[1]:7.2f} s  depth {row.depth:,.0f}  {seeds}"
    )


def _figure(cells: list[dict[str, Any]], names: Sequence[str], labels: Sequence[str], out: Path) -> dict[str, str]:
    from ..report.marks import Mark, bias_against_seconds
    from ..report.style import save_figure
    from .posterior_tables import Row

    marks: dict[str, list[Mark]] = {name: [] for name in names}
    for cell in cells:
        row = Row.of(cell)
        if row is not None:
            marks[row.target].append(Mark(row.label, row.total(1), row.b2_max))
    save_figure(bias_against_seconds(marks, labels), out / "bias.png")
    return {
        "file": "bias.png",
        "title": "Bias against seconds",
        "caption": "b2_max against seconds to 10,000 independent or effective draws, compiling and tuning included; "
        "medians over seeds. Below the line: converged. Left is faster, down is better.",
    }
