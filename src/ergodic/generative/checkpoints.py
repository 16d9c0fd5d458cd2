"""Checkpoints of training: every array of the state in one safetensors file, written whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..runtime.errors import StorageError
from ..runtime.files import digest, named_leaves, read_arrays, write_atomically

_MARK = "training"


class Checkpoint(NamedTuple):
    """Where a run is."""

    stage: int
    state: Any
    seconds: float
    """Of training so far."""
    rows: list[dict[str, Any]]
    """Its history."""


def write_checkpoint(path: Path, recipe: dict[str, Any], checkpoint: Checkpoint) -> None:
    """Write it, with the recipe it belongs to."""
    from safetensors.numpy import save

    arrays = {name: np.asarray(leaf, order="C") for name, leaf in named_leaves(checkpoint.state)}
    header = {"recipe": recipe, "stage": checkpoint.stage, "seconds": checkpoint.seconds, "rows": checkpoint.rows}
    header["sha256"] = digest(arrays)
    write_atomically(path, save(arrays, metadata={_MARK: json.dumps(header)}))


def read_checkpoint(path: Path, recipe: dict[str, Any], template: Callable[[int], Any]) -> Checkpoint | None:
    """Read it back; None where there is none; an error where it is damaged or of another recipe.

    Args:
      template: of a stage, the state's structure and shapes.
    """
    if not path.is_file():
        return None
    metadata, arrays = read_arrays(path, "a training checkpoint", "; delete it to begin anew")
    if _MARK not in metadata:
        raise StorageError(f"{path} is not a training checkpoint; delete it to begin anew")
    header = json.loads(metadata[_MARK])
    if header.get("sha256") not in (None, digest(arrays)):  # the first versions wrote none
        raise StorageError(f"{path} is damaged: not the arrays that were written; delete it to begin anew")
    if header["recipe"] != json.loads(json.dumps(recipe)):
        raise StorageError(f"{path} is of a run with other settings; give another folder, or delete it to begin anew")
    shapes = template(header["stage"])
    leaves = []
    for name, leaf in named_leaves(shapes):
        array = arrays.get(name)
        if array is None or array.shape != leaf.shape or array.dtype != leaf.dtype:
            raise StorageError(f"{path} is damaged: its array '{name}' is missing or of another shape")
        leaves.append(jnp.asarray(array))
    state = jax.tree.unflatten(jax.tree.structure(shapes), leaves)
    return Checkpoint(header["stage"], state, header["seconds"], header["rows"])
