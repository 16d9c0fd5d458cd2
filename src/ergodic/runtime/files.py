"""Atomic writes, and safetensors files of named arrays whose damage is reported in words."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import jax
import numpy as np
from jaxtyping import PyTree

from .errors import StorageError
from .writing import real_path, replacing, require_file_name


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


def read_arrays(
    path: str | os.PathLike[str], what: str, advice: str = ""
) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    """The metadata and the arrays of a safetensors file that should be ``what``; if it is not one, what to do."""
    from safetensors import SafetensorError, safe_open

    if not Path(path).is_file():
        raise StorageError(f"{path}: there is no such file")
    try:
        with safe_open(str(path), framework="np") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
            return file.metadata() or {}, arrays
    except (SafetensorError, OSError, ValueError) as error:
        raise StorageError(f"{path} is not {what}, or is damaged or truncated ({error}){advice}") from error


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
