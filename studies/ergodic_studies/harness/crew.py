"""Cells of a study made by several workers: processes of this machine, or whatever an executor reaches.

What travels is where the study is, its preset and options, and the name of a cell. The worker runs the study itself,
until that names its cells, makes the one that is meant, and stops. So cells may be closures over anything. The folder
of the run must be one that all workers see; every cell is kept there as soon as it is made, and one whose worker was
lost is made by another (`ergodic.runtime.tasks`). Seconds that a cell measures are then those of a shared machine.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ergodic.adapters.executors import opened
from ergodic.runtime.errors import ErgodicError
from ergodic.runtime.tasks import finished

from .cells import Cell

if TYPE_CHECKING:
    from .study import Study


class Crew(ABC):
    """Whoever makes cells before the study reads them."""

    @abstractmethod
    def make(self, cells: Sequence[Cell[Any]], folder: Path, status: Callable[[str], None]) -> None:
        """Make the cells that are not in the folder."""


@dataclass(frozen=True)
class Workers(Crew):
    """Workers, each of which runs the study for one cell at a time.

    Attributes:
      executor: as `eg.fit_many` takes it: a number of processes, ``"dask://HOST:PORT"``, or an object.
      place: the study, ``"module:name"``.
      preset: the study's preset.
      out: the folder of the run.
      options: the options of the study's command that were given.
    """

    executor: object
    place: str
    preset: str
    out: Path
    options: Mapping[str, object] = field(default_factory=dict)

    def make(self, cells: Sequence[Cell[Any]], folder: Path, status: Callable[[str], None]) -> None:
        """Make what is missing, and say how many there are; an error in a cell waits until the others are done."""
        missing = list(dict.fromkeys(cell.name for cell in cells if not cell.finished(folder)))
        if not missing:
            return
        tasks = [(self.place, self.preset, dict(self.options), str(self.out.absolute()), name) for name in missing]
        problems: dict[str, str] = {}
        with opened(self.executor) as there:
            for done, (number, problem) in enumerate(finished(there, work_there, tasks), start=1):
                status(f"{done} of {len(missing)} cells")
                if problem is not None:
                    problems[missing[number]] = problem
        if problems:
            raise ErgodicError(f"{len(problems)} cells failed: " + "; ".join(f"{k}: {v}" for k, v in problems.items()))


class _Made(BaseException):
    """The cell that was meant is made: nothing further is to be done. Not an error that a study catches."""


@dataclass(frozen=True)
class _Seeking(Crew):
    """The one worker that is meant to make one cell."""

    name: str

    def make(self, cells: Sequence[Cell[Any]], folder: Path, status: Callable[[str], None]) -> None:
        """Make the cell that is meant, where it is one of these, and stop."""
        for cell in cells:
            if cell.name == self.name:
                cell.result(folder)
                raise _Made


def work_there(place: str, preset: str, options: Mapping[str, object], out: str, name: str) -> str | None:
    """Make one cell of a study; what was wrong, if anything was."""
    module, _, attribute = place.partition(":")
    study: Study[Any] = vars(importlib.import_module(module))[attribute]
    try:
        study.work(study.started(preset, Path(out), crew=_Seeking(name)), **options)
    except _Made:
        return None
    except Exception as error:  # it would come to it anywhere
        return f"{type(error).__name__}: {error}"
    return "the study does not make it"
