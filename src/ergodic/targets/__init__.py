"""Built-in targets, by name: `get`, `names`."""

from __future__ import annotations

import functools

from ..errors import ModelError, unknown
from ..target import Target


def names() -> list[str]:
    """The names of the built-in targets."""
    from .synthetic import SYNTHETIC

    return list(SYNTHETIC)


@functools.cache
def get(name: str) -> Target:
    """The built-in target of that name; the same object every time, so that compiled programs are reused."""
    from .synthetic import SYNTHETIC

    if name not in SYNTHETIC:
        raise ModelError(unknown("built-in target", name, names()))
    return SYNTHETIC[name].target(name)


__all__ = ["get", "names"]
