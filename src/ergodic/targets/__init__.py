"""Built-in targets, by name: `get`, `names`. The synthetic and classic ones need nothing; the posteriors need
their data.
"""

from __future__ import annotations

import functools

import jax.numpy as jnp

from ..runtime.errors import ModelError, unknown
from ..target import Target


def names() -> list[str]:
    """The names of the built-in targets, whether or not the data they need are at hand."""
    from .classics import CLASSICS
    from .posteriors import POSTERIORS
    from .synthetic import SYNTHETIC

    return [*SYNTHETIC, *CLASSICS, *POSTERIORS]


def get(name: str) -> Target:
    """The built-in target of that name; the same object every time, so that compiled programs are reused."""
    if name not in names():
        raise ModelError(unknown("built-in target", name, names()))
    return _get(name, str(jnp.result_type(float)))


@functools.cache
def _get(name: str, dtype: str) -> Target:
    """One target for each name and default dtype, since positions keep the dtype that a target was made with."""
    from .classics import CLASSICS
    from .posteriors import POSTERIORS, posterior_target
    from .synthetic import SYNTHETIC

    if name in POSTERIORS:
        return posterior_target(name)
    return SYNTHETIC[name].target(name) if name in SYNTHETIC else CLASSICS[name].target(name)


__all__ = ["get", "names"]
