"""`ergodic bench models`: GEI and three NUTS on models that people write, from the model to draws that can be trusted.

Every cell, one sampler on one model with one seed, is a process of its own (model_cells.py); what it is measured by is
in model_measure.py, and what draws are held against in model_truth.py.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated

import typer

from ergodic.runtime.validation import positive_float, positive_int

from ..harness.options import Collect, Core, Seeds, checked, pin, split
from ..harness.presets import changed
from ..harness.study import Report, Run, Study
from ..models.registry import MODELS
from .model_cells import LABELS, ModelTrial, gathered
from .model_measure import with_bias
from .model_tables import all_tables
from .model_truth import truth_of


@dataclass(frozen=True)
class Size:
    """How much is run."""

    models: tuple[str, ...]
    seeds: int
    limit: float = 300.0


PRESETS = {
    "smoke": Size(("ar2", "weibull", "mixture"), 1, 100.0),
    "cpu": Size(tuple(MODELS), 1),
    "full": Size(tuple(MODELS), 5),
}


def models(
    run: Run[Size],
    *,
    models: Annotated[list[str] | None, typer.Option(help="Models, instead of the preset's; repeatable.")] = None,
    samplers: Annotated[list[str] | None, typer.Option(help="Samplers, instead of all; repeatable.")] = None,
    seeds: Seeds = None,
    limit: Annotated[float | None, typer.Option(help="Seconds after which a cell is killed.")] = None,
    again: Annotated[list[str] | None, typer.Option(help="A sampler to run anew; repeatable.")] = None,
    core: Core = None,
    collect: Collect = False,
    process: bool = True,
) -> Report:
    """GEI and three NUTS on models that people write: seconds and gradients to 1,000 and 4,000 trusted draws.

    One process per model, sampler and seed, so that compile time is honest. A run that was stopped goes on where it
    was.
    """
    size = changed(
        run.size,
        seeds=None if seeds is None else positive_int(seeds, "seeds"),
        limit=None if limit is None else positive_float(limit, "limit"),
    )
    names = checked(split(models) or size.models, tuple(MODELS), "model of the benchmark")
    labels = checked(split(samplers) or LABELS, LABELS, "sampler of the benchmark")
    anew = checked(split(again), LABELS, "sampler of the benchmark")
    pin(core)
    trials = [
        ModelTrial(name, label, seed, size.limit) for seed in range(size.seeds) for name in names for label in labels
    ]
    done = gathered(
        run, trials, lambda cell: with_bias(cell, truth_of(cell["model"])), anew=anew, collect=collect, process=process
    )
    config = {"preset": run.preset.name, **asdict(size), "models": list(names), "samplers": list(labels)}
    return Report({"cells": done}, all_tables(done), config=config)


STUDY = Study("models", "bench", PRESETS, models)
