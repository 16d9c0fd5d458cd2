"""Built-in targets, by name: `get`, `names`. Others may add theirs: the studies bring the posteriors of the benchmark.

A package adds targets by an entry point of the group ``ergodic.targets``, which names a mapping of names to `Builtin`s.
"""

from __future__ import annotations

import functools
from importlib.metadata import entry_points
from typing import Protocol, runtime_checkable

import jax.numpy as jnp

from ..runtime.errors import ModelError, unknown
from ..runtime.travel import Recipe
from ..target import Target


@runtime_checkable
class Builtin(Protocol):
    """An entry of the registry."""

    @property
    def title(self) -> str:
        """What it is, in a few words."""
        ...

    @property
    def dim(self) -> int:
        """Its dimension, so that it can be listed without its data."""
        ...

    @property
    def collection(self) -> str | None:
        """The collection of data files that it needs, or None."""
        ...

    def target(self, name: str) -> Target:
        """Make it, under that name; a `DataError` where its data are not at hand."""
        ...


@functools.cache
def registry() -> dict[str, Builtin]:
    """Every built-in target by name, the library's own first."""
    from .classics import CLASSICS
    from .synthetic import SYNTHETIC

    found: dict[str, Builtin] = {**SYNTHETIC, **CLASSICS}
    for plugin in entry_points(group="ergodic.targets"):
        found |= plugin.load()
    return found


def names() -> list[str]:
    """The names of the built-in targets, whether or not the data they need are at hand."""
    return list(registry())


def get(name: str) -> Target:
    """The built-in target of that name; the same object every time, so that compiled programs are reused."""
    if name not in registry():
        raise ModelError(f"{unknown('built-in target', name, names())}; others come with the studies of a checkout")
    return _get(name, str(jnp.result_type(float)))


@functools.cache
def _get(name: str, dtype: str) -> Target:
    """One target for each name and default dtype, since positions keep the dtype that a target was made with."""
    target = registry()[name].target(name)
    target.recipe = Recipe.of(get, name)
    return target


__all__ = ["get", "names"]
