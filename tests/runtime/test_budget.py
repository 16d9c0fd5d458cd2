"""Budgets: what is left, what they afford, and how they end."""

import signal

import jax
import pytest

import ergodic as eg
from ergodic.runtime.budget import Budget


def test_without_limits_it_is_never_over():
    budget = Budget()
    budget.spend(10**12)
    assert not budget.over() and budget.affords(512) == 2**30


def test_gradients_are_counted_and_leapfrogs_follow_from_them():
    budget = Budget(gradients=1_000.0)
    assert budget.affords(100) == 10
    budget.spend(900)
    assert budget.affords(100) == 1 and not budget.over()
    budget.spend(100)
    assert budget.over() and budget.affords(100) == 1


def test_seconds_limit_leapfrogs_once_their_pace_is_known():
    budget = Budget(seconds=100.0)
    assert budget.affords(512) == 2**30
    budget.pace = 10.0
    assert budget.affords(512) == 9


@pytest.mark.parametrize("wrong", [0, -1.0, True, "1"])
def test_what_is_not_a_positive_number_is_refused(wrong):
    with pytest.raises(eg.ConfigError, match="max_seconds"):
        eg.fit(eg.targets.get("gaussian"), jax.random.key(0), max_seconds=wrong)


def test_a_first_interrupt_ends_it_and_a_second_is_as_ever(ctrl_c):
    budget = Budget()
    with budget.interruptible():
        signal.raise_signal(signal.SIGINT)
        assert budget.over()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
