"""Checks of plain values that a user gives; each error names the setting and what it should be.

A rule maps (value, name) to the value as plain Python, or raises. `settle` applies rules to a frozen configuration, so
that NumPy scalars, arrays and lists become numbers and tuples that hash, compare and go into JSON.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .errors import ConfigError

Rule = Callable[[Any, str], Any]


def settle(config: Any, **rules: Rule) -> None:
    """Replace each named field of a frozen dataclass by its checked value."""
    for name, rule in rules.items():
        object.__setattr__(config, name, rule(getattr(config, name), name))


def positive_int(value: Any, what: str) -> int:
    """A whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise ConfigError(f"{what} must be a whole number, not {value!r}")
    if value < 1:
        raise ConfigError(f"{what} must be at least 1, not {value}")
    return int(value)


def finite_float(value: Any, what: str) -> float:
    """A number that is neither infinite nor NaN."""
    number = value.item() if getattr(value, "ndim", None) == 0 else value
    if isinstance(number, bool) or not isinstance(number, int | float | np.number):
        raise ConfigError(f"{what} must be a number, not {value!r}")
    if not math.isfinite(number):
        raise ConfigError(f"{what} must be finite, not {value}")
    return float(number)


def positive_float(value: Any, what: str) -> float:
    """A finite number above 0."""
    number = finite_float(value, what)
    if number <= 0:
        raise ConfigError(f"{what} must be above 0, not {value}")
    return number


def boolean(value: Any, what: str) -> bool:
    """True or False, and nothing that merely looks like it."""
    if not isinstance(value, bool | np.bool_):
        raise ConfigError(f"{what} must be true or false, not {value!r}")
    return bool(value)


def numbers(rule: Rule, count: int | None = None) -> Rule:
    """A tuple of values that each keep a rule; of a given length, or one number or any length."""

    def check(value: Any, what: str) -> Any:
        if np.ndim(value) == 0 and count is None:
            return rule(value, what)
        if np.ndim(value) != 1 or (count is not None and len(value) != count):
            raise ConfigError(f"{what} must be {count if count else 'a list of'} numbers, not {value!r}")
        return tuple(rule(v, what) for v in value)

    return check


def optional(rule: Rule) -> Rule:
    """None, or what the rule allows."""
    return lambda value, what: None if value is None else rule(value, what)


def one_of(value: Any, choices: tuple[str, ...], what: str) -> str:
    """One of a few words."""
    if not isinstance(value, str) or value not in choices:
        raise ConfigError(f"{what} must be one of {', '.join(map(repr, choices))}, not {value!r}")
    return value


def choice(*choices: str) -> Rule:
    """The rule of `one_of`."""
    return lambda value, what: one_of(value, choices, what)
