"""Cells of `ergodic bench posteriors`: one method on one target, several seeds in one process of its own.

A process a cell makes compile time honest: nothing was compiled before, and no cache of compiled programs is read. Its
first seed compiles; the others have the programs. A seed that raises is recorded with its message. The cell's file is
written when it is done, and a cell that is there is not run again; what a killed process had finished is kept.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ergodic import methods, targets
from ergodic.runtime.errors import ConfigError, unknown
from ergodic.runtime.files import write_atomically

from .outside import NumPyroNUTS, NutpieNUTS

_VERSION = 1
"""Of what is measured: a change makes every cell anew."""
_SLOW, _FEW = 20.0, 3
"""Where a seed takes more seconds than this, compiling apart, only so many are run."""

LABELS = ("GEI", "HEI", "NUTS", "NumPyro NUTS", "nutpie", "ChEES", "MEADS", "LAPS", "Pathfinder")


def method_of(label: str, small: bool = False) -> Any:
    """The method of a label with its authors' settings, or with hardly any work, for a smoke test."""
    outside: dict[str, Callable[..., Any]] = {"NumPyro NUTS": NumPyroNUTS, "nutpie": NutpieNUTS}
    less: dict[str, dict[str, Any]] = {
        "HEI": {"iterations": 10, "particles": 20},
        **{name: {"warmup": 100} for name in ("NUTS", "NumPyro NUTS", "nutpie", "ChEES", "MEADS")},
        "LAPS": {"chains": 64, "unadjusted": 50, "adjusted": 60},
        "Pathfinder": {"paths": 2, "elbo_draws": 20},
    }
    if label not in outside and label not in LABELS:
        raise ConfigError(unknown("method of the benchmark", label, LABELS))
    return (outside.get(label) or methods.get(label))(**(less.get(label, {}) if small else {}))


@dataclass(frozen=True)
class Cell:
    """What is measured."""

    target: str
    label: str
    seeds: int = 5
    wanted: int = 10_000
    """Effective draws."""
    limit: float = 40.0
    """Seconds a seed, compiling apart, after which no more draws are made."""
    small: bool = False

    def path(self, folder: Path) -> Path:
        """Where the result is kept; the name holds a hash of the settings (not of the limit: that is patience)."""
        method = method_of(self.label, self.small)
        settings = json.dumps([_VERSION, method.name, asdict(method), self.seeds, self.wanted], sort_keys=True)
        mark = hashlib.sha256(settings.encode()).hexdigest()[:8]
        return folder / f"{self.target}-{self.label.replace(' ', '_')}-{mark}.json"

    def kept(self, folder: Path, share: float = 0.0) -> dict[str, Any] | None:
        """The measurements on disk, unless a seed had less than this share of a processor: others were using it."""
        file = self.path(folder)
        result = json.loads(file.read_text()) if file.is_file() else None
        slowed = result and any(row.get("cpu_share", 1.0) < share for row in result["results"])
        return None if slowed else result

    def found(self, folder: Path) -> dict[str, Any] | None:
        """Of this method's cells on this target on disk, however many seeds, that which had most of its processor."""
        files = folder.glob(f"{self.target}-{self.label.replace(' ', '_')}-????????.json")
        results = [json.loads(file.read_text()) for file in files]
        return max(results, key=lambda r: min(row.get("cpu_share", 0.0) for row in r["results"]), default=None)

    def result(self, folder: Path, *, process: bool = True) -> dict[str, Any]:
        """Measure now, in a process of its own, and keep it on disk."""
        file = self.path(folder)
        partial = file.with_suffix(".part")
        partial.unlink(missing_ok=True)
        if process:
            self._in_process(partial)
        else:
            self.run(partial)
        result = json.loads(partial.read_text())
        write_atomically(file, json.dumps(result, indent=1).encode())
        partial.unlink()
        return result

    def run(self, file: Path) -> None:
        """Measure every seed, here and now; the file has what is finished."""
        from .posterior_measure import Yardstick, measure

        target, method = targets.get(self.target), method_of(self.label, self.small)
        yardstick = Yardstick.of(target, self.wanted)
        result: dict[str, Any] = {
            **asdict(self),
            "dim": target.dim,
            "noise": yardstick.moments.noise,
            "settings": asdict(method),
            "stopped": None,
            "results": [],
        }
        seeds = self.seeds
        while len(result["results"]) < seeds:
            seed, began = len(result["results"]), time.perf_counter()
            try:
                row = measure(target, method, self.label, seed, yardstick, self.wanted, self.limit)
            except Exception as error:
                first = (str(error).strip().splitlines() or ["(no message)"])[0]
                row = {"seed": seed, "error": f"{type(error).__name__}: {first}"}
            result["results"].append(row)
            if time.perf_counter() - began - row.get("compile_seconds", 0.0) > _SLOW:
                seeds = min(seeds, _FEW)
            result["peak_megabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
            write_atomically(file, json.dumps(result).encode())

    def _in_process(self, file: Path) -> None:
        """Run the cell in a new process, without a cache of programs, and not for ever."""
        environment = {name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"}
        environment["JAX_ENABLE_COMPILATION_CACHE"] = "false"
        patience = 180 + 4 * self.seeds * self.limit
        command = [sys.executable, "-m", __name__, json.dumps(asdict(self)), str(file)]
        try:
            done = subprocess.run(command, env=environment, timeout=patience, capture_output=True, text=True)
            problem = None if done.returncode == 0 else (done.stderr.strip().splitlines() or ["no message"])[-1]
        except subprocess.TimeoutExpired:
            problem = f"killed after {patience:.0f} seconds"
        if problem is None:
            return
        result = json.loads(file.read_text()) if file.is_file() else {**asdict(self), "noise": 0.0, "results": []}
        result["stopped"] = problem
        result["results"].append({"seed": len(result["results"]), "error": problem})
        write_atomically(file, json.dumps(result).encode())


if __name__ == "__main__":
    Cell(**json.loads(sys.argv[1])).run(Path(sys.argv[2]))
