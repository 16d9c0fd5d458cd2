"""Cells of `ergodic bench models`: one sampler on one model with one seed, in a process of its own.

Nothing was compiled before, so that compiling counts as it does for who fits a model once. A cell that runs over its
time is killed and recorded as such; one that is given more time than when it was killed is run anew.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar, Protocol, runtime_checkable

from ergodic.methods import GEI, NUTS
from ergodic.runtime.files import write_atomically
from ergodic.target import Target

from ..harness.cells import Cell, unfinished
from ..harness.processes import OutOfTime, call_keeping, peak_megabytes
from ..harness.study import Run, Size
from ..models.registry import get
from .model_draws import Tail
from .model_measure import Outcome, measure
from .outside import NumPyroNUTS, NutpieNUTS
from .posterior_measure import Rival, first_line

_VERSION = 2
"""The version of what is measured: a change makes every cell anew."""
_START = 15.0
"""Seconds beyond the limit, in which Python starts and the model is made, before the process is killed."""

SAMPLERS: dict[str, Callable[[], Rival]] = {
    "GEI": GEI,
    "NumPyro NUTS": partial(NumPyroNUTS, radius=2.0),
    "nutpie": partial(NutpieNUTS, radius=2.0),
    "BlackJAX NUTS": NUTS,
}
"""The samplers with the settings that a user gets who sets none."""
LABELS = tuple(SAMPLERS)


@runtime_checkable
class Entry(Protocol):
    """What a registry says of a target before it is made."""

    @property
    def dim(self) -> int:
        """The number of its coordinates."""
        ...

    def target(self, name: str) -> Target:
        """Make it, under that name."""
        ...


@dataclass(frozen=True)
class ModelTrial:
    """What is measured: a model, a sampler, a seed, and how many seconds it may take."""

    model: str
    label: str
    seed: int
    limit: float = 300.0

    called: ClassVar[str] = f"{__name__}:run_trial"
    """What a new process calls."""

    def entry(self) -> Entry:
        """The entry of what is sampled."""
        return get(self.model)

    def rival(self) -> Rival:
        """The method that samples it."""
        return SAMPLERS[self.label]()

    def tail(self) -> Tail | None:
        """A tail whose mass is measured, too."""
        return None

    def cell(self, *, process: bool = True) -> Cell[Outcome]:
        """The trial as a cell, in a process of its own unless that is not wanted."""
        method = self.rival()

        def work(path: Path) -> Outcome:
            with unfinished(path) as file:
                return self._in_process(file) if process else self.run(file)

        return Cell((self.model, self.label, self.seed), [_VERSION, method.name, asdict(method)], work)

    def kept(self, folder: Path) -> Outcome | None:
        """The result on disk, unless it is of a process that was killed sooner than this one would be."""
        kept = self.cell().kept(folder)
        return None if kept is None or (kept.get("killed", False) and kept["limit"] < self.limit) else kept

    def run(self, file: Path) -> Outcome:
        """Measure here and now; the file has what is known."""

        def keep(outcome: Outcome) -> None:
            outcome["peak_megabytes"] = round(peak_megabytes())
            write_atomically(file, json.dumps(outcome).encode())

        outcome = self._begun()
        try:
            return measure(self.entry().target(self.model), self.rival(), outcome, keep, self.tail())
        except Exception as error:
            outcome["error"] = first_line(error)
            keep(outcome)
            return outcome

    def _begun(self) -> Outcome:
        return {**asdict(self), "dim": self.entry().dim, "killed": False}  # type: ignore[typeddict-item]

    def _in_process(self, file: Path) -> Outcome:
        patience = self.limit + _START
        kept, problem = call_keeping(self.called, [asdict(self)], file, patience=patience, of_processor=True)
        outcome: Outcome = kept or self._begun()
        if problem is not None:
            outcome["error"], outcome["killed"] = str(problem), isinstance(problem, OutOfTime)
        return outcome


def run_trial(settings: dict[str, str | int | float], file: str) -> None:
    """Run the trial of these settings: what the new process calls."""
    ModelTrial(**settings).run(Path(file))  # type: ignore[arg-type]


def gathered(
    run: Run[Size],
    trials: Sequence[ModelTrial],
    judge: Callable[[Outcome], Outcome],
    *,
    anew: Sequence[str],
    collect: bool,
    process: bool,
) -> list[Outcome]:
    """The judged results of trials: from disk where they are there, unless their label is run ``anew``.

    With ``collect`` nothing is run.
    """
    done: list[Outcome] = []
    for index, trial in enumerate(trials):
        kept = trial.kept(run.cells) if collect or trial.label not in anew else None
        if kept is None and collect:
            continue
        run.status(f"{trial.label} on {trial.model}")
        done.append(judge(kept or trial.cell(process=process).result(run.cells, again=True)))
        run.say(f"[{index + 1:>3}/{len(trials)}] {_line(done[-1])}{'' if kept is None else '  (kept)'}")
    return done


def _line(cell: Outcome) -> str:
    named = f"{cell['label']:13s} {cell['model']:14s}"
    if "error" in cell:
        return f"{named} {cell['error'][:80]}"
    word = cell["verdict"] or f"R-hat {cell['rhat']:.3f}"
    bias = "" if "b2_max" not in cell else f"  b2 {cell['b2_max']:.2g}"
    return f"{named} 1,000 in {cell['total_seconds']['1000']:6.1f} s  {word}{bias}"
