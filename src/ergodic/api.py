"""The verbs: fit a method to a target, and load a sampler that was saved. (Of many targets: many.py.)"""

from __future__ import annotations

import math
import os
import warnings
from functools import partial
from types import FunctionType, ModuleType
from typing import overload

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .certificate import Certificate, Witness
from .charts.coordinates import Coordinates
from .charts.telling import ToldChart
from .diagnostics.distance import nearer
from .draws import Draws
from .family import Family
from .family_sampler import FamilySampler
from .methods import GEI, METHODS
from .methods.in_chart import SUFFIX, InChart, in_chart
from .methods.started import fit_from
from .protocols import Budgeted, Coupled, Familial, Method
from .runtime.budget import Budget
from .runtime.errors import ConfigError, DrawsWarning, StorageError
from .runtime.files import named_leaves
from .runtime.programs import Cost
from .runtime.sampler_files import Header, read
from .runtime.validation import positive_float
from .runtime.validation import record as checked
from .sampler import Sampler, certifying, describe, require_key
from .target import Target

__all__ = ["fit", "load"]


def fit(
    target: Target,
    key: Array,
    method: Method | None = None,
    *,
    chart: Coordinates | ToldChart | None = None,
    max_seconds: float | None = None,
    max_gradients: float | None = None,
    distance: float | None = None,
    start: Sampler | None = None,
    progress: bool | None = None,
) -> Sampler:
    """Tune a method to a target, and certify it. The default method, `GEI`, needs no settings; `HEI` is the paper's.

    Args:
      target: what to sample.
      key: a JAX random key.
      method: with its settings; None: ``GEI()``.
      chart: the chart of another sampler, ``sampler.chart``, in whose coordinates a method such as `HEI` is to run; its
        name then ends with "in a chart". None: the target's own coordinates. `GEI` learns its own.
      max_seconds: how long it may take, compiling and certifying included, to within one step of all particles. The
        best chain so far is returned, certified as far as that went.
      max_gradients: how many gradients it may spend, likewise.
      distance: the total variation from the target that draws may have at most: the chain is made as long as its bound
        asks (`Certificate.bound`, 95 % confidence). Where it is not reached, the nearest chain is returned, and its
        certificate says so.
      start: a sampler of a posterior that is near, such as one of other data: `GEI` starts from its P0.
      progress: whether progress is shown; None: where there is a terminal or a notebook.

    Returns:
      A `Sampler`. ``sampler.sample(key, n)`` gives n draws, ``sampler.certificate`` says whether there is evidence
      against them, ``sampler.draws`` are those that were certified, and ``sampler.save(path)`` keeps it.

    Example:
      >>> target = eg.Target(lambda x: -0.5 * jnp.sum(x**2), like=jnp.zeros(2))
      >>> sampler = eg.fit(target, jax.random.key(0))
      >>> sampler.certificate.passed
      True
      >>> draws = sampler.sample(jax.random.key(1), 10_000)
      >>> print(draws.summary())
    """
    if not isinstance(target, Target):
        raise ConfigError(f"fit needs a Target, not a {type(target).__name__}; {wrapping(target)}")
    require_precision(target.dtype)
    if method is None:
        method = start.method if start is not None and isinstance(start.method, GEI) else GEI()
    if not isinstance(method, Method):
        raise ConfigError(f"method must be a method with its settings, such as eg.HEI(), not {method!r}")
    if start is not None:
        if not isinstance(method, GEI) or chart is not None or distance is not None:
            raise ConfigError("start is for GEI alone, without chart and distance: it learns its own chart anew")
        budget = _budget(max_seconds, max_gradients)
        return fit_from(start, method, target, require_key(key), progress=progress, budget=budget)
    if chart is not None:
        method = in_chart(method)
    if distance is not None:
        return _within(distance, method, target, require_key(key), progress, _budget(max_seconds, max_gradients))
    if max_seconds is None and max_gradients is None:
        if isinstance(method, InChart):
            return method.fit(target, require_key(key), progress=progress, chart=chart)
        return method.fit(target, require_key(key), progress=progress)
    if not isinstance(method, Budgeted):
        raise ConfigError(f"{method.name} keeps no budget: leave out max_seconds and max_gradients, or use eg.GEI()")
    return method.fit(target, require_key(key), progress=progress, budget=_budget(max_seconds, max_gradients))


def require_precision(dtype: np.dtype) -> None:
    """Refuse positions of half precision: log π* needs differences of less than a nat."""
    if dtype.itemsize < 4:
        raise ConfigError(f"positions must be float32 or float64, not {dtype}: declare `like` as one of them")


def wrapping(thing: object) -> str:
    """How to make a target of something that is none: by what it, or what its code refers to, belongs to."""
    language = next((each for each in ("numpyro", "pymc") if each in _belongs_to(thing)), None)
    if language is not None:
        data = "" if language == "pymc" else ", *its arguments"
        return f"it is a model: eg.from_{language}(model{data})"
    return "wrap the log-density: eg.Target(f, like=...)"


