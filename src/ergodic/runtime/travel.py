"""How things that hold functions travel to other processes: by the call that made them, which is made again there.

A log-density is code, and pickle knows code by its place alone: a function at the top of a module. So a target is
pickled as a `Recipe`, such as ``from_numpyro(model, y)`` or ``Target(logdensity, like)``. Where a function in it has no
such place (a lambda, a function inside of another), cloudpickle takes it along by value, if it is installed.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeVar

import jax
import numpy as np

from .errors import StorageError
from .extras import installed

Some = TypeVar("Some", bound="Travels")


@dataclass(frozen=True)
class Recipe:
    """A call that makes something: ``function(*args, **kwargs)``, with JAX in double precision or not."""

    function: Callable
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    double: bool

    @staticmethod
    def of(function: Callable, *args: object, **kwargs: object) -> Recipe:
        """The call, in the precision that JAX has now."""
        return Recipe(function, args, kwargs, _double())

    def made(self) -> Any:
        """What the call makes, in the precision that it had; single precision also where JAX is in double."""
        if self.double and not _double():
            raise StorageError(
                "what was made in double precision cannot come to a process where JAX is not in it: begin it with "
                'jax.config.update("jax_enable_x64", True)'
            )
        with jax.enable_x64(self.double):
            return self.function(*self.args, **self.kwargs)


class Travels:
    """What is pickled by the call that made it, and is never copied: it does not change.

    Attributes:
      recipe: that call; its own construction, unless a function that makes it says that it was called.
      name: what to call it where it cannot travel.
    """

    recipe: Recipe
    name: str

    def __new__(cls: type[Some], *args: object, **kwargs: object) -> Some:
        """A new one, which remembers the call that makes it."""
        new = super().__new__(cls)
        new.recipe = Recipe.of(cls, *args, **kwargs)
        return new

    def __reduce__(self) -> tuple[Callable, tuple[Recipe | bytes]]:
        try:
            pickle.dumps(self.recipe)
        except Exception as error:  # pickle has no error of its own for what it cannot do
            if not installed("cloudpickle"):
                raise StorageError(
                    f"'{self.name}' cannot be pickled ({error}): define its functions at the top of a module, or "
                    "install cloudpickle (pip install 'ergodic-inference[parallel]'); a sampler also goes without its "
                    "target, by sampler.save(path) and eg.load(path, target)"
                ) from error
            return _remade, (import_module("cloudpickle").dumps(self.recipe),)
        return _remade, (self.recipe,)

    def another(self: Some, recipe: Recipe) -> Some:
        """Another one with all that this has, to be changed by the function that makes it, whose call this is."""
        new = object.__new__(type(self))
        vars(new).update(vars(self), recipe=recipe)
        return new

    def __copy__(self: Some) -> Some:
        return self

    def __deepcopy__(self: Some, memo: dict[int, object]) -> Some:
        return self


def _remade(recipe: Recipe | bytes) -> Any:
    return (pickle.loads(recipe) if isinstance(recipe, bytes) else recipe).made()


def _double() -> bool:
    return bool(jax.dtypes.canonicalize_dtype(float) == np.dtype(np.float64))
