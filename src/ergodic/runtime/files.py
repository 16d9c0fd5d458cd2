"""Files written whole or not at all; safetensors files of named arrays, and JSON, whose damage is said in words."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from .errors import StorageError
from .writing import real_path, replacing, require_file_name

CHECKSUM = "sha256"
"""The metadata key of a file's checksum."""


def write_atomically(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file whole or not at all; its folder is made where it is missing."""
    with replacing(path) as temporary:
        temporary.write_bytes(data)


def require_writable(path: str | os.PathLike[str]) -> None:
    """Refuse a file that cannot be written, before any work is done for it."""
    path = Path(path)
    require_file_name(path)
    folder = real_path(path).parent
    while not folder.exists():
        folder = folder.parent
    if not folder.is_dir():
        raise StorageError(f"{path} cannot be written: {folder} is a file, not a folder")
    if not os.access(folder, os.W_OK | os.X_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise StorageError(f"{path} cannot be written: no permission in {folder}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror} ({path.parent})") from error


def parsed(text: str | bytes, what: str) -> Any:
    """What a JSON document holds; an error that names ``what`` it should be where it is none, or too deep to read."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise StorageError(f"{what} is damaged: it is not JSON that can be read ({error})") from error


def write_arrays(
    path: str | os.PathLike[str], mark: str, document: Mapping[str, object], arrays: dict[str, np.ndarray]
) -> None:
    """Write arrays and a JSON document, under the metadata key ``mark``, with one checksum over all of it."""
    from safetensors.numpy import save

    arrays = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    metadata = {mark: json.dumps(document)}
    write_atomically(path, save(arrays, metadata={**metadata, CHECKSUM: checksum(metadata, arrays)}))


def read_arrays(
    path: str | os.PathLike[str], what: str, advice: str = ""
) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    """The metadata and the arrays of a safetensors file that should be ``what``; if it is not one, what to do.

    Where the metadata have a checksum, it is that of all else in the file. Nothing larger than the file is allocated:
    safetensors refuses a header whose shapes do not add up to the file's length.
    """
    from safetensors import SafetensorError, safe_open

    if not Path(path).is_file():
        there = Path(path).exists()
        raise StorageError(f"{path}: " + ("that is not a file" if there else "there is no such file"))
    try:
        with safe_open(str(path), framework="np") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
            metadata = file.metadata() or {}
    except (SafetensorError, OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise StorageError(f"{path} is not {what}, or is damaged or truncated ({error}){advice}") from error
    if metadata.get(CHECKSUM, found := checksum(metadata, arrays)) != found:
        raise StorageError(f"{path} is damaged: its content does not have the checksum it was written with{advice}")
    return metadata, arrays


def named_leaves(tree: PyTree) -> list[tuple[str, PyTree]]:
    """Every leaf with its path, ``a/b/0``: what its array is called in a file."""
    paths = jax.tree_util.tree_flatten_with_path(tree)[0]
    return [(jax.tree_util.keystr(path, simple=True, separator="/"), leaf) for path, leaf in paths]


def digest(arrays: dict[str, np.ndarray]) -> str:
    """SHA-256 of the arrays' names and bytes."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        digest.update(f"{name}:{arrays[name].dtype}:{arrays[name].shape};".encode())
        digest.update(arrays[name].tobytes())
    return digest.hexdigest()


def checksum(metadata: Mapping[str, str], arrays: dict[str, np.ndarray]) -> str:
    """SHA-256 of all metadata but the checksum itself, and of the arrays."""
    words = sorted((name, text) for name, text in metadata.items() if name != CHECKSUM)
    return hashlib.sha256(json.dumps([words, digest(arrays)]).encode()).hexdigest()
