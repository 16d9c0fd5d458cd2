"""Where a target comes from: MODEL on the command line is a built-in name, or ``path/to/file.py:object``.

The object is a Target, a PyMC model, a NumPyro model that needs no arguments, or with --dim a log-density function. A
function that can be called with no argument is taken for a NumPyro model: it cannot be a log-density.
"""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType

import jax.numpy as jnp

from .. import targets
from ..runtime import trust
from ..runtime.errors import ModelError, TargetError
from ..target import Target
from .numpyro import from_numpyro
from .pymc import from_pymc


def resolve(model: str, dim: int | None = None) -> tuple[Target, dict[str, str]]:
    """Find the target that MODEL names.

    Args:
        model: The user's words: a built-in target's name, or ``path/to/file.py:object``.
        dim: The length of the position, where the object is a plain log-density function.

    Returns:
        The target, and its source: what a sampler's file keeps so that the target can be found again.
    """
    if ".py" not in model and ":" not in model:
        _no_dim(dim, model)
        return targets.get(model), {"builtin": model}
    path, _, name = model.partition(":")
    file = Path(path)
    if not file.is_file():
        what = "that is a directory" if file.is_dir() else "there is no such file"
        raise ModelError(f"{path}: {what} (MODEL is a built-in name or path/to/file.py:object)")
    module = _load(file)
    name = name or _only_target(module, file)
    if name not in vars(module):
        raise ModelError(f"{path} has no '{name}' (it has: {', '.join(_candidates(module)) or 'nothing usable'})")
    source = {"file": str(file.resolve()), "object": name, "sha256": _hash(file)} | ({"dim": str(dim)} if dim else {})
    target = _as_target(vars(module)[name], model, name, dim)
    trust.confirm(_named(file, name, dim))
    return target, source


def resolve_source(source: Mapping[str, object]) -> Target:
    """The target that a saved sampler was fitted to: a built-in one, or one that the user has named before.

    A file must not decide what code runs. So a path that it names is used only where the user has named it on the
    command line of this machine, with the same object, and its text is still the same (`runtime/trust.py`).
    """
    if "builtin" in source:
        return targets.get(str(source["builtin"]))
    if "file" not in source:
        raise ModelError("the file does not say where its target is defined; name it with --model file.py:object")
    file, name = Path(str(source["file"])), str(source.get("object"))
    words, dim = f"{file}:{name}", source.get("dim")
    if not file.is_file():
        raise ModelError(f"the target's file {file} is gone; name it with --model file.py:object")
    if _hash(file) != source.get("sha256"):
        raise ModelError(f"{file} has changed since the sampler was fitted; --model {words} takes it as it is now")
    if not trust.confirmed(_named(file, name, dim)):
        raise ModelError(
            f"the sampler's file says that its target is {words}, which you have not used here before; "
            f"if you trust that code, --model {words} runs it"
        )
    return resolve(words, None if dim is None else int(str(dim)))[0]


def _named(file: Path, name: str, dim: object) -> tuple[str, ...]:
    """What the user has confirmed by naming it: which object of which file with which text, and its dimension."""
    return str(file.resolve()), _hash(file), name, str(dim or "")


def _as_target(thing: object, model: str, name: str, dim: int | None) -> Target:
    if isinstance(thing, Target):
        _no_dim(dim, model)
        return thing
    if _is_pymc(thing):
        _no_dim(dim, model)
        return from_pymc(thing, name=name)
    if not callable(thing):
        raise ModelError(
            f"{model} is a {type(thing).__name__}; it must be an ergodic.Target, a PyMC or NumPyro model, "
            "or a log-density function"
        )
    if dim is None and _needs_nothing(thing):
        try:
            return from_numpyro(thing, name=name)
        except TargetError as error:
            raise TargetError(
                f"{error} ({model} needs no argument, so it was taken for a NumPyro model; a log-density needs --dim N)"
            ) from error
    if dim is None:
        raise ModelError(
            f"{model} is a function, which does not say its position's shape: add --dim N for a vector of N values, "
            "or wrap it in the file: target = ergodic.Target(function, like=...), or, for a NumPyro model, "
            "target = ergodic.from_numpyro(model, data)"
        )
    if dim < 1:
        raise ModelError(f"--dim must be at least 1, not {dim}")
    return Target(thing, like=jnp.zeros(dim), name=name)


def _is_pymc(thing: object) -> bool:
    """Whether this is a PyMC model; one can only be there if PyMC was imported."""
    pymc = sys.modules.get("pymc")
    return pymc is not None and isinstance(thing, pymc.Model)


def _needs_nothing(function: Callable) -> bool:
    """Whether a function can be called without any argument."""
    try:
        inspect.signature(function).bind()
    except (TypeError, ValueError):
        return False
    return True


def _no_dim(dim: int | None, model: str) -> None:
    if dim is not None:
        raise ModelError(f"--dim is for plain functions; {model} knows its own dimension")


def _load(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"ergodic_model_{file.stem}", file)
    if spec is None or spec.loader is None:
        raise ModelError(f"{file} cannot be imported as Python")
    module = importlib.util.module_from_spec(spec)
    folder = str(file.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)  # the file may import its neighbours, now or later
    sys.modules[module.__name__] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    except TargetError:
        raise
    except (Exception, SystemExit) as error:
        raise ModelError(f"{file} raised {type(error).__name__} while it was imported: {error}") from error
    return module


def _candidates(module: ModuleType) -> list[str]:
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (isinstance(value, Target) or _is_pymc(value) or inspect.getmodule(value) is module)
    ]


def _only_target(module: ModuleType, file: Path) -> str:
    """The name of the only Target of a file or, where there is none, of its only PyMC model."""
    found = [name for name, value in vars(module).items() if isinstance(value, Target)]
    found = found or [name for name, value in vars(module).items() if _is_pymc(value)]
    if len(found) == 1:
        return found[0]
    names = ", ".join(_candidates(module)) or "nothing usable"
    raise ModelError(f"say which object of {file} to use, as {file}:NAME (it has: {names})")


def _hash(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
