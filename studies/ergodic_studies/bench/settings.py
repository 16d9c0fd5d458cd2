"""`ergodic bench settings`: how HEI's settings were chosen, on the paper's six targets.

P0's scale, the learning rate, the constraint, the gradient and the number of iterations are changed. For each setting
and target: the median over seeds of the signed error of -E[log π*], its largest size, and the median sliced Wasserstein
distance to exact draws. One setting serves all six targets; the choice is made from this table.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Annotated, NamedTuple

import jax
import numpy as np
import typer

import ergodic as eg
from ergodic.statistics.wasserstein import noise_floor, sliced_wasserstein
from ergodic.targets.synthetic import PAPER_SIX

from ..harness.presets import changed
from ..harness.study import Report, Run, Study
from ..harness.tables import Table

BASE = eg.HEI()


@dataclass(frozen=True)
class Size:
    """How much is run."""

    seeds: int
    """Seeds per setting; the default has four times as many."""
    draws: int = 20_000
    targets: tuple[str, ...] = PAPER_SIX
    settings: int = 100
    """Settings that are tried, at most."""


PRESETS = {"smoke": Size(1, 1_000, ("gaussian",), 2), "cpu": Size(5)}


class Quality(NamedTuple):
    """How good the draws of one setting on one target are, over seeds."""

    error: float
    largest: float
    distance: float
    seconds: float
    seeds: int

    def record(self) -> dict[str, int | float]:
        """The figures as ``results.json`` names them."""
        names = ("error", "largest error", "distance", "tuning seconds", "seeds")
        return dict(zip(names, self, strict=True))


def variants(seeds: int) -> list[tuple[str, eg.HEI, int]]:
    """Label, method and number of seeds of every setting; the default first, with more seeds than the rest."""
    rows = [("default", BASE, 4 * seeds)]
    for constraint in ("keep", "project"):
        for scale in (1.0, 3**0.5, 2.0, 3.0):
            for rate in (0.05, 0.07, 0.1):
                method = replace(BASE, constraint=constraint, initial_scale=scale, learning_rate=rate)
                rows.append((f"{constraint}, scale {scale:.3g}, rate {rate:g}", method, seeds))
    rows.append(("full gradient", replace(BASE, gradient="full"), seeds))
    rows.append(("P0 not tuned", replace(BASE, tune_initial=False), seeds))
    rows.append(("unadjusted", replace(BASE, adjusted=False), seeds))
    rows += [(f"{n} iterations", replace(BASE, iterations=n), seeds) for n in (100, 300, 1000)]
    rows += [(f"T={n}", replace(BASE, steps=n), seeds) for n in (5, 20, 40)]
    return rows


def measure(method: eg.HEI, name: str, seeds: int, draws: int) -> Quality:
    """Fit and draw with every seed."""
    target = eg.targets.get(name)
    exact = -target.require_truth().expected_logdensity
    errors, distances, seconds = [], [], []
    for seed in range(seeds):
        fit_key, sample_key, exact_key = jax.random.split(jax.random.key(seed), 3)
        sampler = eg.fit(target, fit_key, method, progress=False)
        drawn = sampler.sample(sample_key, draws, progress=False)
        errors.append(-float(np.mean(drawn.logdensity, dtype=np.float64)) - exact)
        distances.append(sliced_wasserstein(drawn.unconstrained, target.draw_exact(exact_key, draws)))
        seconds.append(sampler.cost.run_seconds)
    return Quality(
        round(float(np.median(errors)), 4),
        round(float(np.max(np.abs(errors))), 4),
        round(float(np.median(distances)), 4),
        round(float(np.median(seconds)), 3),
        seeds,
    )


def settings(
    run: Run[Size], *, seeds: Annotated[int | None, typer.Option(help="Seeds, instead of the preset's.")] = None
) -> Report:
    """Try settings of HEI on the six targets: error of -E[log π*], its largest size, and the distance."""
    size = changed(run.size, seeds=seeds)
    floors = {
        name: round(noise_floor(eg.targets.get(name).draw_exact, jax.random.key(99), size.draws), 4)
        for name in size.targets
    }
    rows: dict[str, dict[str, Quality]] = {}
    for label, method, count in variants(size.seeds)[: size.settings]:
        rows[label] = {name: measure(method, name, count, size.draws) for name in size.targets}
        run.say(f"{label:36s}" + "".join(f"{shown:>22s}" for shown in map(_shown, rows[label].values())))
    table = Table.of(
        "HEI's settings",
        ["setting", *size.targets],
        [
            ["(noise floor)", *(f"{floors[name]:.3f}" for name in size.targets)],
            *([label, *map(_shown, row.values())] for label, row in rows.items()),
        ],
        "Signed error of -E[log π*] (its largest size) and sliced Wasserstein distance to exact draws.",
    )
    record = {label: {name: quality.record() for name, quality in row.items()} for label, row in rows.items()}
    config = {"preset": run.preset.name, "draws": size.draws, "seeds": size.seeds, "default": asdict(BASE)}
    return Report({"noise floor": floors, "rows": record}, [table], config=config)


def _shown(quality: Quality) -> str:
    return f"{quality.error:+.3f} ({quality.largest:.2f}) {quality.distance:.3f}"


STUDY = Study("settings", "bench", PRESETS, settings)
