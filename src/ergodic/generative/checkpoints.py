"""Checkpoints of training: every array of the state in one safetensors file, written whole or not at all.

Arrays are named by their path in the state, ``decoder/layers/0/weight``. Files of earlier versions can be read: there
Adam's arrays are called ``adam/0/...``, and the first ones have no digest.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..runtime.errors import StorageError
from ..runtime.files import digest, named_leaves, read_arrays, write_atomically
from .iterations import State

_MARK = "training"
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
    from safetensors.numpy import save

    arrays = {name: np.asarray(leaf, order="C") for name, leaf in named_leaves(checkpoint.state)}
    header = {
        "recipe": recipe,
        "stage": checkpoint.stage,
        "seconds": checkpoint.seconds,
        "rows": checkpoint.rows,
        "sha256": digest(arrays),
    }
    write_atomically(path, save(arrays, metadata={_MARK: json.dumps(header)}))


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
    header = json.loads(metadata[_MARK])
    if header.get("sha256") not in (None, digest(arrays)):
        raise StorageError(f"{path} is damaged: not the arrays that were written; delete it to begin anew")
    if header["recipe"] != json.loads(json.dumps(recipe)):
        raise StorageError(f"{path} is of a run with other settings; give another folder, or delete it to begin anew")
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
