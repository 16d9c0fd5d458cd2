"""What can be fetched: the files of every collection, the public files they are made from, and their digests.

A file's digest is of its *contents* (`ergodic.datasets.content.digest`): of the bytes inside a gzip wrapper, or of the
arrays inside an npz file. A file that was compressed again is therefore still the same file. Where the bytes at an
origin are published, they have a digest of their own, which is checked on arrival.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Any


class Conversion(Enum):
    """How a file is made from the files at its origins; `ergodic.datasets.conversion` does it."""

    COPY = auto()
    """The one file there is, unchanged."""
    PACK_ROWS = auto()
    """Rows of digits 0 and 1 become packed bits."""
    REGRESSION_TABLE = auto()
    """Rows of numbers become features, target and the 20 splits."""


@dataclass(frozen=True)
class Origin:
    """A file at a public address."""

    base: str
    """The folder's address, with a slash at its end."""
    name: str
    """The file's path below ``base``, and below MIRROR/COLLECTION/ where a mirror is used."""
    digest: str | None = None
    """The digest of its bytes as ``algorithm:hex``, where it is published."""


@dataclass(frozen=True)
class File:
    """A file of a collection, as `data_files.data_file` finds it."""

    name: str
    """The file's name in the collection's folder."""
    digest: str
    """The digest of its contents as ``algorithm:hex``."""
    origins: tuple[Origin, ...]
    """The public files it is made from."""
    conversion: Conversion = Conversion.COPY
    """How it is made from them."""
    arrays: tuple[str, ...] = ()
    """The arrays that make up the contents of an npz file; there may be others inside."""


@dataclass(frozen=True)
class Collection:
    """Files that are fetched together, into one folder."""

    title: str
    files: tuple[File, ...]


def _collection(part: dict[str, Any]) -> Collection:
    """A collection as the JSON document beside this file lists it."""
    files = []
    for file in part["files"]:
        origins = tuple(Origin(**origin) for origin in file["origins"])
        how = Conversion[file.get("conversion", "COPY")]
        files.append(File(file["name"], file["digest"], origins, how, tuple(file.get("arrays", ()))))
    return Collection(part["title"], tuple(files))


COLLECTIONS = {
    name: _collection(part)
    for name, part in json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8")).items()
}
"""What can be fetched, by name (``data_registry.json``)."""
