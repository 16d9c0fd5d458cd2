"""`ergodic bench streaming`: draws streamed to a Zarr store: memory, speed, and what a run that was killed leaves.

`ergodic sample -o draws.zarr` in a process of its own, on a Gaussian in 10 dimensions: once undisturbed, then killed
(SIGKILL) at random moments and started again each time until it is done. Stores are compared file by file.
"""

from __future__ import annotations

import hashlib
import os
import random
import signal
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from ergodic.adapters.zarr_store import read_metadata

from ..harness.presets import changed
from ..harness.processes import Finished, ProcessError, run_python
from ..harness.study import Report, Run, Say, Study
from ..harness.tables import Table

DIM = 10
MODEL = f"""
import jax.numpy as jnp
import ergodic as eg

scale = jnp.linspace(0.5, 2.0, {DIM})
target = eg.Target(lambda x: -0.5 * jnp.sum((x / scale) ** 2), like=jnp.zeros({DIM}), name="gaussian-{DIM}")
"""
CLI = "import sys; from ergodic.cli import main; main(sys.argv[1:])"


@dataclass(frozen=True)
class Size:
    """How much is run."""

    draws: int = 20_000_000
    kills: int = 3
    seed: int = 0


PRESETS = {"smoke": Size(20_000, 1), "cpu": Size()}


def ergodic(*words: str, kill_after: float | None = None) -> Finished:
    """Run a command of `ergodic`; one that is to be killed must not have ended before."""
    finished = run_python("-c", CLI, *words, patience=kill_after)
    if kill_after is not None and finished.code != -signal.SIGKILL:
        raise ProcessError(f"the run ended by itself, before it was killed:\n{finished.output}")
    return finished


def digests(store: Path) -> dict[str, str]:
    """A checksum of every file."""
    found = {}
    for path in sorted(store.rglob("*")):
        if path.is_file():
            with open(path, "rb") as file:
                found[str(path.relative_to(store))] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def measure(folder: Path, size: Size, say: Say) -> dict[str, object]:
    """Stream undisturbed, then with interruptions, and compare."""
    sampler = folder / "gaussian.ergodic"
    (folder / "model.py").write_text(MODEL)
    ergodic("fit", str(folder / "model.py"), "-o", str(sampler))

    def words(name: str) -> list[str]:
        return ["sample", str(sampler), "-n", f"{size.draws:_}", "-o", str(folder / name)]

    whole = ergodic(*words("whole.zarr"))
    expected = digests(folder / "whole.zarr")
    stored = sum(file.stat().st_size for file in (folder / "whole.zarr").rglob("*") if file.is_file())
    say(whole.output)

    moments, there, peaks = random.Random(size.seed), [], []
    store = folder / "killed.zarr"
    for _ in range(size.kills):
        stopped = ergodic(*words(store.name), kill_after=moments.uniform(0.05, 0.95) * whole.seconds / size.kills)
        there.append(read_metadata(store)[1] if store.exists() else 0)
        peaks.append(stopped.peak_megabytes)
        say(f"killed after {stopped.seconds:.1f} s, with {there[-1]:,} draws in the store")
    last = ergodic(*words(store.name))
    say(last.output)
    found = digests(store)
    return {
        "undisturbed": {**_cost(whole), "draws a second": size.draws / whole.seconds},
        "store MB": stored / 1e6,
        "store files": len(expected),
        "draws in the store at each kill": there,
        "last run": _cost(last),
        "peak MB of all runs": max(whole.peak_megabytes, last.peak_megabytes, *peaks),
        "same files": sorted(found) == sorted(expected),
        "files that differ": sum(found.get(name) != digest for name, digest in expected.items()),
    }


def _cost(finished: Finished) -> dict[str, int | float]:
    return {"code": finished.code, "seconds": finished.seconds, "peak MB": finished.peak_megabytes}


def streaming(
    run: Run[Size],
    *,
    draws: Annotated[int | None, typer.Option(help="Draws, instead of the preset's.")] = None,
    kills: Annotated[int | None, typer.Option(help="Interruptions, instead of the preset's.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of the moments of interruption.")] = None,
) -> Report:
    """Stream draws to a store: memory, speed, and whether a run that was killed ends in the same bytes."""
    size = changed(run.size, draws=draws, kills=kills, seed=seed)
    with tempfile.TemporaryDirectory() as folder:
        results = measure(Path(folder), size, run.say)
    rows = [[name, value if isinstance(value, int | float) else str(value)] for name, value in results.items()]
    config = {"preset": run.preset.name, "dim": DIM, **asdict(size), "cores": os.cpu_count()}
    return Report(results, [Table.of("Streaming to a store", ["", "measured"], rows)], config=config)


STUDY = Study("streaming", "bench", PRESETS, streaming)
