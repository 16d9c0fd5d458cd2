"""A study's tables on the console."""

from __future__ import annotations

from collections.abc import Iterable

from rich import table as rich_table
from rich.console import Console
from rich.text import Text

from ergodic.cli.console import console, say

from ..harness.tables import Table

_WHOLE = 1000
"""Columns of a file or a pipe: more than any table has."""


def show_tables(tables: Iterable[Table]) -> None:
    """Print tables; in a file or a pipe nothing of them is cut off."""
    for table in tables:
        say(f"\n{table.title}")
        (console if console.is_terminal else Console(width=_WHOLE)).print(_shown(table))
        if table.note:
            say(table.note)


def _shown(table: Table) -> rich_table.Table:
    shown = rich_table.Table(box=None, pad_edge=False, header_style="bold")
    for index, column in enumerate(table.columns):
        shown.add_column(Text(column), justify="right" if index else "left", no_wrap=True)
    for row in table.rows:
        shown.add_row(*(Text("" if value is None else str(value)) for value in row))
    return shown
