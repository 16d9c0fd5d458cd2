"""Checkpoints of training: every array of the state in one safetensors file, written whole or not at all.

Arrays are named by their path in the state, ``decoder/layers/0/weight``. Files of earlier versions can be read: there
Adam's arrays are called ``adam/0/...``, and the digest, which is in the header, is that of the arrays alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..runtime.errors import StorageError
from ..runtime.files import CHECKSUM, digest, named_leaves, parsed, read_arrays, write_arrays
from .iterations import State

_MARK = "training"
_FIELDS = {"recipe", "stage", "seconds", "rows"}
_EARLIER_ADAM, _ADAM = "adam/0/", "adam/"


class Checkpoint(NamedTuple):
    """Where a run of training is."""

    stage: int
    """Which stage of its recipe it is in, from 0."""
    state: State
    """All that the next iteration needs."""
    seconds: float
    """Seconds of training so far."""
    rows: list[dict[str, float]]
    """The history so far, one row per call of the training program."""


def write_checkpoint(path: Path, recipe: Mapping[str, object], checkpoint: Checkpoint) -> None:
    """Write a checkpoint, with the recipe that it belongs to."""
    arrays = {name: np.asarray(leaf) for name, leaf in named_leaves(checkpoint.state)}
    rest = {"stage": checkpoint.stage, "seconds": checkpoint.seconds, "rows": checkpoint.rows}
    write_arrays(path, _MARK, {"recipe": recipe, **rest}, arrays)


def read_checkpoint(path: Path, recipe: Mapping[str, object], template: Callable[[int], State]) -> Checkpoint | None:
    """Read a checkpoint back; None where there is none; an error where it is damaged or of another recipe.

    Args:
      path: the file.
      recipe: the settings that the checkpoint should belong to.
      template: gives, for a stage, a state of the right structure whose leaves have shapes and dtypes.
    """
    if not path.is_file():
        return None
    metadata, arrays = read_arrays(path, "a training checkpoint", "; delete it to begin anew")
    if _MARK not in metadata:
        raise StorageError(f"{path} is not a training checkpoint; delete it to begin anew")
    header = parsed(metadata[_MARK], f"{path}'s header")
    if not isinstance(header, dict) or not set(header) >= _FIELDS:
        raise StorageError(f"{path} is damaged: its header cannot be read; delete it to begin anew")
    if CHECKSUM not in metadata and header.get("sha256") != digest(arrays):
        raise StorageError(f"{path} is damaged: it does not have the checksum of its arrays; delete it to begin anew")
    if header["recipe"] != json.loads(json.dumps(recipe)):
        raise StorageError(f"{path} is of a run with other settings; give another folder, or delete it to begin anew")
    _check(path, header)
    arrays = {name.replace(_EARLIER_ADAM, _ADAM, 1): array for name, array in arrays.items()}
    shapes = template(header["stage"])
    leaves = []
    for name, leaf in named_leaves(shapes):
        array = arrays.get(name)
        if array is None or array.shape != leaf.shape or array.dtype != leaf.dtype:
            raise StorageError(f"{path} is damaged: its array '{name}' is missing or of another shape")
        leaves.append(jnp.asarray(array))
    state = jax.tree.unflatten(jax.tree.structure(shapes), leaves)
    return Checkpoint(header["stage"], state, header["seconds"], header["rows"])


def _check(path: Path, header: dict[str, Any]) -> None:
    """Refuse a stage that the recipe does not have, and a history that is no table of numbers."""
    stage, rows = header["stage"], header["rows"]
    sound = type(stage) is int and 0 <= stage < len(header["recipe"]["stages"])
    sound &= isinstance(rows, list) and all(isinstance(row, dict) for row in rows)
    numbers = [header["seconds"], *(value for row in rows for value in row.values())] if sound else ["none"]
    if not all(type(number) in (int, float) for number in numbers):
        raise StorageError(f"{path} is damaged: its header has no stage, seconds and rows; delete it to begin anew")
