"""Cells of `ergodic bench charts`: one variant of GEI, or one NUTS, on one target with one seed (model_cells.py)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

from ergodic.methods import GEI
from ergodic.tuning.greedy_settings import GreedySettings

from .chart_targets import PLACES, entry_of, truth_at
from .model_cells import SAMPLERS, Entry, ModelTrial
from .model_draws import Tail
from .model_measure import Outcome, with_bias
from .posterior_measure import Rival


def _with(details: GreedySettings) -> Callable[[], Rival]:
    return partial(GEI, details=details)


MAIN: dict[str, Callable[[], Rival]] = {
    "GEI": GEI,
    "GEI, no chart": partial(GEI, chart=False),
    "NumPyro NUTS": SAMPLERS["NumPyro NUTS"],
    "nutpie": SAMPLERS["nutpie"],
}
ABLATIONS: dict[str, Callable[[], Rival]] = {
    "one layer": _with(GreedySettings(layers=1)),
    "no directions": _with(GreedySettings(directions=False)),
    "no wider pairs": _with(GreedySettings(beyond=1e-6)),
    "never anew": _with(GreedySettings(changed=1e9)),
    "gain of 20 %": _with(GreedySettings(gain=0.2)),
}
"""GEI with one choice of its charts undone.

One layer instead of two; layers along the coordinates alone; pairs no further out than the particles are; coordinates
that a pilot learns once; and drivers accepted only where they take away a fifth of the Fisher divergence.
"""
VARIANTS = MAIN | ABLATIONS


@dataclass(frozen=True)
class ChartTrial(ModelTrial):
    """What is measured: a target, a variant, a seed, and how many seconds it may take."""

    called: ClassVar[str] = f"{__name__}:run_chart_trial"

    def entry(self) -> Entry:
        """The entry of what is sampled."""
        return entry_of(self.model)

    def rival(self) -> Rival:
        """The method that samples it."""
        return VARIANTS[self.label]()

    def tail(self) -> Tail | None:
        """The far end of a funnel's neck."""
        return PLACES[self.model].tail


def run_chart_trial(settings: dict[str, str | int | float], file: str) -> None:
    """Run the trial of these settings: what the new process calls."""
    ChartTrial(**settings).run(Path(file))  # type: ignore[arg-type]


def judged(outcome: Outcome) -> Outcome:
    """The outcome with its bias, and that of the driver alone, where the truth is known."""
    truth, driver = truth_at(outcome["model"]), PLACES[outcome["model"]].driver
    made = with_bias(outcome, truth)
    if truth is not None and driver is not None and "found" in outcome:
        second = truth.moments(2)
        at = second.names.index(driver)
        made["driver_b2"] = float((outcome["found"]["2"][at] - second.expected[at]) ** 2 / second.variance[at])
    return made
