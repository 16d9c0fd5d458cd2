"""Work in a process of its own: rivals, peers, and whatever must not share compiled programs or memory with others.

`run` starts a command and says what became of it; `call` calls a function of the studies in a new Python process and
returns what it returned. The called process is this module, run as a script:

    python -m ergodic_studies.harness.processes MODULE:FUNCTION '[arguments as JSON]' FILE
"""

from __future__ import annotations

import importlib
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

_LOOK, _LONGEST_LOOK = 0.002, 0.1
"""Seconds between two looks at a running process: at first, and at most. A look costs the core that it may share."""


class ProcessError(RuntimeError):
    """A process that failed, or that was killed because it took too long; the message is its last line."""


class OutOfTime(ProcessError):
    """A process that was killed because it took too long."""


class Finished(NamedTuple):
    """What became of a process."""

    code: int
    """The exit code; a negative signal where it was killed."""
    seconds: float
    peak_megabytes: float
    """The most memory that was resident at a time."""
    output: str
    errors: str

    def problem(self) -> str | None:
        """The last line that a process that failed wrote to standard error; None where it did not fail."""
        if self.code == 0:
            return None
        return (self.errors.strip().splitlines() or [f"stopped with code {self.code}"])[-1]


def run(
    command: Sequence[str],
    *,
    patience: float | None = None,
    environment: Mapping[str, str] | None = None,
    of_processor: bool = False,
) -> Finished:
    """Run a command to its end, or kill it when so many seconds (``patience``) have passed.

    Where they are ``of_processor`` and the command has one core, only the seconds count in which the core was its own,
    so that others who use it do not shorten the time. (Four times as many by the clock are the end in any case.)
    """
    began, peak = time.monotonic(), 0.0
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stdout=output, stderr=errors, text=True, env=environment)
        while process.poll() is None:
            peak = max(peak, peak_megabytes(process.pid))
            elapsed = time.monotonic() - began
            if of_processor and len(os.sched_getaffinity(0)) == 1:
                elapsed = max(elapsed / 4, processor_seconds(process.pid))
            if patience is not None and elapsed > patience:
                process.kill()
            time.sleep(min(_LOOK + 0.001 * (time.monotonic() - began), _LONGEST_LOOK))
        seconds = time.monotonic() - began
        for file in (output, errors):
            file.seek(0)
        return Finished(process.returncode, seconds, peak, output.read(), errors.read())


def peak_megabytes(process: int | None = None) -> float:
    """The most memory that a running process (this one when left out) has had resident; 0 where nobody knows.

    It is read from the system's files: what `getrusage` says of a new process counts its parent's memory too.
    """
    try:
        status = Path(f"/proc/{process or 'self'}/status").read_text()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 if process is None else 0.0
    found = re.search(r"VmHWM:\s+(\d+)", status)
    return 0.0 if found is None else int(found[1]) / 1024


def processor_seconds(process: int) -> float:
    """The seconds of a processor that a running process has had; 0 where nobody knows."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run_python(*words: str, patience: float | None = None) -> Finished:
    """Run Python with these words; a process that fails, other than by being killed for time, is an error."""
    finished = run([sys.executable, *words], patience=patience)
    problem = finished.problem()
    if problem is not None and not (patience is not None and finished.code == -signal.SIGKILL):
        raise ProcessError(problem)
    return finished


def call(
    function: str, arguments: Sequence[object], *, patience: float | None = None, of_processor: bool = False
) -> object:
    """What a function, named ``"module:function"``, returns for these arguments in a new process.

    Arguments and result are JSON. No cache of compiled programs is read, so that seconds of compiling are those of a
    first call. Patience is as in `run`.

    Raises:
      ProcessError: the function raised, or it took more than ``patience`` seconds.
    """
    environment = {name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"}
    environment["JAX_ENABLE_COMPILATION_CACHE"] = "false"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "result.json"
        words = [sys.executable, "-m", __name__, function, json.dumps(list(arguments)), str(file)]
        finished = run(words, patience=patience, environment=environment, of_processor=of_processor)
        if patience is not None and finished.code == -signal.SIGKILL:
            raise OutOfTime(f"killed after {patience:.0f} seconds")
        problem = finished.problem()
        if problem is not None:
            raise ProcessError(problem)
        return json.loads(file.read_text())


def call_keeping(
    function: str, arguments: Sequence[object], file: Path, *, patience: float, of_processor: bool = False
) -> tuple[Any, ProcessError | None]:
    """Call a function that writes what it has finished to ``file``, its last argument, as JSON.

    Returns what the file held when the process ended, None where there was no file, and what ended the process before
    its time.
    """
    problem = None
    try:
        call(function, [*arguments, str(file)], patience=patience, of_processor=of_processor)
    except ProcessError as error:
        problem = error
    return (json.loads(file.read_text()) if file.is_file() else None), problem


def _called(function: str, arguments: str, file: str) -> None:
    """The new process's part of `call`."""
    module, _, name = function.partition(":")
    result = getattr(importlib.import_module(module), name)(*json.loads(arguments))
    Path(file).write_text(json.dumps(result))


if __name__ == "__main__":
    _called(*sys.argv[1:])
