"""What is damaged in a Zarr store of streamed draws: every file is decoded, by which its checksum is compared.

Frames of zstd end in a checksum of what was compressed (XXH64), and ``.zmetadata`` has one of all metadata. Stores of
earlier versions have neither: of those only what cannot be decoded is found.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..runtime.errors import StorageError
from ..runtime.extras import require
from .zarr_store import checked_metadata, unlisted


class Damage(NamedTuple):
    """A file of a store that is not what was written."""

    file: str
    """Its path in the store."""
    part: int | None
    """Which file along the draws it is; None where its array does not grow, or it is metadata."""
    cause: str

    def __str__(self) -> str:
        return f"{self.file}: {self.cause}"


def damages(path: Path) -> list[Damage]:
    """Every damaged file of a store; an error where its list of contents itself is damaged."""
    metadata = checked_metadata(path)
    found = [Damage(name, None, "is not as .zmetadata has it") for name in unlisted(path)]
    for name, document in metadata.items():
        array, _, kind = name.rpartition("/")
        if kind == ".zarray":
            dims = metadata[f"{array}/.zattrs"]["_ARRAY_DIMENSIONS"]
            found += _array(path, array, document, dims.index("draw") if "draw" in dims else None)
    return found


def _array(path: Path, array: str, document: dict[str, Any], along: int | None) -> Iterator[Damage]:
    """The damaged files of one array, whose draws lie along this axis."""
    shape, chunks = document["shape"], document["chunks"]
    if 0 in shape:
        return
    length = math.prod(chunks) * np.dtype(document["dtype"]).itemsize
    for place in itertools.product(*(range(-(-size // chunk)) for size, chunk in zip(shape, chunks, strict=True))):
        file = f"{array}/{'.'.join(map(str, place)) or '0'}"
        cause = _cause(path / file, document, length)
        if cause is not None:
            yield Damage(file, None if along is None else place[along], cause)


def _cause(file: Path, document: dict[str, Any], length: int) -> str | None:
    """What is wrong with one file, if anything."""
    get_codec = require("numcodecs", "results", "a Zarr store").get_codec
    try:
        data: Any = file.read_bytes()
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    try:
        for config in (document["compressor"], *reversed(document["filters"] or [])):
            data = data if config is None else get_codec(dict(config)).decode(data)
    except (RuntimeError, ValueError) as error:
        return f"does not have its checksum, or cannot be decoded ({error})"
    return None if memoryview(data).nbytes == length else "has another length"


def require_sound(path: Path) -> None:
    """Refuse a store in which anything is damaged, naming what."""
    found = damages(path)
    if found:
        named = "; ".join(map(str, found[:5])) + (f"; and {len(found) - 5} more" if len(found) > 5 else "")
        raise StorageError(f"{path} is damaged: {named} (`ergodic verify {path} --sampler FILE` draws it again)")
