"""Settings that a user gives become plain values, or an error that names them."""

import json
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
import pytest

from ergodic.runtime.errors import ConfigError
from ergodic.runtime.validation import (
    boolean,
    choice,
    finite_float,
    numbers,
    optional,
    positive_float,
    positive_int,
    settle,
)


@dataclass(frozen=True)
class Settings:
    steps: object
    scale: object
    rates: object
    on: object
    start: object

    def __post_init__(self):
        rules = {"rates": numbers(finite_float, 2), "start": optional(choice("prior", "here"))}
        settle(self, steps=positive_int, scale=positive_float, on=boolean, **rules)


def test_settings_become_plain_python():
    settings = Settings(np.int64(3), jnp.float32(0.5), np.array([1, 2.5]), np.bool_(True), None)
    assert settings == Settings(3, 0.5, (1.0, 2.5), True, None)
    assert json.dumps(vars(settings)) and hash(settings)
    assert [type(value) for value in vars(settings).values()] == [int, float, tuple, bool, type(None)]


@pytest.mark.parametrize(
    ("rule", "value", "message"),
    [
        (positive_int, True, "it must be a whole number, not True"),
        (positive_int, 2.0, "it must be a whole number, not 2.0"),
        (positive_int, 0, "it must be at least 1, not 0"),
        (finite_float, "1", "it must be a number, not '1'"),
        (finite_float, np.nan, "it must be finite, not nan"),
        (positive_float, -1, "it must be above 0, not -1"),
        (boolean, 1, "it must be true or false, not 1"),
        (numbers(positive_float, 2), (1.0,), "it must be 2 numbers, not (1.0,)"),
        (numbers(positive_float), [[1.0]], "it must be a list of numbers, not [[1.0]]"),
        (numbers(positive_float), (1.0, -1.0), "it must be above 0, not -1.0"),
        (choice("a", "b"), "c", "it must be one of 'a', 'b', not 'c'"),
        (optional(positive_int), 0, "it must be at least 1, not 0"),
    ],
)
def test_what_is_wrong_is_named(rule, value, message):
    with pytest.raises(ConfigError) as caught:
        rule(value, "it")
    assert str(caught.value) == message


def test_one_number_may_stand_for_a_list():
    assert numbers(positive_float)(2, "it") == 2.0 and numbers(positive_float)([2, 3], "it") == (2.0, 3.0)