def _belongs_to(thing: object) -> set[str]:
    """The packages that something is of or, a function, that its code names."""
    inner = thing.func if isinstance(thing, partial) else thing
    if not isinstance(inner, FunctionType):
        return {kind.__module__.partition(".")[0] for kind in type(inner).__mro__}
    named = [inner.__globals__.get(name) for name in inner.__code__.co_names]
    modules = [each.__name__ if isinstance(each, ModuleType) else getattr(each, "__module__", "") for each in named]
    return {str(module).partition(".")[0] for module in [*modules, *inner.__code__.co_names]}


def _within(
    distance: float, method: Method, target: Target, key: Array, progress: bool | None, budget: Budget
) -> Sampler:
    if not (isinstance(method, Coupled) and isinstance(method, Budgeted)):
        raise ConfigError(f"{method.name} has no chains that can be coupled: leave out `distance`, or use eg.GEI()")
    if not 0 < distance < 1:
        raise ConfigError(f"distance is a total variation between 0 and 1, not {distance!r}")
    return nearer(method, method.fit(target, key, progress=progress, budget=budget), key, distance, budget)


def _budget(max_seconds: float | None, max_gradients: float | None) -> Budget:
    given = {"max_seconds": max_seconds, "max_gradients": max_gradients}
    return Budget(*(math.inf if limit is None else positive_float(limit, name) for name, limit in given.items()))


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
    if not isinstance(sampler.method, Familial):
        raise StorageError(f"{path} is damaged: {sampler.method.name} has no families")
    return FamilySampler(target, sampler.method, sampler.params, settled, memory, sampler.cost)


def _assemble(path: str | os.PathLike[str], target: Target, header: Header, arrays: dict[str, np.ndarray]) -> Sampler:
    """The sampler that a file holds; of a family, with every member's parameters."""
    wanted, found = header["target"], describe(target)
    for field in ("leaves", "dtype"):
        if wanted.get(field) != found[field]:
            raise StorageError(
                f"{path} was fitted to a target with {field} {wanted.get(field)!s:.200}, but '{target.name}' has "
                f"{found[field]}"
            )
    name = header["method"].removesuffix(SUFFIX)
    if name not in METHODS:
        raise StorageError(
            f"{path} holds a sampler of the method {header['method']!r}, which this version does not know"
        )
    try:
        method = METHODS[name](**header["config"])
        if name != header["method"]:
            method = in_chart(method)
        template = method.template(target, _shapes(arrays), header.get("members"))
    except StorageError:
        raise
    except Exception as error:  # settings come from a file: whatever a method makes of them
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
    record, extra = _below(arrays, "record/"), _below(arrays, "extra/")
    try:
        cost = checked(Cost, header["cost"], "its cost")
        kept = header.get("certificate")
        certificate = None if kept is None else Certificate.from_dict(kept)
    except ConfigError as error:
        raise StorageError(f"{path} is damaged: {error}") from error
    if certificate is not None and not _is_about(target, _below(arrays, "about/")):
        words = f"{path} has no certificate for '{target.name}': it was made for another log-density; certify it again"
        warnings.warn(words, DrawsWarning, stacklevel=3)
        certificate = None
    sampler = Sampler(target, method, params, record, cost, header["source"], certificate, extra)
    sampler.draws = _kept(path, sampler, _below(arrays, "draws/")) if certificate is not None else None
    return sampler


def _is_about(target: Target, arrays: dict[str, np.ndarray]) -> bool:
    """Whether the density that a certificate was made for is the target's, at the points that the file has."""
    if set(arrays) != set(Witness._fields):
        return False
    then = Witness(**arrays)
    points = then.logdensity.shape
    if then.position.shape != (*points, target.dim) or len(points) != 1 or not points[0]:
        return False
    if {leaf.dtype for leaf in then} != {target.dtype}:
        return False
    return then.agrees(Witness.at(target, then.position))


def _kept(path: str | os.PathLike[str], sampler: Sampler, columns: dict[str, np.ndarray]) -> Draws | None:
    """The certified draws of a file."""
    if not columns:
        return None
    position, logdensity, stats = columns.get("position"), columns.get("logdensity"), _below(columns, "stats/")
    shape = () if logdensity is None else logdensity.shape
    if position is None or logdensity is None or len(shape) != 1 or position.shape != (*shape, sampler.target.dim):
        raise StorageError(f"{path} is damaged: its certified draws are not {sampler.target.dim} values each")
    if any(column.shape != shape for column in stats.values()):
        raise StorageError(f"{path} is damaged: its certified draws have statistics of another length")
    facts = sampler.attributes(jax.random.key(0)) | {"seed": "certificate"}
    return Draws(sampler.target, position, logdensity, stats, attributes=facts, kind=sampler.drawn(False))


def _below(arrays: dict[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """The arrays whose names begin with a prefix, without it."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _shapes(arrays: dict[str, np.ndarray]) -> dict[str, tuple[int, ...]]:
    return {name: array.shape for name, array in _below(arrays, "params/").items()}


@certifying.provide
def _certify(
    sampler: Sampler,
    key: Array,
    *,
    draws: int | None,
    level: float,
    evidence: bool,
    budget: float | Budget | None,
    distance: float | None,
) -> Certificate:
    from .diagnostics.certify import certify  # drawing does without it

    return certify(sampler, key, draws=draws, level=level, evidence=evidence, budget=budget, distance=distance)
