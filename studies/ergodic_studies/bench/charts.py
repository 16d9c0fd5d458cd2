"""`ergodic bench charts`: what learned coordinates gain on necks and bends, and what each choice of theirs is worth.

Every cell, one variant on one target with one seed, is a process of its own (chart_cells.py, chart_targets.py); it is
measured as those of `ergodic bench models` are (model_measure.py).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated

import typer

from ergodic.runtime.validation import positive_float, positive_int

from ..harness.options import Collect, Core, Seeds, checked, pin, split
from ..harness.presets import changed
from ..harness.study import Report, Run, Study
from .chart_cells import MAIN, VARIANTS, ChartTrial, judged
from .chart_tables import all_tables
from .chart_targets import PLACES, PLAIN
from .model_cells import gathered


@dataclass(frozen=True)
class Size:
    """How much is run; ablations are of targets that need a chart alone."""

    targets: tuple[str, ...]
    seeds: int
    limit: float = 300.0
    variants: tuple[str, ...] = tuple(VARIANTS)


PRESETS = {
    "smoke": Size(("funnel-10-3", "gaussian"), 1, 100.0, ("GEI", "GEI, no chart", "NumPyro NUTS", "one layer")),
    "cpu": Size(tuple(PLACES), 1, 120.0),
    "full": Size(tuple(PLACES), 5),
}


def charts(
    run: Run[Size],
    *,
    targets: Annotated[list[str] | None, typer.Option(help="Targets, instead of the preset's; repeatable.")] = None,
    variants: Annotated[
        list[str] | None, typer.Option(help="A variant, instead of the preset's; repeatable, with commas in names.")
    ] = None,
    seeds: Seeds = None,
    limit: Annotated[float | None, typer.Option(help="Seconds after which a cell is killed.")] = None,
    again: Annotated[list[str] | None, typer.Option(help="A variant to run anew; repeatable.")] = None,
    core: Core = None,
    collect: Collect = False,
    process: bool = True,
) -> Report:
    """GEI with its chart, without, and with one choice of it undone, and two NUTS, on necks and bends.

    One process per target, variant and seed, so that compile time is honest. A run that was stopped goes on where it
    was.
    """
    size = changed(
        run.size,
        seeds=None if seeds is None else positive_int(seeds, "seeds"),
        limit=None if limit is None else positive_float(limit, "limit"),
    )
    names = checked(split(targets) or size.targets, tuple(PLACES), "target of the study")
    labels = checked(variants or size.variants, tuple(VARIANTS), "variant of the study")
    anew = checked(again or (), tuple(VARIANTS), "variant of the study")
    pin(core)
    trials = [
        ChartTrial(name, label, seed, size.limit)
        for seed in range(size.seeds)
        for name in names
        for label in labels
        if label in MAIN or name not in PLAIN
    ]
    done = gathered(run, trials, judged, anew=anew, collect=collect, process=process)
    config = {"preset": run.preset.name, **asdict(size), "targets": list(names), "variants": list(labels)}
    return Report({"cells": done}, all_tables(done), config=config)


STUDY = Study("charts", "bench", PRESETS, charts)
