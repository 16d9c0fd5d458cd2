"""Section 4.1 and its appendix: every method on the six bivariate targets (Tables 2 and 3 left, Figures 4, 5, 6a, 8).

Table 2's measure is -E[log π*] over 100,000 draws and the time to draw them. E[log π*] is blind to where mass lies, so
each cell also has the sliced Wasserstein distance of 20,000 draws to exact ones, with what chance alone gives.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import jax
import numpy as np

from ergodic import targets
from ergodic.chain import ChainParams
from ergodic.kernels import HMC
from ergodic.methods import GHMC, HAIS, HEI, HVI, LAPS, NUTS, MeanField, Rejection
from ergodic.statistics.wasserstein import noise_floor
from ergodic.targets.synthetic import PAPER_SIX, SYNTHETIC

from ..harness.study import Report, Run, Study
from ..harness.tables import Figure
from .synthetic_cells import COMPARED, Compared, Trial
from .synthetic_tables import method_table, ranking_table, time_table, tuning_table
from .synthetic_views import chain_view, write_views

WIDE = 3.0
"""Scale of p0 for HAIS: wide enough to hold every target."""


def _methods(smoke: bool = False) -> dict[str, Compared]:
    """Label to method, with the paper's settings; ``smoke`` shortens everything."""
    methods: dict[str, Compared] = {
        "HVI": HVI(),
        "HEI": HEI(),
        "GHMC": GHMC(),
        "HAIS": HAIS(initial_scale=WIDE),
        "rejection": Rejection(),
        "mean-field VI": MeanField(),
        "NUTS": NUTS(),
        "LAPS": LAPS(),
    }
    if smoke:
        methods |= {
            "HVI": HVI(iterations=20),
            "HEI": HEI(iterations=20),
            "GHMC": GHMC(iterations=10, burn_in=10),
            "HAIS": HAIS(initial_scale=WIDE, temperatures=20, pilots=5),
            "mean-field VI": MeanField(iterations=50),
        }
        methods = {label: methods[label] for label in ("HVI", "HEI", "GHMC", "HAIS", "rejection", "mean-field VI")}
    return methods


@dataclass(frozen=True)
class Size:
    """How much is run."""

    draws: int
    seeds: int
    timing_repeats: int
    few: dict[str, int] = field(default_factory=dict)
    """Methods with a smaller number of draws in all seeds but the first."""
    targets: tuple[str, ...] = PAPER_SIX
    methods: dict[str, Compared] = field(default_factory=_methods)


PRESETS = {
    "smoke": Size(1_000, 1, 1, targets=("gaussian", "dual-moon"), methods=_methods(smoke=True)),
    "cpu": Size(100_000, 5, 3, {"HAIS": COMPARED}),
    "paper": Size(100_000, 5, 5),
}


def synthetic(run: Run[Size]) -> Report:
    """Section 4.1: every method on the six targets. Tables 2 and 3 (left), the figures, and the report page.

    A run that was stopped goes on where it was when it is started again with the same --out.
    """
    size, say = run.size, run.say
    trials = [
        Trial(label, _on(method, name), name, seed, size.few.get(label, size.draws) if seed else size.draws)
        for label, method in size.methods.items()
        for name in size.targets
        for seed in range(size.seeds)
    ]
    run.share([trial.cell() for trial in trials])
    done = []
    for index, trial in enumerate(trials):
        cell = trial.cell()
        had = cell.finished(run.cells)
        result = cell.result(run.cells)
        done.append(result)
        say(
            f"[{index + 1:>3}/{len(trials)}] {trial.label:13s} {trial.target:9s} seed {trial.seed}  "
            f"-E log π* {result['estimate']:.3f}  SW {result['distance']:.3f}  "
            f"tune {result['tuning_seconds']:.1f} s  draw {result['sampling_seconds']:.1f} s{'  (kept)' if had else ''}"
        )
    say("measuring tuning time")
    timing = tuning_times(size)
    floors = {
        name: noise_floor(targets.get(name).draw_exact, jax.random.key(999), min(COMPARED, size.draws), 5)
        for name in size.targets
    }
    exact = {name: -targets.get(name).require_truth().expected_logdensity for name in size.targets}
    tables = [
        method_table(done, size.targets, exact, floors, size.methods),
        ranking_table(done, size.targets, exact, floors),
        time_table(done, size.targets, size.methods),
        tuning_table(timing),
    ]
    say("drawing figures")
    figures = _figures(size, trials, run.cells, run.out)
    _views(size, run.out)
    results = {"cells": done, "noise_floor": floors, "exact": exact, "tuning_seconds_per_100": timing}
    config = {"preset": run.preset.name, "draws": size.draws, "seeds": size.seeds, "methods": list(size.methods)}
    return Report(results, tables, figures, config)


def _on(method: Compared, name: str) -> Compared:
    """A method's settings for one target: only rejection sampling has any, its box."""
    if not isinstance(method, Rejection):
        return method
    entry = SYNTHETIC[name]
    low, high = zip(*entry.view, strict=True)
    return replace(method, low=low, high=high, log_bound=entry.log_bound)


