"""Read files of data, and say what is wrong with one that is damaged; digests of what is inside.

A file lies in the folder of its collection, so its path says how to get it again.
"""

from __future__ import annotations

import gzip
import hashlib
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..runtime.errors import DataError

_UNSIGNED_BYTES = 0x08  # the third byte of an idx file's magic number; the fourth is the number of axes


def read_idx(path: Path, shape: tuple[int, ...]) -> np.ndarray:
    """The unsigned bytes of a gzipped idx file (MNIST's format), which must have this shape."""
    content = unzipped(path)
    header = 4 + 4 * len(shape)
    if content[:4] != bytes([0, 0, _UNSIGNED_BYTES, len(shape)]) or len(content) < header:
        raise damaged(path, f"it is not an idx file of {len(shape)} axes")
    found = tuple(int(size) for size in np.frombuffer(content[4:header], ">u4"))
    if found != shape:
        raise damaged(path, f"its shape is {found}, not {shape}")
    if len(content) - header != np.prod(shape):
        raise damaged(path, f"it has {len(content) - header:,} values, not {np.prod(shape):,}")
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)


def read_arrays(path: Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    """The named arrays of an npz file."""
    try:
        # opened here because NumPy leaves a damaged file open
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            if missing := [name for name in names if name not in file.files]:
                raise damaged(path, f"it has no array {', '.join(missing)}")
            return {name: file[name] for name in names}
    except DataError:
        raise
    except (OSError, EOFError, ValueError, TypeError, AttributeError, zipfile.BadZipFile, zlib.error) as error:
        raise damaged(path, str(error)) from error


def unzipped(path: Path) -> bytes:
    """The bytes inside a gzip file."""
    try:
        with gzip.open(path) as file:
            return file.read()
    except (OSError, EOFError, zlib.error) as error:
        raise damaged(path, str(error)) from error


def damaged(path: Path, why: str) -> DataError:
    """The error for a file that cannot be what its name says."""
    return DataError(f"{path} is damaged: {why}; fetch it again: ergodic data fetch {path.parent.name}")


def digest(path: Path, algorithm: str, arrays: Sequence[str] = ()) -> str:
    """``algorithm:hex`` of a file's contents: of what a gzip file wraps, or of the named arrays of an npz file."""
    sum_ = hashlib.new(algorithm, usedforsecurity=False)
    if path.suffix == ".npz":
        for name, array in read_arrays(path, arrays).items():
            sum_.update(f"{name} {array.dtype.str} {array.shape} ".encode())
            sum_.update(np.ascontiguousarray(array).data)
    else:
        sum_.update(unzipped(path))
    return f"{algorithm}:{sum_.hexdigest()}"
