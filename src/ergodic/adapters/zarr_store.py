"""A Zarr store on disk whose arrays grow along their draws, each growth whole or not at all.

    draws.zarr/.zgroup .zattrs .zmetadata
               posterior/.zgroup .zattrs
                         x/.zarray .zattrs 0.0.0 0.1.0 ...      array (chain, draw, ...): a file every `rows` draws

This is Zarr format 2, which ArviZ 0.x reads with zarr 2, and xarray with zarr 2 and 3. ``.zmetadata`` repeats all other
metadata, the arrays' lengths among them. Readers look there first, and it is written last: until it is replaced, what a
growth has written so far is not part of the store. Files are written in a hidden folder beside the store and renamed
into it, so the store holds nothing else; it appears with its first draws in it. Its bytes depend on what was stored,
not on when, nor on how many runs it took.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from ..runtime.errors import StorageError
from ..runtime.extras import require
from ..runtime.writing import flush, real_path, work_folder

COMMIT = ".zmetadata"
Attributes = Mapping[str, int | float | str]
"""Plain facts about a group or an array, by name."""
Document = dict[str, object]
"""A JSON document of a store's metadata."""
_COMPRESSOR: Document = {"id": "zstd", "level": 1, "checksum": True}


class Array(NamedTuple):
    """One array: its dimensions and dtype; ``values`` where it does not grow, else the shape of one draw."""

    dims: tuple[str, ...]
    dtype: np.dtype
    shape: tuple[int, ...] = ()
    values: np.ndarray | None = None
    attributes: Attributes = MappingProxyType({})


