"""A table and a figure, as a study makes them and as ``results.json`` keeps them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TypedDict

import numpy as np

Value = str | int | float | bool | None
"""What one place of a table holds."""


class TableRecord(TypedDict):
    """A table in ``results.json``."""

    title: str
    note: str
    columns: list[str]
    rows: list[list[Value]]


@dataclass(frozen=True)
class Table:
    """A table: every row has one value per column.

    Attributes:
      title: what the table shows.
      columns: their headings.
      rows: of values, which are shown as they are.
      note: what a reader must know besides, printed below.
    """

    title: str
    columns: list[str]
    rows: list[list[Value]]
    note: str = ""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"{self.title}: a row has {len(row)} values for {len(self.columns)} columns")

    @staticmethod
    def of(title: str, columns: Iterable[str], rows: Iterable[Iterable[object]], note: str = "") -> Table:
        """A table of any rows and columns; a value that is neither text nor a number is an error."""
        return Table(title, list(columns), [[_value(value) for value in row] for row in rows], note)

    @staticmethod
    def read(record: TableRecord) -> Table:
        """A table from ``results.json``."""
        return Table.of(record["title"], record["columns"], record["rows"], record.get("note", ""))

    def record(self) -> TableRecord:
        """The table as ``results.json`` keeps it."""
        return {"title": self.title, "note": self.note, "columns": self.columns, "rows": self.rows}

    def markdown(self) -> str:
        """The columns and rows as Markdown, with a newline at the end; without the title and the note."""
        lines = [self.columns, *([str(value) for value in row] for row in self.rows)]
        head, *body = ("| " + " | ".join(line) + " |" for line in lines)
        return "\n".join([head, "|" + "---|" * len(self.columns), *body]) + "\n"

    def document(self) -> str:
        """The table as Markdown with its title and its note."""
        return f"**{self.title}**\n\n{self.markdown()}\n{self.note}"


def _value(value: object) -> Value:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise TypeError(f"a table holds text and numbers, not a {type(value).__name__}")


@dataclass(frozen=True)
class Figure:
    """A picture that a study wrote into its folder, and what is said of it."""

    file: str
    title: str
    caption: str
    words: str = ""
    """Lines that stand beside it on the page, as they are."""

    def record(self) -> dict[str, str]:
        """The figure as ``results.json`` keeps it."""
        return {name: text for name, text in asdict(self).items() if text or name != "words"}
