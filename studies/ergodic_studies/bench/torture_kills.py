"""Commands that are killed at a moment of their progress, and given again: the result is that of an undisturbed run.

A moment is the n-th time that something is flushed to disk or renamed, just before it or just after. So kills are
spread over what a command writes, and not over importing and compiling. The process kills itself, by SIGKILL or SIGINT:

    python -m ergodic_studies.bench.torture_kills SIGNAL N before|after WORDS...
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..harness.processes import Finished, run

Outcome = dict[str, int]
"""How often what was found, over some trials."""

_PATIENCE = 1800.0
_FIT = ("fit", "gaussian", "-o", "m.ergodic", "--method", "HEI", "-s", "iterations=4", "-s", "steps=3")
COMMANDS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "fit": (_FIT, "m.ergodic"),
    "sample to npz": (("sample", "g.ergodic", "-n", "600", "-o", "d.npz"), "d.npz"),
    "sample to nc": (("sample", "g.ergodic", "-n", "600", "-o", "d.nc"), "d.nc"),
    "sample to zarr": (("sample", "g.ergodic", "-n", "600", "-o", "d.zarr"), "d.zarr"),
    "bnn fit": (
        (*("bnn", "fit", "t.csv", "--target", "y", "-o", "n.ergodic", "--hidden", "3"), *("--networks", "10"),
         *("--effort", "0.01")),
        "n.ergodic",
    ),
    "train": (
        (*("generative", "train", "--budget", "2", "--method", "VAE", "--every", "0.001", "--out", "model"),),
        "model/checkpoint",
    ),
}  # fmt: skip
"""The words of every command, and what it writes."""
_MOMENTS = {"fit": 3, "sample to npz": 3, "sample to nc": 6, "sample to zarr": 40, "bnn fit": 3, "train": 8}
"""How many moments there are, about."""


def trial(command: str, seed: int, how: str = "SIGKILL") -> Outcome:
    """One kill of a command and its repetition, compared with a run that was left alone."""
    rng = random.Random(f"{command} {seed} {how}")
    words, output = COMMANDS[command]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        alone, killed = prepared(folder / "alone"), prepared(folder / "killed")
        before = set(os.listdir(alone))
        sound = child(words, alone)
        if sound.code != 0:
            raise RuntimeError(f"{command} fails undisturbed: {sound.errors.strip().splitlines()[-1:]}")
        moment = (rng.randrange(1, _MOMENTS[command] + 1), rng.choice(("before", "after")))
        first = child(words, killed, how, moment)
        again = child(words, killed)
        found = {"trials": 1, "stopped": int(first.code != 0)}
        raw = "Traceback" in first.errors + again.errors or again.code != 0
        left = set(os.listdir(killed)) - before - {Path(output).parts[0]} - {"model"}
        left |= {path.name for path in killed.rglob(".*.part")}
        same = again.code == 0 and content(killed / output) == content(alone / output)
        return found | {"raw": int(raw), "changed": int(not same), "left over": int(bool(left))}


def child(
    words: tuple[str, ...], folder: Path, how: str = "SIGKILL", moment: tuple[int, str] = (0, "before")
) -> Finished:
    """The command in a process of its own, which stops itself at this moment; 0 is never."""
    command = [sys.executable, "-m", __name__, how, str(moment[0]), moment[1], str(folder), *words]
    return run(command, patience=_PATIENCE)


def prepared(folder: Path) -> Path:
    """A folder with a sampler and a table."""
    import jax

    import ergodic as eg

    folder.mkdir()
    sampler = eg.HEI(steps=2, leapfrogs=1).untuned(eg.targets.get("gaussian"), jax.random.key(0))
    sampler.source = {"builtin": "gaussian"}
    sampler.save(folder / "g.ergodic")
    rng = np.random.default_rng(0)
    rows = "\n".join(f"{a:.4f},{b:.4f}" for a, b in rng.normal(size=(30, 2)))
    (folder / "t.csv").write_text(f"x,y\n{rows}\n")
    return folder


def content(path: Path) -> object:
    """What is in an output, but for when it was made and how long that took."""
    if path.is_dir():
        return {str(file.relative_to(path)): _digest(file.read_bytes()) for file in path.rglob("*") if file.is_file()}
    if path.suffix == ".npz":
        with np.load(path) as file:
            return {name: _digest(file[name].tobytes()) for name in file.files}
    if path.suffix == ".nc":
        import arviz

        data = arviz.from_netcdf(str(path))
        return {
            f"{group}/{name}": _digest(np.asarray(variable.values).tobytes())
            for group in data.groups()
            for name, variable in data[group].data_vars.items()
        }
    from ergodic.runtime.files import digest, read_arrays

    metadata, arrays = read_arrays(path, "an output")
    header: dict[str, Any] = json.loads(metadata.get("ergodic", "{}"))
    kept = {name: header.get(name) for name in ("method", "config", "target", "source")}
    return [digest(arrays), kept]


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _stopping(function: Callable[..., Any], count: list[int], how: str, at: int, when: str) -> Callable[..., Any]:
    """The function, which counts its calls and ends the process at one of them."""

    def counted(*args: Any, **kwargs: Any) -> Any:
        count[0] += 1
        here = count[0] == at
        if here and when == "before":
            os.kill(os.getpid(), getattr(signal, how))
        result = function(*args, **kwargs)
        if here and when == "after":
            os.kill(os.getpid(), getattr(signal, how))
        return result

    return counted


def _called(how: str, at: int, when: str, folder: str, words: list[str]) -> None:
    """The process's part: count, with few draws a file, and run the command."""
    os.chdir(folder)
    from ergodic.adapters import streaming
    from ergodic.cli import main

    small: dict[str, Any] = {"default_chunk": lambda dim: 64, "_ROWS": 128}
    for name, value in small.items():
        setattr(streaming, name, value)
    count = [0]
    for name in ("replace", "rename", "fsync"):
        setattr(os, name, _stopping(getattr(os, name), count, how, at, when))
    main(words)


if __name__ == "__main__":
    _called(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4], sys.argv[5:])
