"""Command lines made at random from the tree of commands, and two or three writers of one output.

Lines have options that exist, with values that do not suit them. Each must end in a sentence and a small code: no
traceback, no name of a Python exception, nothing that takes half a minute.
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from ergodic.cli import app, main

from .torture_files import HANG, Hang, bell
from .torture_kills import Outcome, content, prepared

_WORDS = (
    "", "-1", "0", "nan", "1e999", "x" * 300, "gaussian", "no-such", "absent.ergodic", "g.ergodic", "t.csv", "../..",
    ".",
    "/dev/null", "t.csv/inside", "é\u2028", "--", "[" * 5000, "name=[[[", "steps=-1", "x.py:y", "99999999999999999999",
    "d.nc", "d.zarr", "d.npz", "d.txt",
)  # fmt: skip
_LONG = ("demo", "bench", "reproduce", "fetch", "train", "report")
"""Commands whose right lines take long, or the network: these are given a wrong option always."""
_EXCEPTION = re.compile(r"^error: [A-Z]\w*(Error|Exception|Exit|Warning)?: ", re.MULTILINE)


def commands() -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command of the tree, with the words that lead to it."""

    def walk(words: tuple[str, ...], command: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
        below = vars(command).get("commands")
        for name, inner in (below or {}).items():
            yield from walk((*words, name), inner)
        if below is None:
            yield words, command

    yield from walk((), typer.main.get_command(app))


def line(rng: random.Random) -> list[str]:
    """One command line, as its words."""
    words, command = rng.choice(list(commands()))
    made = list(words)
    for parameter in command.params:
        if parameter.param_type_name == "argument" and rng.random() < 0.8:
            made.append(rng.choice(_WORDS))
        elif parameter.param_type_name == "option" and parameter.name != "help" and rng.random() < 0.4:
            made += [rng.choice(parameter.opts), *([] if parameter.is_flag else [rng.choice(_WORDS)])]
    if set(words) & set(_LONG):
        made.append("--no-such-option")
    return made


def lines(seed: int, count: int) -> Outcome:
    """So many lines, in a folder that has a sampler and a table."""
    found = {"trials": 0, "refused": 0, "raw": 0, "hung": 0}
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        os.chdir(prepared(Path(name) / "folder"))
        try:
            for index in range(count):
                _one(line(random.Random(f"{seed} {index}")), found)
        finally:
            os.chdir(here)
    return found


def _one(words: list[str], found: Outcome) -> None:
    found["trials"] += 1
    said = io.StringIO()
    code: object = 0
    signal.signal(signal.SIGALRM, bell)
    signal.alarm(HANG)
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            main(words)
    except SystemExit as stop:
        code = stop.code or 0
    except Hang:
        found["hung"] += 1
        return
    except BaseException as error:
        found["raw"] += 1
        found[f"raw: {type(error).__name__} of {' '.join(words)[:60]}"] = 1
        return
    finally:
        signal.alarm(0)
    found["refused"] += int(code != 0)
    wrong = _EXCEPTION.search(said.getvalue())
    if wrong is not None or "Traceback" in said.getvalue() or code not in (0, 1, 2, 3, 4):
        found["raw"] += 1
        found[f"raw: {(wrong[0] if wrong else str(code)).strip()} of {' '.join(words)[:60]}"] = 1


def writers(ending: str, count: int) -> Outcome:
    """Several processes that write one output at once: each has written it whole, or says that another one does."""
    with tempfile.TemporaryDirectory() as name:
        folder = prepared(Path(name) / "folder")
        before = set(os.listdir(folder))
        alone = []
        for seed in range(count):
            _wait([_started(folder, f"alone{seed}{ending}", seed)])
            alone.append(content(folder / f"alone{seed}{ending}"))
        codes, said = _wait([_started(folder, f"d{ending}", seed) for seed in range(count)])
        whole = (folder / f"d{ending}").exists() and content(folder / f"d{ending}") in alone
        left = {each for each in os.listdir(folder) if not each.startswith("alone")} - before - {f"d{ending}"}
        refused = sum(code == 1 and "another run is writing" in text for code, text in zip(codes, said, strict=True))
        raw = sum("Traceback" in text for text in said) + sum(code not in (0, 1) for code in codes)
        lost = int(not whole or refused + codes.count(0) != count)
        return {"trials": 1, "refused": refused, "changed": lost, "raw": raw, "left over": int(bool(left))}


def _started(folder: Path, out: str, seed: int) -> subprocess.Popen[str]:
    words = ["sample", "g.ergodic", "-n", "600", "-o", out, "--seed", str(seed)]
    module = "ergodic_studies.bench.torture_kills"
    command = [sys.executable, "-m", module, "SIGKILL", "0", "before", str(folder), *words]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def _wait(started: list[subprocess.Popen[str]]) -> tuple[list[int], list[str]]:
    said = [process.communicate(timeout=1800)[1] for process in started]
    return [process.returncode for process in started], said


def full_disk(size: str = "64k") -> Outcome:
    """A command that writes to a disk that is full names the file, and leaves what was there; root's alone."""
    with tempfile.TemporaryDirectory() as name:
        folder = prepared(Path(name) / "folder")
        disk = folder / "disk"
        disk.mkdir()
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(disk)], capture_output=True
        )
        if mounted.returncode != 0:
            return {"trials": 0}
        try:
            (disk / "filling").write_bytes(bytes(4096 * 14))
            total = {"trials": 0, "refused": 0, "changed": 0, "raw": 0, "left over": 0}
            for ending in (".npz", ".nc", ".zarr"):
                codes, said = _wait([_started(folder, f"disk/d{ending}", 1)])
                total["trials"] += 1
                total["refused"] += int(codes == [1])
                total["raw"] += int("Traceback" in said[0] or f"disk/d{ending}" not in said[0])
                total["left over"] += len(
                    [each for each in os.listdir(disk) if each != "filling" and each != f"d{ending}"]
                )
                total["changed"] += int((disk / f"d{ending}").exists() and ending != ".zarr")
            return total
        finally:
            subprocess.run(["umount", str(disk)], check=False)
