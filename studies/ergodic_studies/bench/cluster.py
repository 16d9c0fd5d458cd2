"""`ergodic bench cluster`: one store filled by several processes, and what a thousand devices would do.

Measured, in real processes of this machine: `ergodic sample --processes N --process I`, with one process, two and
three; then by two, of which random ones are killed (SIGKILL) again and again. Stores are compared file by file.

Simulated (``--simulate`` does nothing else): P devices fill a store of C parts, part i on device i modulo P, as
`adapters/shared_store.py` has it. A part takes t seconds times a log-normal factor that differs from part to part, and
another that differs from device to device (stragglers). A device fails after a random time; it loses the part that it
is at, and goes on when its process has been started again. What comes out is

    efficiency = C t / (P makespan),

the share of the devices' time that ends up in the store; bytes moved are those of the draws, once.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from ..harness.presets import changed
from ..harness.processes import ProcessError
from ..harness.study import Report, Run, Say, Study
from ..harness.tables import Table
from .streaming import CLI, DIM, MODEL, digests, ergodic


@dataclass(frozen=True)
class Size:
    """How much is run, and what is simulated.

    Attributes:
      draws: of the store that real processes fill.
      kills: of random members, meanwhile.
      devices: how many are simulated.
      parts: of the simulated store; 131,072 draws each.
      part_seconds: t, on the median device: 1.4 is what `ergodic bench streaming` recorded for one busy core and a
        Gaussian in 10 dimensions, 92,000 draws a second; 30 is a density that is twenty times as dear.
      spread: the standard deviation of the logarithm of a part's time.
      stragglers: the same of a device's speed.
      lifetime: hours until a device fails, on average.
      restart: seconds until a failed process is at work again: queueing, importing, compiling.
      repeats: simulations of each.
    """

    draws: int = 8_000_000
    kills: int = 20
    devices: tuple[int, ...] = (1, 8, 64, 256, 1000)
    parts: int = 8_000
    part_seconds: tuple[float, ...] = (1.4, 30.0)
    spread: float = 0.05
    stragglers: float = 0.1
    lifetime: float = 24.0
    restart: float = 60.0
    repeats: int = 20


PRESETS = {"smoke": Size(300_000, 1, devices=(1, 8), parts=64, repeats=3), "cpu": Size()}


def makespan(devices: int, part_seconds: float, size: Size, rng: np.random.Generator) -> tuple[float, int]:
    """Seconds until the last part is stored, and how many parts were lost on the way."""
    last, lost = 0.0, 0
    slowness = np.exp(size.stragglers * rng.standard_normal(devices))
    for device in range(min(devices, size.parts)):
        count = len(range(device, size.parts, devices))
        clock, fails = size.restart, rng.exponential(3600 * size.lifetime)
        for seconds in part_seconds * slowness[device] * np.exp(size.spread * rng.standard_normal(count)):
            while clock + seconds > fails:  # the part that it is at is lost, and made again
                clock, lost = fails + size.restart, lost + 1
                fails = clock + rng.exponential(3600 * size.lifetime)
            clock += seconds
        last = max(last, clock)
    return last, lost


def simulated(size: Size, seed: int = 0) -> list[dict[str, float]]:
    """Median makespan, efficiency and lost parts for every number of devices."""
    rows = []
    for part in size.part_seconds:
        for devices in size.devices:
            rng = np.random.default_rng([seed, devices])
            made = [makespan(devices, part, size, rng) for _ in range(size.repeats)]
            seconds, lost = (float(np.median([run[at] for run in made])) for at in (0, 1))
            efficiency = size.parts * part / (devices * seconds)
            rows.append({"part": part, "devices": float(devices), "seconds": seconds, "efficiency": efficiency,
                         "lost": lost})  # fmt: skip
    return rows


def measured(folder: Path, size: Size, say: Say) -> dict[str, object]:
    """Real processes: seconds with one, two and three, a core each while there are as many, and members killed."""
    sampler = folder / "gaussian.ergodic"
    (folder / "model.py").write_text(MODEL)
    ergodic("fit", str(folder / "model.py"), "-o", str(sampler))
    cores, found = sorted(os.sched_getaffinity(0)), dict[str, object]()
    expected: dict[str, str] = {}
    for processes in (1, 2, 3):
        began, store = time.monotonic(), folder / f"{processes}.zarr"
        members = [_member(sampler, store, size.draws, at, processes, cores) for at in range(processes)]
        codes = [process.wait() for process in members]
        if any(codes):
            raise ProcessError(f"one of {processes} processes failed")
        found[f"seconds, {processes} processes"] = round(time.monotonic() - began, 2)
        expected = expected or digests(store)
        found[f"same files, {processes} processes"] = digests(store) == expected
        say(f"{processes} processes: {found[f'seconds, {processes} processes']} s")
    rng, kills, store = random.Random(0), 0, folder / "killed.zarr"
    while kills < size.kills:
        members = [_member(sampler, store, size.draws, at, 2, cores) for at in range(2)]
        time.sleep(rng.uniform(3, 8))
        for process in members:
            if kills < size.kills and process.poll() is None and rng.random() < 0.7:
                process.send_signal(signal.SIGKILL)
                kills += 1
            process.wait()
    for process in [_member(sampler, store, size.draws, at, 2, cores) for at in range(2)]:
        process.wait()
    return {**found, "kills": kills, "same files after the kills": digests(store) == expected}


def _member(
    sampler: Path, store: Path, draws: int, index: int, processes: int, cores: list[int]
) -> subprocess.Popen[bytes]:
    """One process on one core."""
    words = ["sample", str(sampler), "-n", str(draws), "-o", str(store)]
    shared = ["--processes", str(processes), "--process", str(index)]
    pin = f"import os; os.sched_setaffinity(0, {{{cores[index % len(cores)]}}}); "
    command = [sys.executable, "-c", pin + CLI, *words, *shared]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def cluster(
    run: Run[Size],
    *,
    simulate: Annotated[bool, typer.Option("--simulate", help="Simulate many devices; start no processes.")] = False,
    draws: Annotated[int | None, typer.Option(help="Draws of real processes, instead of the preset's.")] = None,
) -> Report:
    """One store by several processes, whoever is killed; and what a thousand devices would do, simulated."""
    size = changed(run.size, draws=draws)
    rows = simulated(size)
    results: dict[str, object] = {"simulated": rows}
    note = (
        f"{size.parts:,} parts of 131,072 draws, in so many seconds each on the median device (a standard deviation of "
        f"{size.spread:.0%} between parts, {size.stragglers:.0%} between devices); a device fails every "
        f"{size.lifetime:g} h and is back after {size.restart:g} s. Medians of {size.repeats} simulations."
    )
    body = [
        [
            f"{row['part']:g} s",
            int(row["devices"]),
            f"{row['seconds'] / 60:,.1f}",
            f"{size.parts * 131_072 / row['seconds']:,.0f}",
            f"{row['efficiency']:.0%}",
            f"{row['lost']:g}",
            f"{size.parts * 131_072 * 4 * (DIM + 4) / 1e9 / row['seconds']:.2f}",
        ]
        for row in rows
    ]
    columns = ["a part", "devices", "minutes", "draws a second", "efficiency", "parts lost", f"GB a second, d={DIM}"]
    tables = [Table.of("Simulated: one store by many devices", columns, body, note)]
    if not simulate:
        with tempfile.TemporaryDirectory() as folder:
            results["measured"] = found = measured(Path(folder), size, run.say)
        told = [[name, value if isinstance(value, int | float) else str(value)] for name, value in found.items()]
        tables.append(Table.of("Measured: one store by real processes", ["", "measured"], told))
    config = {"preset": run.preset.name, **asdict(size), "cores": os.cpu_count(), "simulate": simulate}
    return Report(results, tables, config=config)


STUDY = Study("cluster", "bench", PRESETS, cluster)
