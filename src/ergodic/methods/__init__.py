"""Inference methods, one a file: a frozen configuration whose ``fit(target, key)`` gives a `Sampler`."""

from __future__ import annotations

from typing import Any

from ..errors import ConfigError, unknown
from .hei import HEI

METHODS: dict[str, Any] = {method.name: method for method in (HEI,)}


def get(name: str) -> Any:
    """The method's class, by name, whatever the case."""
    for known, method in METHODS.items():
        if known.lower() == name.lower():
            return method
    raise ConfigError(unknown("method", name, METHODS))


__all__ = ["HEI", "METHODS", "get"]
