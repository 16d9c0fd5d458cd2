"""Checks of plain values that a user gives; each error names the setting and what it should be.

A rule maps (value, name) to the value as plain Python, or raises. `settle` applies rules to a frozen configuration, so
that NumPy scalars, arrays and lists become numbers and tuples that hash, compare and go into JSON.
"""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import TypeVar, cast, overload

import jax
import numpy as np
from numpy.typing import ArrayLike

from .errors import ConfigError, TargetWarning

T = TypeVar("T")
Rule = Callable[[object, str], object]
"""Maps a value and its name to the checked value, or raises a `ConfigError` that has the name in it."""


def settle(config: object, **rules: Rule) -> None:
    """Replace the fields of a frozen dataclass by their checked values.

    A field is checked by the rule that is named for it, else by its type: whole numbers and numbers are positive, and
    may be None where the type says so. Fields of other types are left alone.
    """
    for field in fields(config):  # type: ignore[arg-type]
        rule = rules.get(field.name) or _BY_TYPE.get(str(field.type))
        if rule is not None:
            object.__setattr__(config, field.name, rule(getattr(config, field.name), field.name))


def positive_int(value: object, what: str) -> int:
    """The value as an int, which must be a whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise ConfigError(f"{what} must be a whole number, not {value!r}")
    if value < 1:
        raise ConfigError(f"{what} must be at least 1, not {value}")
    return int(value)


def finite_float(value: object, what: str) -> float:
    """The value as a float, which must be a finite number."""
    number = value.item() if isinstance(value, np.ndarray | jax.Array) and value.ndim == 0 else value
    if isinstance(number, bool) or not isinstance(number, int | float | np.number):
        raise ConfigError(f"{what} must be a number, not {value!r}")
    if not math.isfinite(number):
        raise ConfigError(f"{what} must be finite, not {value}")
    return float(number)


def positive_float(value: object, what: str) -> float:
    """The value as a float, which must be finite and above 0."""
    number = finite_float(value, what)
    if number <= 0:
        raise ConfigError(f"{what} must be above 0, not {value}")
    return number


def boolean(value: object, what: str) -> bool:
    """The value as a bool, which must be True or False and not merely look like it."""
    if not isinstance(value, bool | np.bool_):
        raise ConfigError(f"{what} must be true or false, not {value!r}")
    return bool(value)


@overload
def numbers(rule: Callable[[object, str], T], count: int) -> Callable[[object, str], tuple[T, ...]]: ...
@overload
def numbers(rule: Callable[[object, str], T], count: None = None) -> Callable[[object, str], T | tuple[T, ...]]: ...
def numbers(
    rule: Callable[[object, str], T], count: int | None = None
) -> Callable[[object, str], T | tuple[T, ...]] | Callable[[object, str], tuple[T, ...]]:
    """A rule for a tuple of values that each keep a rule: ``count`` of them or, if that is None, any number or one."""

    def check(value: object, what: str) -> T | tuple[T, ...]:
        values, axes = cast(Sequence[object], value), np.ndim(cast(ArrayLike, value))
        if axes == 0 and count is None:
            return rule(value, what)
        if axes != 1 or (count is not None and len(values) != count):
            raise ConfigError(f"{what} must be {count if count else 'a list of'} numbers, not {value!r}")
        return tuple(rule(v, what) for v in values)

    return check


def optional(rule: Rule) -> Rule:
    """A rule that allows None and whatever the given rule allows."""
    return lambda value, what: None if value is None else rule(value, what)


def one_of(value: object, choices: tuple[str, ...], what: str) -> str:
    """The value as a string, which must be one of a few words."""
    if not isinstance(value, str) or value not in choices:
        raise ConfigError(f"{what} must be one of {', '.join(map(repr, choices))}, not {value!r}")
    return value


def choice(*choices: str) -> Rule:
    """A rule that allows a few words, as `one_of` checks them."""
    return lambda value, what: one_of(value, choices, what)


def check_seed(value: object, what: str) -> int:
    """A whole number that a generator of 32 bits can be started with."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**32:
        raise ConfigError(f"{what} must be a whole number from 0 to 2**32 - 1, not {value!r}")
    return value


def record(kind: Callable[..., T], parts: object, what: str, types: Mapping[str, object] | None = None) -> T:
    """A record made from parts that came from a file; each must have the type that its field says.

    Args:
      kind: a class whose fields are annotated, or with ``types`` any function of them.
      parts: its fields, by name; those that have a default may be missing.
      what: what the record is, for the error.
      types: the annotation of every field.
    """
    types = inspect.get_annotations(cast(type, kind)) if types is None else types
    if not isinstance(parts, dict) or not set(parts) <= set(types):
        raise ConfigError(f"{what} must have the parts {', '.join(types)}")
    for name, value in parts.items():
        if not _KNOWN[str(types[name])](value):
            raise ConfigError(f"{what} has a {name} that is no {types[name]}: {value!r:.40}")
    try:
        listed = {name: tuple(parts[name]) for name in parts if str(types[name]).startswith("tuple")}
        return kind(**{**parts, **listed})
    except TypeError as error:
        raise ConfigError(f"{what} is incomplete: {error}") from error


def _is(*types: type) -> Callable[[object], bool]:
    """Whether a value has exactly one of these types: True is no number."""
    return lambda value: type(value) in types


_KNOWN: Mapping[str, Callable[[object], bool]] = {
    "str": _is(str),
    "int": _is(int),
    "float": _is(int, float),
    "float | None": _is(int, float, type(None)),
    "list": _is(list),
    "dict": _is(dict),
    "dict | None": _is(dict, type(None)),
    "tuple[float, ...]": lambda value: isinstance(value, list | tuple) and all(map(_is(int, float), value)),
}
"""What JSON has for a field of this type."""

_BY_TYPE: Mapping[str, Rule] = {
    "int": positive_int,
    "float": positive_float,
    "bool": boolean,
    "int | None": optional(positive_int),
    "float | None": optional(positive_float),
    "bool | None": optional(boolean),
    "tuple[float, float]": numbers(positive_float, 2),
    "tuple[float, ...]": numbers(positive_float),
}
"""The rule of a setting by its type, as it is written."""


def warn_if_narrowed(given: object, array: jax.Array, what: str) -> None:
    """Warn where an array in double precision became one in single precision, because JAX is not in x64."""
    if isinstance(given, np.ndarray | np.generic) and given.dtype == np.float64 and array.dtype != np.float64:
        warnings.warn(
            f"{what} is float64, but JAX is in single precision, so that positions will be {array.dtype}: begin with "
            'jax.config.update("jax_enable_x64", True), or give a float32 array such as jnp.zeros(...)',
            TargetWarning,
            stacklevel=4,
        )
