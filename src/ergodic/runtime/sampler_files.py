"""A sampler's file: safetensors arrays with a JSON header.

The header, one JSON document under the metadata key ``ergodic``:

    schema       version of this layout; a newer one than the code knows is refused
    method, config, target (name, dim, dtype, leaves), source, cost, certificate, version
    members      how many members a family has, where it is one; its target is the first member's

The metadata key ``sha256`` is the checksum of all else in the file. (Schemas 1 and 2 had one of the arrays alone, in
the header: what they say of a certificate is not read.)

Arrays are named by their path: ``params/initial/mean``, ``params/transitions/log_step``, ``record/objective``, ...
A family's have a leading axis of members, except for its schedule.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NotRequired, TypedDict

import numpy as np

from .._version import __version__
from .errors import ConfigError, StorageError
from .files import CHECKSUM, digest, parsed, read_arrays, write_arrays
from .validation import record

SCHEMA = 3
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


_TYPES = dict.fromkeys(("config", "target", "source", "cost"), "dict") | {
    "schema": "int",
    "version": "str",
    "method": "str",
    "certificate": "dict | None",
    "members": "int",
}
_TARGET = {"name": "str", "dim": "int", "dtype": "str", "leaves": "dict"}
_REQUIRED = {"method", "config", "target", "source", "cost"}


def write(path: str | os.PathLike[str], header: Mapping[str, object], arrays: dict[str, np.ndarray]) -> None:
    """Write a sampler's header and arrays, atomically; schema, version and checksum are added here."""
    write_arrays(path, "ergodic", {"schema": SCHEMA, "version": __version__, **header}, arrays)


def read(path: str | os.PathLike[str]) -> tuple[Header, dict[str, np.ndarray]]:
    """The header and the arrays of a sampler's file, checked for damage."""
    metadata, arrays = read_arrays(path, "a sampler's file")
    if "ergodic" not in metadata:
        raise StorageError(f"{path} is a safetensors file, but not one that ergodic wrote")
    header = parsed(metadata["ergodic"], f"{path}'s header")
    schema = header.get("schema") if isinstance(header, dict) else None
    if type(schema) is not int or schema < 1:
        raise StorageError(f"{path} is damaged: its header cannot be read")
    if schema > SCHEMA:
        raise StorageError(
            f"{path} has schema {schema}, written by ergodic {header.get('version', '?')!s:.20}; this version "
            f"({__version__}) reads schemas up to {SCHEMA}: upgrade ergodic-inference"
        )
    missing = _REQUIRED - set(header)
    if missing:
        raise StorageError(f"{path} is damaged: its header has no {', '.join(sorted(missing))}")
    if schema >= 3 and CHECKSUM not in metadata:
        raise StorageError(f"{path} is damaged: it has no checksum")
    if schema < 3 and digest(arrays) != header.pop("sha256", None):
        raise StorageError(f"{path} is damaged: its arrays do not have the checksum they were written with")
    if schema < 3:
        header["certificate"] = None
    if schema < 2:
        arrays = {"/".join(_RENAMED.get(part, part) for part in name.split("/")): arrays[name] for name in arrays}
    _check(path, header, arrays)
    return header, arrays


def _check(path: str | os.PathLike[str], header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Refuse a header whose parts are not what they should be, before anything is made of them."""
    try:
        record(dict, header, "its header", _TYPES)
        record(dict, header["target"], "its target", _TARGET)
    except ConfigError as error:
        raise StorageError(f"{path} is damaged: {error}") from error
    values = sum(array.size for array in arrays.values())
    if not 0 < header["target"].get("dim", 0) <= values or not 0 < header.get("members", 1) <= values:
        raise StorageError(f"{path} is damaged: it has {values} values, too few for what its header says")
