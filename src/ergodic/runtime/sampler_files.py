"""A sampler's file: safetensors arrays with a JSON header.

The header, one JSON document under the metadata key ``ergodic``:

    schema       version of this layout; a newer one than the code knows is refused
    method, config, target (name, dim, dtype, leaves), source, cost, certificate, version, sha256 (of the arrays' bytes)
    members      how many members a family has, where it is one; its target is the first member's

Arrays are named by their path: ``params/initial/mean``, ``params/transitions/log_step``, ``record/objective``, ...
A family's have a leading axis of members, except for its schedule.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, NotRequired, TypedDict

import numpy as np

from .._version import __version__
from .errors import StorageError
from .files import digest, read_arrays, write_atomically

SCHEMA = 2
_RENAMED = {"metric": "chart", "metrics": "charts"}
"""Parts of arrays' names in files of schema 1, and what they are called since."""


class Header(TypedDict):
    """The JSON header of a sampler's file."""

    schema: int
    version: str
    method: str
    config: dict[str, Any]
    """The settings of the method, by name."""
    target: dict[str, object]
    """The target's name, dim, dtype and leaves (a shape for each)."""
    source: dict[str, Any]
    """Where the command line found the target; empty where it was made in Python."""
    cost: dict[str, Any]
    """The fields of the `Cost` of tuning."""
    certificate: dict[str, Any] | None
    members: NotRequired[int]
    """How many members a family has, where it is one."""
    sha256: str


_REQUIRED = {"method", "config", "target", "source", "cost", "sha256"}


def write(path: str | os.PathLike[str], header: Mapping[str, object], arrays: dict[str, np.ndarray]) -> None:
    """Write a sampler's header and arrays, atomically; schema, version and checksum are added here."""
    from safetensors.numpy import save

    arrays = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    document = {"schema": SCHEMA, "version": __version__, **header, "sha256": digest(arrays)}
    write_atomically(path, save(arrays, metadata={"ergodic": json.dumps(document)}))


def read(path: str | os.PathLike[str]) -> tuple[Header, dict[str, np.ndarray]]:
    """The header and the arrays of a sampler's file, checked for damage."""
    metadata, arrays = read_arrays(path, "a sampler's file")
    if "ergodic" not in metadata:
        raise StorageError(f"{path} is a safetensors file, but not one that ergodic wrote")
    try:
        header = json.loads(metadata["ergodic"])
        schema = int(header["schema"])
    except (ValueError, TypeError, KeyError) as error:
        raise StorageError(f"{path} is damaged: its header cannot be read") from error
    if schema > SCHEMA:
        raise StorageError(
            f"{path} has schema {schema}, written by ergodic {header.get('version', '?')}; this version "
            f"({__version__}) reads schemas up to {SCHEMA}: upgrade ergodic-inference"
        )
    missing = _REQUIRED - set(header)
    if missing:
        raise StorageError(f"{path} is damaged: its header has no {', '.join(sorted(missing))}")
    if digest(arrays) != header["sha256"]:
        raise StorageError(f"{path} is damaged: its arrays do not have the checksum they were written with")
    if schema < 2:
        arrays = {"/".join(_RENAMED.get(part, part) for part in name.split("/")): arrays[name] for name in arrays}
    return header, arrays
