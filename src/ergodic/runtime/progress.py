"""A progress bar on the host, between compiled calls: never a callback in the graph."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress


class Progress:
    """A bar that counts steps: ``with Progress("tuning", 50) as bar: bar.advance("note")``.

    Args:
        title: What is going on.
        total: How many steps there are.
        enabled: Whether to show the bar on stderr; None shows it when stderr is a terminal.
    """

    def __init__(self, title: str, total: int, enabled: bool | None = None):
        self._title, self._total = title, total
        self._enabled = sys.stderr.isatty() if enabled is None else enabled
        self._bar: RichProgress | None = None

    def __enter__(self) -> Progress:
        if self._enabled:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Shown

            self._bar = Shown(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                TextColumn("{task.fields[note]}"),
                console=Console(stderr=True),
                transient=True,
            )
            self._task = self._bar.add_task(self._title, total=self._total, note="")
            self._bar.start()
        return self

    def advance(self, note: str = "", by: int = 1) -> None:
        """Count ``by`` more steps, and show a few words on how it goes."""
        if self._bar is not None:
            self._bar.update(self._task, advance=by, note=note)

    def say(self, message: str) -> None:
        """Say something that must be seen, bar or no bar."""
        if self._bar is not None:
            self._bar.console.print(message)
        else:
            print(message, file=sys.stderr)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
