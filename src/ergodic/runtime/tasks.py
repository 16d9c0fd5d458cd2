"""Tasks run by any executor, whoever may die meanwhile: results come as they finish, what was lost is run again.

An executor is anything that has ``submit(function, *arguments)``, which gives something with ``done()`` and
``result()``: those of `concurrent.futures`, Dask's client, submitit's. A task is a function of a module and plain
arguments, so that nothing but its name and arrays travels. It catches its own errors (`many.py`). So an exception that
comes instead of a result is the executor's: a worker was killed, or cannot be reached.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from types import TracebackType
from typing import Any, Protocol, runtime_checkable

from .errors import ErgodicError

LOST = 10
"""How often one task may be lost before it is taken for what kills the workers."""
_AHEAD = 256
"""Tasks that are submitted at a time, so that the arguments of millions are not all on their way."""
_LOOK = 0.02
"""Seconds between two looks at what is running."""


@runtime_checkable
class Future(Protocol):
    """A task that has been submitted."""

    def done(self) -> bool:
        """Whether it has ended, well or not."""

    def result(self) -> Any:
        """What it returned; raises where it was lost."""


@runtime_checkable
class Executor(Protocol):
    """Whatever runs functions elsewhere."""

    def submit(self, function: Callable, /, *arguments: Any) -> Any:
        """Run a function, at some time: a `Future`."""


def finished(executor: Executor, function: Callable, tasks: Sequence[tuple[Any, ...]]) -> Iterator[tuple[int, Any]]:
    """The number and the result of each task, as they finish. A task that was lost is submitted again.

    Args:
      executor: runs them.
      function: of a module that can be imported where it runs.
      tasks: its arguments, one tuple a task.
    """
    waiting, lost = list(range(len(tasks)))[::-1], dict.fromkeys(range(len(tasks)), 0)
    running: dict[int, Future] = {}
    while waiting or running:
        while waiting and len(running) < _AHEAD:
            number = waiting.pop()
            try:
                running[number] = executor.submit(function, *tasks[number])
            except BrokenExecutor as error:
                raise ErgodicError(
                    "the executor is broken, since one of its processes died: give a number of workers, which are "
                    "started again, or run this again with the same folder, where what has finished is kept"
                ) from error
        ended = [number for number, future in running.items() if future.done()]
        for number in ended:
            try:
                result = running.pop(number).result()
            except Exception as error:
                lost[number] += 1
                if lost[number] >= LOST:
                    raise ErgodicError(
                        f"task {number} was lost {LOST} times, the last time by {type(error).__name__}: {error}; "
                        "can its module be imported where it runs, and is there memory enough?"
                    ) from error
                waiting.append(number)
            else:
                yield number, result
        if not ended:
            time.sleep(_LOOK)


class Workers:
    """A number of processes of this machine, as an executor; all are started anew where one of them dies."""

    def __init__(self, count: int):
        self._count = count
        self._pool = self._started()

    def _started(self) -> ProcessPoolExecutor:
        # a fork would have JAX's threads in a state that no thread of the child can end
        return ProcessPoolExecutor(self._count, multiprocessing.get_context("spawn"))

    def submit(self, function: Callable, /, *arguments: Any) -> Future:
        """Run a function in one of them."""
        try:
            return self._pool.submit(function, *arguments)
        except BrokenExecutor:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = self._started()
            return self._pool.submit(function, *arguments)

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(cancel_futures=True)
