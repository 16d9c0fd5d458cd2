"""Samplers as files: safetensors arrays with a JSON header, written atomically, read with every doubt said aloud.

The header, one JSON document under the metadata key ``ergodic``:

    schema       version of this layout; a newer one than the code knows is refused
    method, config, target (name, dim, dtype, leaves), source, cost, certificate, version, sha256 (of the arrays' bytes)
    members      how many a family has, where it is one; its target is the first member's

Arrays are named by their path: ``params/initial/mean``, ``params/transitions/log_step``, ``record/objective``, ...
A family's have a leading axis of members, but for its schedule.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import jax
import jax.numpy as jnp
import numpy as np

from ._version import __version__
from .certificate import Certificate
from .errors import StorageError
from .family import Family
from .programs import Cost
from .sampler import Sampler
from .target import Target

if TYPE_CHECKING:
    from .samplers import FamilySampler

SCHEMA = 1


def write_atomically(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file whole or not at all: to a temporary neighbour, flushed to disk, then renamed."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def require_writable(path: str | os.PathLike[str]) -> None:
    """Refuse a file that cannot be written, before any work is done for it."""
    path = Path(path)
    if path.is_dir():
        raise StorageError(f"{path} is a directory; give a file name")
    folder = path.absolute().parent
    while not folder.exists():
        folder = folder.parent
    if (
        not folder.is_dir()
        or not os.access(folder, os.W_OK | os.X_OK)
        or (path.exists() and not os.access(path, os.W_OK))
    ):
        raise StorageError(f"{path} cannot be written: no permission in {folder}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror} ({path.parent})") from error


def save(sampler: Sampler, path: str | os.PathLike[str], *, members: int | None = None) -> None:
    """Write a sampler to ``path``; with ``members``, one whose parameters are a family's."""
    from safetensors.numpy import save as to_bytes

    arrays = {f"params/{name}": np.asarray(leaf) for name, leaf in named_leaves(sampler.params)}
    arrays |= {f"record/{name}": np.asarray(column) for name, column in sampler.record.items()}
    arrays = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    header = {
        "schema": SCHEMA,
        "version": __version__,
        "method": sampler.method.name,
        "config": asdict(sampler.method),
        "target": _describe(sampler.target),
        "source": sampler.source,
        "cost": asdict(sampler.cost),
        "certificate": None if sampler.certificate is None else sampler.certificate.to_dict(),
        "sha256": digest(arrays),
        **({} if members is None else {"members": members}),
    }
    write_atomically(path, to_bytes(arrays, metadata={"ergodic": json.dumps(header)}))


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
    from .samplers import FamilySampler

    sampler = _assemble(path, target[0], header, arrays)
    settled, memory = (sampler.record.get(name, np.zeros(0)) for name in ("settled", "memory"))
    if not settled.shape == memory.shape == (given,):
        raise StorageError(f"{path} is damaged: it does not say which members have settled")
    return FamilySampler(target, sampler.method, sampler.params, settled, memory, sampler.cost)


def _assemble(
    path: str | os.PathLike[str], target: Target, header: dict[str, Any], arrays: dict[str, np.ndarray]
) -> Sampler:
    """The sampler that a file holds; of a family, with every member's parameters."""
    from .methods import METHODS

    wanted, found = header["target"], _describe(target)
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


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
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
    missing = {"method", "config", "target", "source", "cost", "sha256"} - set(header)
    if missing:
        raise StorageError(f"{path} is damaged: its header has no {', '.join(sorted(missing))}")
    if digest(arrays) != header["sha256"]:
        raise StorageError(f"{path} is damaged: its arrays do not have the checksum they were written with")
    return header, arrays


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


def _describe(target: Target) -> dict[str, Any]:
    layout = target.layout
    leaves = {path: list(shape) for path, shape in zip(layout.paths, layout.shapes, strict=True)}
    return {"name": target.name, "dim": target.dim, "dtype": str(target.dtype), "leaves": leaves}


def named_leaves(tree: Any) -> list[tuple[str, Any]]:
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
