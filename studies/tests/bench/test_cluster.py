"""What many devices would do: the simulation against cases that can be told without it."""

from dataclasses import replace

import numpy as np
import pytest

from ergodic_studies.bench.cluster import PRESETS, makespan, measured, simulated

STEADY = replace(PRESETS["cpu"], parts=100, part_seconds=(10.0,), spread=0.0, stragglers=0.0, restart=0.0, lifetime=1e9)


def test_without_failures_the_last_device_ends_after_its_parts():
    """100 parts on 8 devices: 13 for the busiest; on more devices than parts, one each."""
    rng = np.random.default_rng(0)
    assert makespan(1, 10.0, STEADY, rng) == (1000.0, 0)
    assert makespan(8, 10.0, STEADY, rng) == (130.0, 0)
    assert makespan(1000, 10.0, STEADY, rng) == (10.0, 0)
    assert makespan(8, 10.0, replace(STEADY, restart=60.0), rng) == (190.0, 0)


def test_failures_cost_the_part_that_was_made():
    """A device that fails at rate 1/T ends C parts of t seconds after C T (exp(t/T) - 1) seconds on average.

    400 runs of 100 parts: the mean is within 5 standard errors, which a right simulation misses with probability 1e-6.
    """
    hard, rng = replace(STEADY, lifetime=20 / 3600), np.random.default_rng(1)
    found = np.array([makespan(1, 10.0, hard, rng) for _ in range(400)])
    expected = 100 * 20 * (np.exp(10 / 20) - 1)
    assert abs(found[:, 0].mean() - expected) < 5 * found[:, 0].std() / 20
    assert found[:, 1].mean() == pytest.approx(100 * (np.exp(10 / 20) - 1), rel=0.1)


def test_stragglers_decide_when_the_last_part_is_there():
    slow = replace(STEADY, devices=(1, 10), stragglers=0.3, repeats=50)
    one, ten = simulated(slow)
    assert ten["efficiency"] < 0.8 and 0.8 < one["efficiency"] < 1.25


@pytest.mark.slow
def test_real_processes_fill_the_same_store(tmp_path):
    found = measured(tmp_path, PRESETS["smoke"], lambda text: None)
    assert [value for name, value in found.items() if "same files" in name] == [True] * 4
    assert found["kills"] == 1
