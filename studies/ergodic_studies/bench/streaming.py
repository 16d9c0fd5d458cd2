"""Streaming draws to a Zarr store: memory, speed, and whether a run that was killed ends in the same bytes.

    python -m ergodic_studies.bench.streaming --out results/streaming

`ergodic sample -o draws.zarr` in a process of its own, on a Gaussian in 10 dimensions: once undisturbed, then killed
(SIGKILL) at random moments and started again each time until it is done. Stores are compared file by file.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ergodic.adapters.zarr_store import read_metadata

from ..harness.results import write_results

DIM = 10
MODEL = f"""
import jax.numpy as jnp
import ergodic as eg

scale = jnp.linspace(0.5, 2.0, {DIM})
target = eg.Target(lambda x: -0.5 * jnp.sum((x / scale) ** 2), like=jnp.zeros({DIM}), name="gaussian-{DIM}")
"""
CLI = "import sys; from ergodic.cli import main; main(sys.argv[1:])"


def run(*words: str, kill_after: float | None = None) -> dict:
    """A command's exit code, wall-clock seconds and peak resident memory; killed after so many seconds."""
    began = time.monotonic()
    process = subprocess.Popen([sys.executable, "-c", CLI, *words], stdout=subprocess.PIPE, text=True)
    while kill_after is not None and time.monotonic() - began < kill_after and process.poll() is None:
        time.sleep(0.001)
    if kill_after is not None and process.returncode is None:
        process.send_signal(signal.SIGKILL)
    output = process.stdout.read()
    if process.returncode is None:
        _, status, usage = os.wait4(process.pid, 0)
        code, peak = os.waitstatus_to_exitcode(status), usage.ru_maxrss * 1024 / 1e6
    else:
        raise SystemExit(f"the run ended by itself, before it was killed:\n{output}")
    if kill_after is None and code != 0:
        raise SystemExit(f"ergodic {' '.join(words)} failed with {code}:\n{output}")
    return {"code": code, "seconds": time.monotonic() - began, "peak MB": peak, "output": output}


def digests(store: Path) -> dict[str, str]:
    """A checksum of every file."""
    found = {}
    for path in sorted(store.rglob("*")):
        if path.is_file():
            with open(path, "rb") as file:
                found[str(path.relative_to(store))] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def measure(folder: Path, draws: int, kills: int, seed: int) -> dict:
    sampler = folder / "gaussian.ergodic"
    (folder / "model.py").write_text(MODEL)
    run("fit", str(folder / "model.py"), "-o", str(sampler))

    def words(name: str) -> list[str]:
        return ["sample", str(sampler), "-n", f"{draws:_}", "-o", str(folder / name)]

    whole = run(*words("whole.zarr"))
    expected = digests(folder / "whole.zarr")
    size = sum(file.stat().st_size for file in (folder / "whole.zarr").rglob("*") if file.is_file())
    print(whole.pop("output"), flush=True)

    moments, there, peaks = random.Random(seed), [], []
    store = folder / "killed.zarr"
    for _ in range(kills):
        stopped = run(*words(store.name), kill_after=moments.uniform(0.05, 0.95) * whole["seconds"] / kills)
        assert stopped["code"] == -signal.SIGKILL
        there.append(read_metadata(store)[1] if store.exists() else 0)
        peaks.append(stopped["peak MB"])
        print(f"killed after {stopped['seconds']:.1f} s, with {there[-1]:,} draws in the store", flush=True)
    last = run(*words(store.name))
    print(last.pop("output"), flush=True)
    found = digests(store)
    return {
        "undisturbed": {**whole, "draws a second": draws / whole["seconds"]},
        "store MB": size / 1e6,
        "store files": len(expected),
        "draws in the store at each kill": there,
        "last run": last,
        "peak MB of all runs": max(whole["peak MB"], last["peak MB"], *peaks),
        "same files": sorted(found) == sorted(expected),
        "files that differ": sum(found.get(name) != digest for name, digest in expected.items()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--draws", type=int, default=20_000_000)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        results = measure(Path(folder), args.draws, args.kills, args.seed)
    print(json.dumps(results, indent=1))
    config = {"dim": DIM, "draws": args.draws, "kills": args.kills, "seed": args.seed, "cores": os.cpu_count()}
    write_results(args.out, "streaming", "python -m ergodic_studies.bench.streaming", config, results)


if __name__ == "__main__":
    main()
