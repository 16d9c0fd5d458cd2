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

from dataclasses import asdict, dataclass, replace
from pathlib import Path

import jax
import numpy as np

from ergodic import targets
from ergodic.methods import HEI
from ergodic.targets.synthetic import PAPER_SIX

from ..harness.cells import Cell
from ..harness.study import Report, Run, Study
from ..harness.tables import Figure
from ..measures.bias import squared_bias
from ..posteriors.registry import POSTERIORS
from .floor import FROM_PRIOR, FROM_REFERENCE, available_of, distance_to, started
from .safeguards_tables import MEASURES, Guarded, measure_table, summary_table

Setting = str | float | bool
SAFEGUARDS: dict[str, dict[str, Setting]] = {
    "acceptance floor": {"acceptance_floor": 0.8},
    "Rao-Blackwell": {"objective": "rao-blackwell"},
    "early stopping": {"early_stopping": True},
    "SKSD scale": {"scale": "sksd"},
}
ALL = {name: value for settings in SAFEGUARDS.values() for name, value in settings.items()}
VARIANTS: dict[str, dict[str, Setting]] = {"plain": {}, **SAFEGUARDS, "all": ALL}
LONG = 300


@dataclass(frozen=True)
class Size:
    """How much is run."""

    targets: tuple[str, ...] = (*PAPER_SIX, *FROM_PRIOR, *FROM_REFERENCE)
    seeds: int = 3
    draws: int = 10_000
    posterior_draws: int = 4_000
    iterations: int = 50
    long: int = LONG
    first_seed: int = 0


PRESETS = {
    "smoke": Size(("gaussian", "mesquite"), 1, 1_000, 500, 10, 20),
    "cpu": Size(),
    "check": Size(first_seed=100),  # seeds that the safeguards' own settings were not chosen on
}


@dataclass(frozen=True)
class Trial:
    """One variant on one target with one seed; variants of a seed share their keys."""

    label: str
    method: HEI
    target: str
    seed: int
    draws: int

    def cell(self) -> Cell[Guarded]:
        """The trial as a cell."""
        settings = [self.method.name, asdict(self.method), self.draws]
        return Cell((self.target, self.label, self.seed), settings, self.run)

    def run(self, path: Path) -> Guarded:
        """Fit, draw and measure."""
        target = targets.get(self.target)
        fit_key, sample_key, exact_key = jax.random.split(jax.random.key(self.seed), 3)
        sampler = self.method.fit(target, fit_key, progress=False)
        draws = sampler.sample(sample_key, self.draws, progress=False)
        record, inside = sampler.record, draws.unconstrained[np.isfinite(draws.logdensity)]
        return {
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


def safeguards(run: Run[Size]) -> Report:
    """What HEI's safeguards are worth: each alone and all together against plain EI, on targets that are known.

    A run that was stopped goes on where it was when it is started again with the same --out.
    """
    size = run.size
    names = available_of(size.targets, run.say)
    run.share([trial.cell() for name in names for trial in _trials(name, size)])
    done: list[Guarded] = []
    for name in names:
        ours = [trial.cell().result(run.cells) for trial in _trials(name, size)]
        done += ours
        run.say(_words(name, ours))
    six = [name for name in names if name in PAPER_SIX]
    long = [f"{label}, {size.long}" for label in VARIANTS]
    tables = [
        summary_table(done, list(VARIANTS), names, "Safeguards against plain EI"),
        summary_table(done, long, six, f"The same with {size.long} iterations, on the six", against="plain"),
        *(measure_table(done, list(VARIANTS), names, measure) for measure in MEASURES),
        measure_table(done, long, six, "b2_max", f", {size.long} iterations"),
    ]
    config = {**run.preset.config(), "variants": VARIANTS}
    return Report({"cells": done}, tables, [_figure(done, names, run.out)], config, documents=True)


def _trials(name: str, size: Size) -> list[Trial]:
    """Every variant of a target, those of one length first."""
    plain, posterior = started(targets.get(name)), name in POSTERIORS
    lengths = {"": size.iterations} if posterior else {"": size.iterations, f", {size.long}": size.long}
    draws = size.posterior_draws if posterior else size.draws
    return [
        Trial(label + mark, replace(plain, iterations=iterations, **settings), name, seed, draws)  # type: ignore[arg-type]
        for mark, iterations in lengths.items()
        for label, settings in VARIANTS.items()
        for seed in range(size.first_seed, size.first_seed + size.seeds)
    ]


def _figure(done: list[Guarded], names: list[str], out: Path) -> Figure:
    from ..report.dots import dots
    from ..report.style import save_figure

    values = {
        label: [[c["b2_max"] for c in done if (c["label"], c["target"]) == (label, name)] for name in names]
        for label in VARIANTS
    }
    save_figure(dots(names, values, r"$b^2_{\max}$", level=0.01), out / "safeguards.png")
    caption = "Bias of second moments by safeguard: median and range over seeds. Below the line counts as converged."
    return Figure("safeguards.png", "b2_max by safeguard", caption)


def _words(name: str, cells: list[Guarded]) -> str:
    medians = {
        label: np.median([cell["b2_max"] for cell in cells if cell["label"] == label])
        for label in dict.fromkeys(cell["label"] for cell in cells)
    }
    return f"{name:14s} b2_max " + ", ".join(f"{label}: {value:.2g}" for label, value in medians.items())


STUDY = Study("safeguards", "reproduce", PRESETS, safeguards, shared=True)