def tuning_times(size: Size) -> dict[str, dict[str, float]]:
    """Table 3, left: seconds for 100 tuning iterations of 100 particles, compiled already, interleaved; by target."""
    candidates: dict[str, Compared] = {
        "HVI": HVI(iterations=100),
        "HEI (stop gradient)": HEI(iterations=100),
        "HEI (full gradient)": HEI(iterations=100, gradient="full"),
        "GHMC": GHMC(iterations=100, burn_in=1),
    }
    seconds: dict[str, dict[str, float]] = {label: {} for label in candidates}
    for name in size.targets:
        runs: dict[str, list[float]] = {label: [] for label in candidates}
        for repeat in range(size.timing_repeats + 1):
            for label, method in candidates.items():
                sampler = method.fit(targets.get(name), jax.random.key(repeat), progress=False)
                if repeat:  # the first compiles
                    runs[label].append(sampler.cost.run_seconds)
        for label, values in runs.items():
            seconds[label][name] = float(np.median(values))
    return seconds


def _figures(size: Size, trials: list[Trial], folder: Path, out: Path) -> list[Figure]:
    from ..report.curves import Curve, chain_curves, training_curves
    from ..report.histograms import Panel, histogram_grid
    from ..report.style import save_figure

    first = {(trial.label, trial.target): trial for trial in trials if trial.seed == 0}
    number = min(COMPARED, size.draws)

    def panels(label: str) -> list[Panel]:
        return [
            Panel(
                first[label, name].arrays(folder)["draws"], SYNTHETIC[name].view, "", _note(first[label, name], folder)
            )
            for name in size.targets
        ]

    exact = [
        Panel(
            targets.get(name).draw_exact(jax.random.key(7), number),
            SYNTHETIC[name].view,
            f"({SYNTHETIC[name].letter}) {name}",
            f"{-targets.get(name).require_truth().expected_logdensity:.3f}",
        )
        for name in size.targets
    ]
    figures = []
    for file, title, labels in (
        ("histograms.png", "Histograms of each method on each target", ("HVI", "HEI", "HAIS", "GHMC")),
        ("histograms-more.png", "The further methods", ("rejection", "mean-field VI", "NUTS", "LAPS")),
    ):
        shown = [label for label in labels if label in size.methods]
        save_figure(histogram_grid([exact, *map(panels, shown)], ["exact", *shown], bins=70), out / file)
        caption = f"{number:,} draws per panel, seed 0. Under each: -E[log π*], and the sliced Wasserstein distance."
        figures.append(Figure(file, title, caption))

    curves, training = [], []
    for name in size.targets:
        truth = targets.get(name).require_truth()
        hei, hvi = (first[label, name].arrays(folder) for label in ("HEI", "HVI"))
        untuned = HEI().untuned(targets.get(name), jax.random.key(0)).sample(jax.random.key(1), 5_000, progress=False)
        title = f"({SYNTHETIC[name].letter}) {name}"
        curves.append(
            (
                title,
                truth.expected_logdensity,
                [
                    Curve(hei["trace/expected_logdensity"], "HEI, tuned", "blue"),
                    Curve(hvi["trace/expected_logdensity"], "HVI", "orange"),
                    Curve(untuned.trace["expected_logdensity"], "HEI, not tuned", "green", dashed=True),
                ],
            )
        )
        training.append((title, truth, hvi["record/objective"], hvi["record/final"], hei["record/final"]))
    save_figure(chain_curves(curves), out / "convergence.png")
    save_figure(training_curves(training), out / "training.png")
    return [
        *figures,
        Figure("convergence.png", "E[log π*] along the chain (Figure 6a)", "At t = 0..T, against the exact value."),
        Figure(
            "training.png",
            "Training (appendix)",
            "HVI's bound and E[log π*] over its iterations, HEI's E[log π*], log Z and the exact value.",
        ),
    ]


def _note(trial: Trial, folder: Path) -> str:
    result = trial.cell().result(folder)
    return f"{result['estimate']:.3f}   SW {result['distance']:.3f}"


def _views(size: Size, out: Path) -> None:
    hei, hvi = size.methods["HEI"], size.methods["HVI"]
    assert isinstance(hei, HEI) and isinstance(hvi, HVI)
    paths = []
    for name in size.targets:
        target, key = targets.get(name), jax.random.key(5)
        other = hvi.fit(target, key, progress=False).params
        chain = ChainParams(other.initial, other.transitions)
        for label, kernel, params in (
            ("HEI", hei.kernel, hei.fit(target, key, progress=False).params),
            ("HEI, not tuned", hei.kernel, hei.untuned(target, key).params),
            ("HVI", HMC(hvi.leapfrogs, adjusted=False), chain),
        ):
            paths.append(chain_view(name, label, kernel, params, jax.random.key(6)))
    write_views(out, paths)


STUDY = Study("synthetic", "reproduce", PRESETS, synthetic, shared=True)
