"""Cells of `ergodic bench posteriors`: one method on one target, several seeds in one process of its own.

One process per cell makes compile time honest: nothing was compiled before, and no cache of compiled programs is read.
Its first seed compiles; the others have the programs. A seed that raises is recorded with its message. What a process
had finished when it was killed is kept.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypedDict

from ergodic import targets
from ergodic.methods import GEI, HEI, LAPS, MEADS, NUTS, ChEES, Pathfinder
from ergodic.runtime.errors import ConfigError, unknown
from ergodic.runtime.files import write_atomically

from ..harness.cells import Cell, unfinished
from ..harness.processes import call_keeping, peak_megabytes
from .outside import NumPyroNUTS, NutpieNUTS
from .posterior_measure import Rival, Seed, Yardstick, first_line, measure

_VERSION = 1
"""The version of what is measured: a change makes every cell anew."""
_SLOW, _FEW = 20.0, 3
"""Where a seed takes more seconds than this, compiling apart, only so many are run."""

RIVALS: dict[str, Callable[..., Rival]] = {
    "GEI": GEI,
    "HEI": HEI,
    "NUTS": NUTS,
    "NumPyro NUTS": NumPyroNUTS,
    "nutpie": NutpieNUTS,
    "ChEES": ChEES,
    "MEADS": MEADS,
    "LAPS": LAPS,
    "Pathfinder": Pathfinder,
}
LABELS = tuple(RIVALS)
_SMALL: dict[str, dict[str, int]] = {
    "HEI": {"iterations": 10, "particles": 20},
    **{name: {"warmup": 100} for name in ("NUTS", "NumPyro NUTS", "nutpie", "ChEES", "MEADS")},
    "LAPS": {"chains": 64, "unadjusted": 50, "adjusted": 60},
    "Pathfinder": {"paths": 2, "elbo_draws": 20},
}


def method_of(label: str, small: bool = False) -> Rival:
    """The method of a label with its authors' settings, or with hardly any work, for a smoke test."""
    if label not in RIVALS:
        raise ConfigError(unknown("method of the benchmark", label, LABELS))
    return RIVALS[label](**(_SMALL.get(label, {}) if small else {}))


class Measured(TypedDict, total=False):
    """A cell's result: its settings, the target's own figures, and one entry per seed."""

    target: str
    label: str
    seeds: int
    wanted: int
    limit: float
    small: bool
    dim: int
    noise: float
    settings: dict[str, object]
    stopped: str | None
    results: list[Seed]
    peak_megabytes: int


@dataclass(frozen=True)
class Trial:
    """One method on one target: what is measured.

    Attributes:
      wanted: effective draws.
      limit: seconds per seed, compiling apart, after which no more draws are made.
      small: whether it is a smoke test.
    """

    target: str
    label: str
    seeds: int = 5
    wanted: int = 10_000
    limit: float = 40.0
    small: bool = False

    def cell(self, *, process: bool = True) -> Cell[Measured]:
        """The trial as a cell, measured in a process of its own unless that is not wanted.

        The limit is not among the cell's settings: it is patience.
        """
        method = method_of(self.label, self.small)
        settings = [_VERSION, method.name, asdict(method), self.seeds, self.wanted]

        def work(path: Path) -> Measured:
            with unfinished(path) as partial:
                return self._in_process(partial) if process else self.run(partial)

        return Cell((self.target, self.label), settings, work)

    def run(self, file: Path) -> Measured:
        """Measure every seed, here and now; the file has what is finished."""
        target, method = targets.get(self.target), method_of(self.label, self.small)
        yardstick = Yardstick.of(target, self.wanted)
        result = self._begun()
        result["dim"], result["noise"] = target.dim, yardstick.moments.noise
        result["settings"] = asdict(method)
        seeds = self.seeds
        while len(result["results"]) < seeds:
            seed, began = len(result["results"]), time.perf_counter()
            try:
                row = measure(target, method, self.label, seed, yardstick, self.wanted, self.limit)
            except Exception as error:
                row = {"seed": seed, "error": first_line(error)}
            result["results"].append(row)
            if time.perf_counter() - began - row.get("compile_seconds", 0.0) > _SLOW:
                seeds = min(seeds, _FEW)
            result["peak_megabytes"] = round(peak_megabytes())
            write_atomically(file, json.dumps(result).encode())
        return result

    def _begun(self) -> Measured:
        return {
            "target": self.target,
            "label": self.label,
            "seeds": self.seeds,
            "wanted": self.wanted,
            "limit": self.limit,
            "small": self.small,
            "noise": 0.0,
            "stopped": None,
            "results": [],
        }

    def _in_process(self, file: Path) -> Measured:
        """Run the trial in a new process, and not for ever."""
        patience = 180 + 4 * self.seeds * self.limit
        kept, problem = call_keeping(f"{__name__}:run_trial", [asdict(self)], file, patience=patience)
        result: Measured = kept or self._begun()
        if problem is not None:
            result["stopped"] = str(problem)
            result["results"].append({"seed": len(result["results"]), "error": str(problem)})
        return result


def run_trial(settings: dict[str, str | int | float | bool], file: str) -> None:
    """Run the trial of these settings: what the new process calls."""
    Trial(**settings).run(Path(file))  # type: ignore[arg-type]
