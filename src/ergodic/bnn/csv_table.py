"""A user's own table: numbers in a CSV file with a header, read with every doubt said aloud."""

from __future__ import annotations

import csv
import math
from collections import Counter
from pathlib import Path

import numpy as np
from jaxtyping import Float64

from ..runtime.errors import DataError

_FEWEST = 10
_LARGEST = 1e100
"""Squares of larger numbers overflow."""


def read_csv(path: Path, without: str | None = None) -> tuple[list[str], Float64[np.ndarray, "rows columns"]]:
    """Column names and values; an error names the column and the line of what is not a number.

    One column may be passed over, whatever is in it.
    """
    if not path.is_file():
        raise DataError(f"{path}: there is no such file")
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            lines = [line for line in csv.reader(file) if line]
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} is not a CSV file in UTF-8 ({error})") from error
    if not lines:
        raise DataError(f"{path} is empty; it should have a header and a row of numbers a line")
    columns = [name.strip() for name in lines[0]]
    if all(_number(name) is not None for name in columns):
        raise DataError(f"{path} has no header: its first line is numbers; give the columns names")
    if len(columns) == 1 and any(mark in columns[0] for mark in ";\t"):
        raise DataError(f"{path}: columns should be separated by commas, not by semicolons or tabs")
    if "" in columns:
        at = columns.index("") + 1
        raise DataError(f"{path}: column {at} has no name (an index that was written along?); name it or remove it")
    twice = next((name for name, times in Counter(columns).items() if times > 1), None)
    if twice is not None:
        raise DataError(f"{path} has two columns called '{twice}'; rename one")
    values = np.empty((len(lines) - 1, len(columns)))
    for row, line in enumerate(lines[1:]):
        if len(line) != len(columns):
            raise DataError(f"{path}, line {row + 2}: {len(line)} values for {len(columns)} columns")
        for at, text in enumerate(line):
            values[row, at] = 0 if columns[at] == without else _value(path, row + 2, columns[at], text)
    return columns, values


def training_rows(path: Path, target: str) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Feature names, inputs and the target's values, of a table that a network can be fitted to."""
    columns, values = read_csv(path)
    if target not in columns:
        raise DataError(f"{path} has no column '{target}'; its columns are {', '.join(columns)}")
    if len(columns) < 2:
        raise DataError(f"{path} has no column beside '{target}' to predict it from")
    if len(values) < _FEWEST:
        raise DataError(f"{path} has {len(values)} rows; at least {_FEWEST} are needed")
    for at, name in enumerate(columns):
        if np.all(values[:, at] == values[0, at]):
            role = "the target" if name == target else "nothing can be learnt from it: remove it"
            raise DataError(f"{path}: column '{name}' is {values[0, at]:g} in every row ({role})")
        if np.abs(values[:, at]).max() > _LARGEST:
            raise DataError(f"{path}: column '{name}' has values above {_LARGEST:g}; give it in other units")
    chosen = [at for at, name in enumerate(columns) if name != target]
    return [columns[at] for at in chosen], values[:, chosen], values[:, columns.index(target)]


def new_rows(path: Path, features: list[str], target: str) -> np.ndarray:
    """Inputs of new rows, in the order the network knows; a column of the target is passed over."""
    columns, values = read_csv(path, without=target)
    place, known = {name: at for at, name in enumerate(columns)}, {*features, target}
    missing = [name for name in features if name not in place]
    unseen = [name for name in columns if name not in known]
    if missing:
        raise DataError(f"{path} lacks {_words(missing)}, which the network was fitted with")
    if unseen:
        raise DataError(f"{path} has {_words(unseen)}, which the network has never seen; remove it or fit again")
    if not len(values):
        raise DataError(f"{path} has a header but no rows")
    return values[:, [place[name] for name in features]]


def _words(names: list[str]) -> str:
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ("column " if len(names) == 1 else "columns ") + ", ".join(f"'{name}'" for name in names[:5]) + more


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _value(path: Path, line: int, column: str, text: str) -> float:
    where = f"{path}, line {line}, column '{column}'"
    if text.strip().lower() in ("", "na", "nan", "null", "none", "?"):
        raise DataError(f"{where}: a value is missing; fill it in or remove the row")
    value = _number(text)
    if value is None:
        raise DataError(f"{where}: '{text}' is not a number; encode text columns as numbers, or remove them")
    if not math.isfinite(value):
        raise DataError(f"{where}: {text} is not finite")
    return value
