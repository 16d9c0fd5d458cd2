"""The verbs: fit a method to a target or to a family, and load a sampler that was saved."""

from __future__ import annotations

import os
from typing import Any, overload

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .certificate import Certificate
from .family import Family
from .family_sampler import FamilySampler, fit_many
from .methods import GEI, METHODS
from .runtime.errors import ConfigError, StorageError
from .runtime.files import named_leaves
from .runtime.programs import Cost
from .runtime.sampler_files import read
from .sampler import Sampler, describe, require_key
from .target import Target

__all__ = ["fit", "fit_many", "load"]


def fit(target: Target, key: Array, method: Any = None, *, progress: bool | None = None) -> Sampler:
    """Tune a method to a target. The default method is `GEI`, which needs no settings; `HEI` is the paper's."""
    if not isinstance(target, Target):
        raise ConfigError(
            f"fit needs a Target, not a {type(target).__name__}; wrap the log-density: eg.Target(f, like=...)"
        )
    if method is None:
        method = GEI()
    if isinstance(method, type) or not hasattr(method, "fit"):
        raise ConfigError(f"method must be a method with its settings, such as eg.HEI(), not {method!r}")
    return method.fit(target, require_key(key), progress=progress)


@overload
def load(path: str | os.PathLike[str], target: Target) -> Sampler: ...
@overload
def load(path: str | os.PathLike[str], target: Family) -> FamilySampler: ...
def load(path: str | os.PathLike[str], target: Target | Family) -> Sampler | FamilySampler:
    """Read a sampler back, for a target, or a family, of the same shape. The log-density itself is not in the file."""
    if not isinstance(target, Target | Family):
        raise StorageError(f"load needs the Target or Family that {path} was fitted to, not a {type(target).__name__}")
    header, arrays = read(path)
    saved, given = header.get("members"), len(target) if isinstance(target, Family) else None
    if saved != given:
        of = {count: "one target" if count is None else f"a family of {count}" for count in (saved, given)}
        raise StorageError(f"{path} was fitted to {of[saved]}, but '{target.name}' is {of[given]}")
    if not isinstance(target, Family):
        return _assemble(path, target, header, arrays)
    sampler = _assemble(path, target[0], header, arrays)
    settled, memory = (sampler.record.get(name, np.zeros(0)) for name in ("settled", "memory"))
    if not settled.shape == memory.shape == (given,):
        raise StorageError(f"{path} is damaged: it does not say which members have settled")
    return FamilySampler(target, sampler.method, sampler.params, settled, memory, sampler.cost)


def _assemble(
    path: str | os.PathLike[str], target: Target, header: dict[str, Any], arrays: dict[str, np.ndarray]
) -> Sampler:
    """The sampler that a file holds; of a family, with every member's parameters."""
    wanted, found = header["target"], describe(target)
    for field in ("leaves", "dtype"):
        if wanted[field] != found[field]:
            raise StorageError(
                f"{path} was fitted to a target with {field} {wanted[field]}, but '{target.name}' has {found[field]}"
            )
    if header["method"] not in METHODS:
        raise StorageError(
            f"{path} holds a sampler of the method {header['method']!r}, which this version does not know"
        )
    try:
        method = METHODS[header["method"]](**header["config"])
        if hasattr(method, "shapes"):  # tuning chose them
            found_shapes = {name.removeprefix("params/"): array.shape for name, array in arrays.items()}
            template = method.shapes(target, found_shapes, header.get("members"))
        else:
            template = jax.eval_shape(lambda key: method.begin(target, key), jax.random.key(0))
    except (TypeError, ValueError) as error:
        raise StorageError(f"{path} has settings that {header['method']} does not accept: {error}") from error
    leaves = []
    for name, leaf in named_leaves(template):
        array = arrays.get(f"params/{name}")
        if array is None:
            raise StorageError(f"{path} is damaged: it has no array 'params/{name}'")
        if array.shape != leaf.shape or array.dtype != leaf.dtype:
            raise StorageError(
                f"{path} is damaged: 'params/{name}' is {array.dtype}{list(array.shape)}, "
                f"expected {leaf.dtype}{list(leaf.shape)}"
            )
        leaves.append(jnp.asarray(array))
    params = jax.tree_util.tree_unflatten(jax.tree_util.tree_structure(template), leaves)
    record = {name.removeprefix("record/"): array for name, array in arrays.items() if name.startswith("record/")}
    kept = header.get("certificate")
    certificate = None if kept is None else Certificate.from_dict(kept)
    return Sampler(target, method, params, record, Cost(**header["cost"]), header["source"], certificate)