class Store:
    """A store with ``rows`` draws per file.

    Arrays are named ``group/name``; attributes are by group, and those of ``""`` are the whole store's.
    """

    def __init__(self, path: Path, rows: int, arrays: Mapping[str, Array], attributes: Mapping[str, Attributes]):
        self._path, self._rows, self._arrays, self._attributes = real_path(path), rows, arrays, attributes
        self._work = work_folder(path)
        self._written: dict[str, bytes] = {}

    def grow(self, part: int, columns: Mapping[str, np.ndarray], n: int, *, again: bool = False) -> None:
        """Write files number ``part`` of all arrays, and make the store n draws long. Columns have one row per draw."""
        self.add(self.encoded(part, columns), n, again=again)

    def encoded(self, part: int, columns: Mapping[str, np.ndarray]) -> dict[str, bytes]:
        """Files number ``part`` of all arrays that grow, by their place in the store."""
        growing = ((name, array) for name, array in self._arrays.items() if array.values is None)
        padded = ((name, array, self._padded(array, columns[name])) for name, array in growing)
        return {_file(name, array, part): _encode(values) for name, array, values in padded if values.size}

    def add(self, files: Mapping[str, bytes], n: int, *, again: bool = False) -> None:
        """Write such files, and make the store n draws long.

        What does not grow is written with the first draws, and when it is to be written ``again``.
        """
        new = not self._path.exists()
        root = self._work / "new" if new else self._path
        fixed = ((name, array, array.values) for name, array in self._arrays.items() if new or again)
        files = {
            **{_file(name, array, 0): _encode(v) for name, array, v in fixed if v is not None and v.size},
            **files,
        }
        folders = {root, *((root / name).parent for name in files)}
        for name, data in files.items():
            self._place(root / name, data)
        documents = self._documents(n)
        everything = {"zarr_consolidated_format": 1, "metadata": documents, "sha256": _digest(documents)}
        for name, document in (*documents.items(), (COMMIT, everything)):
            data = _text(document)
            if name == COMMIT:
                for folder in folders:
                    flush(folder)
            if self._written.get(name) != data:
                self._place(root / name, data)
                self._written[name] = data
        if new:
            os.rename(root, self._path)
        flush(self._path.parent if new else self._path)

    def _padded(self, array: Array, column: np.ndarray) -> np.ndarray:
        """The draws of one file in the array's shape, with zeros after the last."""
        out = np.zeros((self._rows, *array.shape), array.dtype)
        out[: len(column)] = column
        return out[None] if array.dims[0] == "chain" else out

    def _documents(self, n: int) -> dict[str, Document]:
        """All metadata of the store at n draws, by file."""
        groups = dict.fromkeys(["", *(name.rpartition("/")[0] for name in self._arrays)])
        found: dict[str, Document] = {}
        for group in groups:
            found[f"{group}/.zgroup".lstrip("/")] = {"zarr_format": 2}
            found[f"{group}/.zattrs".lstrip("/")] = dict(self._attributes.get(group, {}))
        for name, array in self._arrays.items():
            found[f"{name}/.zarray"] = self._describe(array, n)
            found[f"{name}/.zattrs"] = {"_ARRAY_DIMENSIONS": list(array.dims), **array.attributes}
        return found

    def _describe(self, array: Array, n: int) -> Document:
        if array.values is not None:
            shape = chunks = array.values.shape
        else:
            one = (1,) if array.dims[0] == "chain" else ()
            shape, chunks = (*one, n, *array.shape), (*one, self._rows, *array.shape)
        return {
            "zarr_format": 2,
            "shape": shape,
            "chunks": [max(1, length) for length in chunks],
            "dtype": array.dtype.str,
            "order": "C",
            "fill_value": None,  # readers would take draws that have this value for missing
            "filters": _filters(array.dtype) or None,
            "compressor": _COMPRESSOR,
        }

    def _place(self, file: Path, data: bytes) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary = self._work / "file"
        with open(temporary, "wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        os.replace(temporary, file)


def checked_metadata(path: Path) -> dict[str, Any]:
    """All metadata of a store, by file, as the list of its contents has them; an error where that is damaged."""
    nothing = f"{path} is not a store of streamed draws; name another file, or --overwrite it"
    try:
        document = json.loads((path / COMMIT).read_text())
        metadata = dict(document["metadata"])
        attributes, length = metadata[".zattrs"], metadata["posterior/draw/.zarray"]["shape"][0]
    except (OSError, ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
        raise StorageError(nothing) from error
    if document.get("sha256", found := _digest(metadata)) != found:
        raise StorageError(f"{path} is damaged: {COMMIT} does not have the checksum that it was written with")
    if type(length) is not int or not isinstance(attributes, dict):
        raise StorageError(nothing)
    return metadata


def read_metadata(path: Path) -> tuple[dict[str, int | float | str], int]:
    """A store's attributes and how many draws are in it."""
    metadata = checked_metadata(path)
    return metadata[".zattrs"], metadata["posterior/draw/.zarray"]["shape"][0]


def unlisted(path: Path) -> dict[str, bytes]:
    """Metadata files that are not as the list of contents has them, and what should be in them."""
    found = {}
    for name, document in checked_metadata(path).items():
        try:
            same = (path / name).read_bytes() == _text(document)
        except OSError:
            same = False
        if not same:
            found[name] = _text(document)
    return found


def _text(document: object) -> bytes:
    return json.dumps(document, indent=1, sort_keys=True).encode()


def _digest(documents: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(documents, sort_keys=True).encode()).hexdigest()


def sweep(path: Path) -> None:
    """Remove what a growth that was interrupted left in a store: one file past the end of each array."""
    metadata = checked_metadata(path)
    for name, document in metadata.items():
        folder, _, file = name.rpartition("/")
        dims = metadata[f"{folder}/.zattrs"]["_ARRAY_DIMENSIONS"] if file == ".zarray" else ()
        if "draw" in dims:
            sizes = zip(dims, document["shape"], document["chunks"], strict=True)
            past = ".".join(str(-(-length // chunk)) if dim == "draw" else "0" for dim, length, chunk in sizes)
            (path / folder / past).unlink(missing_ok=True)


def remove(path: Path, to: Path | None = None) -> None:
    """Remove a store, or move it ``to`` another place; refuse what is none."""
    real = real_path(path)
    if real.exists() and not real.is_dir():
        raise StorageError(f"{path} is a file, not a Zarr store; remove it yourself, or name another")
    if real.is_dir() and any(real.iterdir()) and not ((real / ".zgroup").exists() or (real / "zarr.json").exists()):
        raise StorageError(f"{path} is a directory but not a Zarr store; remove it yourself, or name another")
    if real.is_dir() and to is not None:
        os.rename(real, to)
    elif real.is_dir():
        shutil.rmtree(real)


def _file(name: str, array: Array, part: int) -> str:
    """Where file number ``part`` of an array is."""
    return f"{name}/" + (".".join(str(part if dim == "draw" else 0) for dim in array.dims) or "0")


def _filters(dtype: np.dtype) -> list[Document]:
    """Filters that put bytes of the same significance side by side: sign and exponent of real numbers then compress."""
    return [{"id": "shuffle", "elementsize": dtype.itemsize}] if dtype.kind in "iuf" and dtype.itemsize > 1 else []


def _encode(values: np.ndarray) -> bytes:
    get_codec = require("numcodecs", "results", "a Zarr store").get_codec
    data: np.ndarray | bytes = np.ascontiguousarray(values)
    for config in (*_filters(values.dtype), _COMPRESSOR):
        data = get_codec(dict(config)).encode(data)
    return bytes(data)
