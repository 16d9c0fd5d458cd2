"""Inference methods, one a file: a frozen configuration whose ``fit(target, key)`` gives a `Sampler`."""

from __future__ import annotations

import difflib
from typing import Any

from ..errors import ConfigError
from .hei import HEI

METHODS: dict[str, Any] = {method.name: method for method in (HEI,)}


def get(name: str) -> Any:
    """The method's class, by name, whatever the case."""
    for known, method in METHODS.items():
        if known.lower() == name.lower():
            return method
    near = difflib.get_close_matches(name.upper(), METHODS, 1)
    hint = f"; did you mean '{near[0]}'?" if near else ""
    raise ConfigError(f"no method '{name}'{hint} (there are: {', '.join(METHODS)})")


__all__ = ["HEI", "METHODS", "get"]
