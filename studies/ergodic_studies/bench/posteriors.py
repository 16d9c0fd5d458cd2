"""`ergodic bench posteriors`: GEI, HEI and their peers on synthetic targets and posteriors, from Python functions.

Every cell, one method on one target, is a process of its own (posterior_cells.py); what one seed is measured by is in
posterior_measure.py. The twenty targets that the project's bars are about come first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from ergodic import targets as built_in
from ergodic.runtime.validation import positive_float, positive_int

from ..harness.options import Collect, Core, Seeds, checked, pin, split
from ..harness.presets import changed
from ..harness.study import Report, Run, Study
from ..harness.tables import Figure
from .posterior_cells import LABELS, Measured, Trial
from .posterior_tables import Row, all_tables

BAR = (
    *("laplace", "gaussian", "wave1", "rosenbrock"),
    *("ark", "arma", "gp-pois-regr", "hmm", "kidiq", "earnings", "mesquite", "sblrc", "diamonds", "eight-schools"),
    *("german-credit", "ill-conditioned", "ill-conditioned-rotated", "brownian", "student-t", "funnel"),
)
"""The twenty targets of the bars."""
OTHERS = ("dual-moon", "ring", "wave2", "wave3", "unequal-modes", "banana")


@dataclass(frozen=True)
class Size:
    """How much is run."""

    targets: tuple[str, ...]
    seeds: int
    wanted: int
    limit: float
    small: bool = False


PRESETS = {
    "smoke": Size(("gaussian", "rosenbrock"), 1, 1_000, 2.0, small=True),
    "cpu": Size(BAR + OTHERS, 5, 10_000, 20.0),
    "full": Size(BAR + OTHERS, 5, 10_000, 300.0),
}


def posteriors(
    run: Run[Size],
    *,
    targets: Annotated[list[str] | None, typer.Option(help="Targets, instead of the preset's; repeatable.")] = None,
    methods: Annotated[list[str] | None, typer.Option(help="Methods, instead of all; repeatable.")] = None,
    seeds: Seeds = None,
    limit: Annotated[float | None, typer.Option(help="Seconds per seed after which no more draws are made.")] = None,
    again: Annotated[list[str] | None, typer.Option(help="A method to run anew; repeatable.")] = None,
    share: Annotated[float, typer.Option(help="Run cells anew that had less than this share of a processor.")] = 0.0,
    core: Core = None,
    collect: Collect = False,
    process: bool = True,
) -> Report:
    """GEI, HEI and their peers on targets and posteriors: bias, seconds, depth and gradients to 10,000 draws.

    One process per method and target, so that compile time is honest. A run that was stopped goes on where it was.
    """
    size = changed(
        run.size,
        seeds=None if seeds is None else positive_int(seeds, "seeds"),
        limit=None if limit is None else positive_float(limit, "limit"),
    )
    labels = checked(split(methods) or LABELS, LABELS, "method of the benchmark")
    anew = checked(split(again), LABELS, "method of the benchmark")
    names = checked(split(targets) or size.targets, built_in.names(), "built-in target")
    pin(core)
    trials = [Trial(name, label, size.seeds, size.wanted, size.limit, size.small) for name in names for label in labels]
    done: list[Measured] = []
    if collect:
        done = [found for trial in trials if (found := _found(trial, run.cells)) is not None]
        trials = []
    for index, trial in enumerate(trials):
        cell = trial.cell(process=process)
        kept = None if trial.label in anew else cell.kept(run.cells)
        fresh = kept is None or any(row.get("cpu_share", 1.0) < share for row in kept["results"])
        done.append(cell.result(run.cells, again=fresh))
        run.say(f"[{index + 1:>3}/{len(trials)}] {_line(done[-1])}{'' if fresh else '  (kept)'}")
    config = {"preset": run.preset.name, **asdict(size), "targets": list(names), "methods": list(labels)}
    return Report({"cells": done}, all_tables(done, BAR), [_figure(done, names, labels, run.out)], config)


def _found(trial: Trial, folder: Path) -> Measured | None:
    """Of the trial's results on disk, however many seeds they have, that which had most of its processor."""
    results = trial.cell().with_any_settings(folder)
    return max(results, key=lambda r: min(row.get("cpu_share", 0.0) for row in r["results"]), default=None)


def _line(cell: Measured) -> str:
    row = Row.of(cell)
    if row is None:
        return f"{cell['label']:13s} {cell['target']:23s} {cell['results'][0].get('error', '')[:60]}"
    seeds = f"{row.seeds} seeds" + (f", {row.failed} failed" if row.failed else "")
    return (
        f"{cell['label']:13s} {cell['target']:23s} b2 {row.b2_max:8.2g}  compile {row.compile:5.1f} s  "
        f"tune {row.tuning:6.2f} s  10,000 in {row.sampling[1]:7.2f} s  depth {row.depth:,.0f}  {seeds}"
    )


def _figure(cells: list[Measured], names: Sequence[str], labels: Sequence[str], out: Path) -> Figure:
    from ..report.marks import Mark, bias_against_seconds
    from ..report.style import save_figure

    marks: dict[str, list[Mark]] = {name: [] for name in names}
    for cell in cells:
        row = Row.of(cell)
        if row is not None:
            marks[row.target].append(Mark(row.label, row.total(1), row.b2_max))
    save_figure(bias_against_seconds(marks, labels), out / "bias.png")
    return Figure(
        "bias.png",
        "Bias against seconds",
        "b2_max against seconds to 10,000 independent or effective draws, compiling and tuning included; medians over "
        "seeds. Below the line: converged. Left is faster, down is better.",
    )


STUDY = Study("posteriors", "bench", PRESETS, posteriors)
