"""HEI's safeguards (`methods/hei.py`): each alone and all together against plain EI, on targets that are known.

On the paper's six targets and the five posteriors of the entropy floor's study, started as there (`floor.py`), every
variant from the same keys. On the six also with 300 iterations for 50, where the paper's objective is known to go past
its best.

- **b2_max**, the bias of second moments (`measures/bias.py`); below 0.01 counts as converged.
- **distance**: sliced Wasserstein to exact draws; for posteriors the largest error of a mean in reference sds.
- **least acceptance**: mean acceptance of the step that is accepted least: near 0 it is dead.
- **seconds** of tuning, compiling not counted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ergodic import targets
from ergodic.runtime.data_files import VARIABLE, available
from ergodic.runtime.validation import one_of
from ergodic.targets.synthetic import PAPER_SIX
from ergodic_studies.measures.bias import squared_bias
from ergodic_studies.posteriors.registry import POSTERIORS

from ..harness.cells import Cell
from ..harness.results import write_results
from .floor import FROM_PRIOR, FROM_REFERENCE, distance_to, started
from .floor_tables import markdown
from .safeguards_tables import MEASURES, measure_table, summary_table

SAFEGUARDS: dict[str, dict[str, Any]] = {
    "acceptance floor": {"acceptance_floor": 0.8},
    "Rao-Blackwell": {"objective": "rao-blackwell"},
    "early stopping": {"early_stopping": True},
    "SKSD scale": {"scale": "sksd"},
}
ALL = {name: value for settings in SAFEGUARDS.values() for name, value in settings.items()}
VARIANTS = {"plain": {}, **SAFEGUARDS, "all": ALL}
LONG = 300


@dataclass(frozen=True)
class Preset:
    """How much is run."""

    targets: tuple[str, ...] = (*PAPER_SIX, *FROM_PRIOR, *FROM_REFERENCE)
    seeds: int = 3
    draws: int = 10_000
    posterior_draws: int = 4_000
    iterations: int = 50
    long: int = LONG
    first_seed: int = 0


PRESETS = {
    "smoke": Preset(("gaussian", "mesquite"), 1, 1_000, 500, 10, 20),
    "cpu": Preset(),
    "check": Preset(first_seed=100),  # seeds that the safeguards' own settings were not chosen on
}


@dataclass(frozen=True)
class Guarded(Cell):
    """One variant on one target with one seed; variants of a seed share their keys."""

    def _run(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        target = targets.get(self.target)
        fit_key, sample_key, exact_key = jax.random.split(jax.random.key(self.seed), 3)
        sampler = self.method.fit(target, fit_key, progress=False)
        draws = sampler.sample(sample_key, self.draws, progress=False)
        record, inside = sampler.record, draws.unconstrained[np.isfinite(draws.logdensity)]
        result = {
            "label": self.label,
            "target": self.target,
            "seed": self.seed,
            "b2_max": squared_bias(target, inside).largest,
            "distance": distance_to(target, draws, exact_key),
            "acceptance": float(draws.trace["acceptance"].min()),
            "seconds": sampler.cost.run_seconds,
            "compile_seconds": sampler.cost.compile_seconds,
            "gradients": sampler.cost.gradients,
            "iterations": len(record["objective"]),
            "kept": int(record["stein_iteration"][record["stein_residual"].argmin()])
            if "stein_residual" in record
            else None,
            "scale": float(record["scale"][0]) if "scale" in record else None,
        }
        return result, {"acceptance": draws.trace["acceptance"]}


def reproduce(preset: str, out: Path, say: Callable[[str], None] = print) -> dict[str, Any]:
    """Run what is missing of the study, then write ``results.json``, ``tables.md`` and a figure under ``out``."""
    size = PRESETS[one_of(preset, tuple(PRESETS), "preset")]
    names = [name for name in size.targets if name not in POSTERIORS or available(POSTERIORS[name].collection)]
    if len(names) < len(size.targets):
        say(f"without {VARIABLE} the posteriors are left out (`ergodic targets` says what it should name)")
    done = []
    for name in names:
        ours = [cell.result(out / "cells") for cell in _cells(name, size)]
        done += ours
        say(_words(name, ours))
    six = [name for name in names if name in PAPER_SIX]
    long = [f"{label}, {size.long}" for label in VARIANTS]
    tables = [
        summary_table(done, list(VARIANTS), names, "Safeguards against plain EI"),
        summary_table(done, long, six, f"The same with {size.long} iterations, on the six", against="plain"),
        *(measure_table(done, list(VARIANTS), names, measure) for measure in MEASURES),
        measure_table(done, long, six, "b2_max", f", {size.long} iterations"),
    ]
    figures = [_figure(done, names, out)]
    command = f"ergodic reproduce safeguards --preset {preset}"
    config = {"preset": preset, **asdict(size), "variants": VARIANTS}
    write_results(out, "safeguards", command, config, {"cells": done}, tables=tables, figures=figures)
    (out / "tables.md").write_text("\n\n".join(markdown(table) for table in tables) + "\n")
    return {"cells": done, "tables": tables}


def _cells(name: str, size: Preset) -> list[Cell]:
    """Every variant of a target, those of one length first."""
    plain, posterior = started(targets.get(name)), name in POSTERIORS
    lengths = {"": size.iterations} if posterior else {"": size.iterations, f", {size.long}": size.long}
    draws = size.posterior_draws if posterior else size.draws
    return [
        Guarded(label + mark, replace(plain, iterations=iterations, **settings), name, seed, draws)
        for mark, iterations in lengths.items()
        for label, settings in VARIANTS.items()
        for seed in range(size.first_seed, size.first_seed + size.seeds)
    ]


def _figure(done: list[dict[str, Any]], names: list[str], out: Path) -> dict[str, str]:
    from ..report.dots import dots
    from ..report.style import save_figure

    values = {
        label: [[c["b2_max"] for c in done if (c["label"], c["target"]) == (label, name)] for name in names]
        for label in VARIANTS
    }
    save_figure(dots(names, values, r"$b^2_{\max}$", level=0.01), out / "safeguards.png")
    caption = "Bias of second moments by safeguard: median and range over seeds. Below the line counts as converged."
    return {"file": "safeguards.png", "title": "b2_max by safeguard", "caption": caption}


def _words(name: str, cells: list[dict[str, Any]]) -> str:
    medians = {
        label: np.median([cell["b2_max"] for cell in cells if cell["label"] == label])
        for label in dict.fromkeys(cell["label"] for cell in cells)
    }
    return f"{name:14s} b2_max " + ", ".join(f"{label}: {value:.2g}" for label, value in medians.items())
