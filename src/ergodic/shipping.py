"""What travels to where tasks run, and back: the name of a function, arrays, settings, and samplers as files have them.

A log-density is found again by its name, ``module:name``, so it must be a function of a module that can be imported on
the other side: no lambda, no function within another, and nothing of the program that was started itself.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from .api import load
from .draws import Draws, WeightedDraws
from .family import Family
from .family_sampler import FamilySampler
from .initial import DiagonalGaussian
from .methods import METHODS
from .protocols import Familial, Method
from .runtime.drawing import Kind
from .runtime.errors import ConfigError
from .runtime.programs import Cost
from .sampler import Sampler
from .target import Target

_ONE = threading.Lock()
"""A process does one task at a time: XLA has all its cores as it is."""
_known: dict[tuple[object, ...], Family | Target] = {}
"""What earlier tasks were about, whose compiled programs serve those that differ in data."""


class Failed(NamedTuple):
    """A task that came to an error of its own, which it would come to anywhere."""

    why: str

    @staticmethod
    def of(error: Exception) -> Failed:
        """The kind of the error and its first line."""
        return Failed(f"{type(error).__name__}: {(str(error).splitlines() or ['no message'])[0]}")


@dataclass(frozen=True)
class Shipped:
    """What many tasks have in common."""

    function: str
    minibatch: str | None
    members: bool
    """Whether it is a family; a target otherwise."""
    like: PyTree
    name: str
    prior: tuple[np.ndarray, ...] | None
    method: str
    settings: dict[str, PyTree]
    double: bool
    """Whether JAX computes in double precision where it is told to."""

    @staticmethod
    def of(what: Family | Target, method: Method) -> Shipped:
        """What is to be fitted or drawn from, by a method of the library."""
        if method.name not in METHODS:
            raise ConfigError(f"{method.name} cannot run elsewhere: leave out the executor")
        if what.data is None:
            raise ConfigError(f"'{what.name}' has closed over its data, which cannot travel: eg.Target(..., data=...)")
        density, minibatch = what.density, what.density.minibatch
        return Shipped(
            path_of(density.function),
            None if minibatch is None else path_of(minibatch),
            isinstance(what, Family),
            density.layout.unravel(np.zeros(density.layout.dim, density.layout.dtype)),
            str(what.name),
            None if what.prior is None else tuple(np.asarray(leaf) for leaf in what.prior),
            method.name,
            method.settings(),
            bool(jax.config.jax_enable_x64),  # type: ignore[attr-defined]
        )

    def cargo(self, data: PyTree, key: Array) -> tuple[PyTree, np.ndarray, str | None]:
        """One task's data and key, as plain arrays."""
        data = jax.tree_util.tree_map(np.asarray, data)
        if key.dtype == jnp.uint32:
            return data, np.asarray(key), None
        return data, np.asarray(jax.random.key_data(key)), str(jax.random.key_impl(key))

    def unpacked(self, data: PyTree) -> Family | Target:
        """What it is about, with one task's data; programs that were compiled for others of their shapes serve it."""
        kind = (self.function, self.minibatch, self.members, self.name, self.double, str(_shapes((self.like, data))))
        if kind in _known:
            return _known[kind].with_data(data)
        function, minibatch = found(self.function), None if self.minibatch is None else found(self.minibatch)
        prior = None if self.prior is None else DiagonalGaussian(*map(jnp.asarray, self.prior))
        if self.members:
            _known[kind] = Family(function, data, self.like, name=self.name, prior=prior, minibatch=minibatch)
        else:
            _known[kind] = Target(function, self.like, data=data, name=self.name, prior=prior, minibatch=minibatch)
        return _known[kind]


class Columns(NamedTuple):
    """Draws as they travel back."""

    position: np.ndarray
    logdensity: np.ndarray
    stats: dict[str, np.ndarray]
    trace: dict[str, np.ndarray]
    cost: Cost
    kind: Kind

    @staticmethod
    def of(draws: Draws) -> Columns:
        """What is in draws beside their target."""
        return Columns(draws.unconstrained, draws.logdensity, draws.stats, draws.trace, draws.cost, draws.kind)

    def draws(self, sampler: Sampler, key: Array) -> Draws:
        """The draws that they are, of a sampler that is here."""
        noun = WeightedDraws if self.kind is Kind.WEIGHTED else Draws
        facts, (position, logdensity, stats, trace, cost, kind) = sampler.attributes(key, self.kind), self
        return noun(sampler.target, position, logdensity, stats, trace, cost, facts, kind)


def fit_there(shipped: Shipped, data: PyTree, key: np.ndarray, kind: str | None) -> bytes | Failed:
    """Fit a family: a sampler's file."""
    with _ONE, jax.enable_x64(shipped.double):
        try:
            method, family = METHODS[shipped.method](**shipped.settings), shipped.unpacked(data)
            assert isinstance(method, Familial) and isinstance(family, Family)
            return packed(method.fit_family(family, _key(key, kind)))
        except Exception as error:  # it would come to it anywhere
            return Failed.of(error)


def draw_there(
    shipped: Shipped,
    data: PyTree,
    key: np.ndarray,
    kind: str | None,
    file: bytes,
    n: int,
    first: int,
    count: int,
) -> list[Columns] | Failed:
    """Draw from a sampler that came as its file, or from each of a family's, of which the first has this number."""
    with _ONE, jax.enable_x64(shipped.double):
        try:
            sampler = opened_file(file, shipped.unpacked(data))
            each = [sampler] if isinstance(sampler, Sampler) else [sampler[at] for at in range(count)]
            keys = [jax.random.fold_in(_key(key, kind), first + at) for at in range(count)]
            return [Columns.of(one.sample(own, n)) for one, own in zip(each, keys, strict=True)]
        except Exception as error:
            return Failed.of(error)


def packed(sampler: Sampler | FamilySampler) -> bytes:
    """A sampler's file, as bytes."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "sampler.ergodic"
        sampler.save(file)
        return file.read_bytes()


def opened_file(file: Path | bytes, what: Family | Target) -> PyTree:
    """The sampler that a file holds, on disk or in memory."""
    if isinstance(file, Path):
        return load(file, what)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "sampler.ergodic"
        place.write_bytes(file)
        return load(place, what)


def path_of(function: object) -> str:
    """``module:name`` of a function, by which it is found elsewhere; an error where it would not be."""
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "")
    if module in (None, "__main__") or "<" in name or _named(module, name) is not function:
        raise ConfigError(
            f"{name or function!r} cannot travel to an executor: put the log-density, a function of a position and its "
            "data, at the top of a module that can be imported there, and hand it over as it is"
        )
    return f"{module}:{name}"


def found(path: str) -> PyTree:
    """The function that a path names, imported."""
    module, _, name = path.partition(":")
    import_module(module)
    return _named(module, name)


def _named(module: str | None, name: str) -> object:
    thing: object = sys.modules.get(module or "")
    for part in name.split("."):
        thing = vars(thing).get(part) if thing is not None else None
    return thing


def _key(words: np.ndarray, kind: str | None) -> Array:
    return jnp.asarray(words) if kind is None else jax.random.wrap_key_data(jnp.asarray(words), impl=kind)


def _shapes(tree: PyTree) -> PyTree:
    return jax.tree_util.tree_map(lambda leaf: (np.shape(leaf), str(np.asarray(leaf).dtype)), tree)
