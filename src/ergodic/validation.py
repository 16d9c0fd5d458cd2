"""Checks of plain numbers that a user gives; each error names the setting and what it should be."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .errors import ConfigError


def positive_int(value: Any, what: str) -> int:
    """A whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise ConfigError(f"{what} must be a whole number, not {value!r}")
    if value < 1:
        raise ConfigError(f"{what} must be at least 1, not {value}")
    return int(value)


def positive_float(value: Any, what: str) -> float:
    """A finite number above 0."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise ConfigError(f"{what} must be a number, not {value!r}")
    if not (math.isfinite(value) and value > 0):
        raise ConfigError(f"{what} must be a finite number above 0, not {value}")
    return float(value)


def one_of(value: Any, choices: tuple[str, ...], what: str) -> str:
    """One of a few words."""
    if value not in choices:
        raise ConfigError(f"{what} must be one of {', '.join(map(repr, choices))}, not {value!r}")
    return str(value)
