"""Progress on the host, between compiled calls: never a callback in the graph.

Who does the work says what part of it begins (`phase`) and what it has done (`count_steps`). That is shown by the
`Progress` that is open, if any, on a terminal or in a notebook; and each part leaves a line in the log (`logs.py`).
"""

from __future__ import annotations

import sys
import time
from contextvars import ContextVar, Token
from logging import DEBUG, INFO
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from .logs import logger

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

_EVERY = 0.2
"""Seconds between what a notebook is sent."""
_current: ContextVar[Progress | None] = ContextVar("ergodic_progress", default=None)


class _Display(Protocol):
    def begin(self, title: str, total: int) -> None:
        """Another part of the work begins."""

    def update(self, part: _Part, note: str) -> None:
        """The last part has come so far."""

    def close(self, words: str) -> None:
        """All is done, which may be said in so many words."""


class _Part:
    """One part of the work: what it is, and how far it has come."""

    def __init__(self, title: str, total: int, unit: str):
        self.title, self.total, self.unit = title, total, unit
        self.done = self.gradients = 0
        self.began = time.perf_counter()

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.began

    def __str__(self) -> str:
        cost = f", {self.gradients:,} gradients" if self.gradients else ""
        return f"{self.title}: {self.done:,} of {self.total:,} {self.unit}{cost}, {self.seconds:.1f} s"


class Progress:
    """What is open while something is done: ``with Progress("tuning", 50) as bar: bar.advance("note")``.

    Args:
        title: What is going on; empty, where `phase` will say it.
        total: How many steps there are, at most.
        unit: What is counted.
        enabled: Whether to show it; None shows it on a terminal (on stderr) and in a notebook.
    """

    def __init__(self, title: str = "", total: int = 0, unit: str = "steps", enabled: bool | None = None):
        self._first = (title, total, unit)
        self._enabled = (sys.stderr.isatty() or in_notebook()) if enabled is None else enabled
        self._display: _Display | None = None
        self._parts: list[_Part] = []
        self._inner = False
        self._token: Token[Progress | None] | None = None

    def __enter__(self) -> Progress:
        self._inner = _current.get() is not None  # such as draws for a certificate
        self._token = _current.set(self)
        if self._enabled:
            self._display = _Notebook() if in_notebook() else _Terminal()
        if self._first[0]:
            self.phase(*self._first)
        return self

    def phase(self, title: str, total: int, unit: str = "steps") -> None:
        """Another part begins, of at most so many steps."""
        self._end()
        self._parts.append(_Part(title, total, unit))
        if self._display is not None:
            self._display.begin(title, total)

    def advance(self, note: str = "", by: int = 1, gradients: int = 0) -> None:
        """Count ``by`` more steps and what they cost, and show a few words on how it goes."""
        if not self._parts:
            return
        part = self._parts[-1]
        part.done, part.gradients = part.done + by, part.gradients + gradients
        if self._display is not None:
            self._display.update(part, note)

    def say(self, message: str) -> None:
        """Say something that must be seen, bar or no bar."""
        logger.warning(message)

    def _end(self) -> None:
        if self._parts:
            logger.log(DEBUG if self._inner else INFO, "%s", self._parts[-1])

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()
        if self._token is not None:
            _current.reset(self._token)
        if self._display is not None:
            self._display.close("; ".join(map(str, self._parts)))


def phase(title: str, total: int, unit: str = "steps") -> None:
    """Another part begins of what is being shown, if anything is."""
    if (current := _current.get()) is not None:
        current.phase(title, total, unit)


def count_steps(note: str = "", by: int = 1, gradients: int = 0) -> None:
    """Count steps, and gradients, of the part that is being shown, if any is."""
    if (current := _current.get()) is not None:
        current.advance(note, by, gradients)


def in_notebook() -> bool:
    """Whether this runs in a Jupyter kernel, which shows what is displayed."""
    shell = sys.modules.get("IPython")
    running: Any = None if shell is None else shell.get_ipython()
    return running is not None and "IPKernelApp" in running.config


class _Terminal:
    """A bar for every part, on stderr; all of it goes when it is done."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Shown

        self._bar: RichProgress = Shown(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TextColumn("{task.fields[cost]}"),
            TimeRemainingColumn(elapsed_when_finished=True),
            TextColumn("{task.fields[note]}"),
            console=Console(stderr=True),
            transient=True,
        )
        self._bar.start()

    def begin(self, title: str, total: int) -> None:
        """A bar of its own; that of the part before it is full."""
        for task in self._bar.tasks[-1:]:
            self._bar.update(task.id, total=task.completed, note="")
        self._task = self._bar.add_task(title, total=total, note="", cost="")

    def update(self, part: _Part, note: str) -> None:
        """Lengthen the bar; a part may take longer than was said."""
        cost = f"{part.gradients:,} gradients" if part.gradients else ""
        self._bar.update(self._task, completed=part.done, total=max(part.total, part.done), note=note, cost=cost)

    def close(self, words: str) -> None:
        """Take the bars away."""
        self._bar.stop()


class _Notebook:
    """One line of a cell's output, which is written over, and stays at the end."""

    def __init__(self) -> None:
        from IPython.display import display

        self._handle = display(_Line("..."), display_id=True)
        self._shown = 0.0

    def begin(self, title: str, total: int) -> None:
        """Say what begins, at once."""
        self._show(f"{title} ...")

    def update(self, part: _Part, note: str) -> None:
        """Say how far it is, and how long it may still take, at most five times a second."""
        now = time.perf_counter()
        if now - self._shown < _EVERY:
            return
        left = part.seconds * max(part.total - part.done, 0) / max(part.done, 1)
        self._show(f"{part}; at most {left:.0f} s left" + (f"; {note}" if note else ""))
        self._shown = now

    def close(self, words: str) -> None:
        """Leave what was done."""
        self._show(words)

    def _show(self, words: str) -> None:
        self._handle.update(_Line(words))


class _Line:
    """A line of plain text as notebooks show it."""

    def __init__(self, words: str):
        self.words = words

    def __repr__(self) -> str:
        return self.words
