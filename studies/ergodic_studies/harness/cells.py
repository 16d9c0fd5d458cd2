"""A cell of a study: work that is done once, kept on disk under a name that holds its settings, and read from then on.

A cell's file is written when the cell is done, with its name and a checksum. A study that was killed reads the cells
that are there and goes on with the rest; a cell whose settings were changed has another name, and is run anew, as is
one whose file is damaged, or that of another cell.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from ergodic.runtime.errors import StorageError
from ergodic.runtime.files import parsed, write_atomically

Result = TypeVar("Result")
"""What a cell's work returns: anything that JSON holds."""


def settings_hash(settings: object) -> str:
    """Eight hexadecimal digits that change with the settings, which may be anything that JSON holds."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:8]


def name_of(words: tuple[str | int, ...], settings: object) -> str:
    """The name of what has these settings: the words, for people, and the settings' hash, joined by hyphens."""
    return "-".join([*(_word(word) for word in words), settings_hash(settings)])


def _word(word: str | int) -> str:
    return str(word).replace(" ", "_").replace("/", "_")


@dataclass(frozen=True)
class Cell(Generic[Result]):
    """One piece of a study's work.

    Attributes:
      words: what the cell is, for people: a target, a method, a seed.
      settings: everything that the result depends on, as JSON.
      work: does the work and returns the result. It is given the cell's path without an ending, beside which it may
        keep arrays, or what is finished so far.
    """

    words: tuple[str | int, ...]
    settings: object
    work: Callable[[Path], Result]

    @property
    def name(self) -> str:
        """The name of the cell's files, without an ending."""
        return name_of(self.words, self.settings)

    def file(self, folder: Path) -> Path:
        """The file that holds the result once the cell is done."""
        return folder / f"{self.name}.json"

    def finished(self, folder: Path) -> bool:
        """Whether the result is on disk."""
        return self.kept(folder) is not None

    def kept(self, folder: Path) -> Result | None:
        """The result from disk; None where the cell was not done yet, or its file is damaged or another cell's."""
        found: Result | None = _read(self.file(folder))
        return found

    def result(self, folder: Path, *, again: bool = False) -> Result:
        """The result: from disk where it is there, else (or if it is wanted ``again``) by doing the work now."""
        kept = None if again else self.kept(folder)
        if kept is None:
            result = self.work(folder / self.name)
            document = {"cell": self.name, "sha256": _digest(result), "result": result}
            write_atomically(self.file(folder), json.dumps(document, indent=1, ensure_ascii=False).encode())
            kept = self.kept(folder)
        assert kept is not None
        return kept

    def with_any_settings(self, folder: Path) -> Iterator[Result]:
        """The results on disk of all cells that have these words, whatever their settings."""
        pattern = "-".join([*(_word(word) for word in self.words), "????????.json"])
        for file in sorted(folder.glob(pattern)):
            kept: Result | None = _read(file)
            if kept is not None:
                yield kept


def _read(file: Path) -> Any:
    """The result in a cell's file; None where there is no file, or not what that cell wrote."""
    try:
        document = parsed(file.read_bytes(), str(file))
    except (FileNotFoundError, StorageError):
        return None
    if not isinstance(document, dict) or document.get("cell") != file.stem:
        return None
    result = document.get("result")
    return result if document.get("sha256") == _digest(result) else None


def _digest(result: object) -> str:
    return hashlib.sha256(json.dumps(result, sort_keys=True).encode()).hexdigest()


@contextmanager
def unfinished(path: Path) -> Iterator[Path]:
    """The file beside a cell's path that holds what is finished while the work goes on; gone afterwards."""
    partial = path.with_name(path.name + ".part")
    partial.unlink(missing_ok=True)
    yield partial
    partial.unlink(missing_ok=True)


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write the arrays that belong to a cell, as ``path.npz``."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **{name: np.asarray(array) for name, array in arrays.items()})  # type: ignore[arg-type]
    write_atomically(path.with_name(path.name + ".npz"), buffer.getvalue())


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays that `write_arrays` wrote for a cell."""
    with np.load(path.with_name(path.name + ".npz")) as file:
        return {name: file[name] for name in file.files}
