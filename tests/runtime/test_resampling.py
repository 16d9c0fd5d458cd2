"""Draws chosen from weighted runs: how many runs, how often each comes, what they are worth, the bias of a block."""

import jax
import numpy as np
import pytest

from ergodic.runtime import resampling
from ergodic.runtime.drawing import Batch
from ergodic.runtime.resampling import WORTH, Blocks, resampled, shares


def chunk(seed, size=2048, spread=1.0, dim=1):
    """Runs whose log-weights are N(0, spread²), and whose first coordinate is the log-weight."""
    log_weight = spread * np.random.default_rng(seed).normal(size=size)
    position = np.repeat(log_weight[:, None], dim, axis=1)
    return Batch(position, -log_weight, {"log_weight": log_weight, "run": np.arange(size)}, {"a": np.ones(3) * seed})


def test_each_run_comes_as_often_as_its_share_says():
    runs = chunk(0, size=4)
    runs.stats["log_weight"] = np.log([0.5, 0.25, 0.125, 0.125])
    for seed in range(5):
        made = resampled(runs, 8, jax.random.key(seed))
        chosen = made.stats["run"]
        np.testing.assert_array_equal(np.bincount(chosen), [4, 2, 1, 1])
        np.testing.assert_array_equal(made.stats["copies"], np.array([4, 2, 1, 1])[chosen])
        np.testing.assert_array_equal(made.position, runs.position[chosen])
    assert not np.array_equal(chosen, np.sort(chosen))  # the order is random


def test_weights_that_are_no_numbers_count_nothing():
    np.testing.assert_array_equal(shares(np.array([np.nan, 0.0, -np.inf, np.inf, 0.0])), [0, 0.5, 0, 0, 0.5])
    np.testing.assert_array_equal(shares(np.full(4, -np.inf)), np.full(4, 0.25))


@pytest.mark.parametrize("spread", [0.0, 0.5, 1.0])
def test_there_are_enough_runs_for_draws_to_be_worth_what_they_should(spread):
    """Nine tenths, up to what 2,048 log-weights tell of their tail: within 0.06 (fixed seeds)."""
    first = chunk(0, spread=spread)
    blocks = Blocks.of(first, 4000)
    assert (blocks.runs == 4096) if spread == 0 else (blocks.runs > 4000)
    runs = (chunk(seed, spread=spread) for seed in range(1, 1 + blocks.chunks * -(-4000 // blocks.draws)))
    made = list(blocks.batches(runs, jax.random.key(0)))
    often = np.concatenate([batch.stats["copies"] for batch in made])
    assert len(often) >= 4000 and 1 / often.mean() > WORTH - 0.06


def test_blocks_are_bounded_whole_and_depend_on_their_index_alone():
    first = chunk(0, spread=1.5, dim=3)
    for n in (1, 100, 5000, 123_457):
        blocks = Blocks.of(first, n)
        assert blocks.runs <= resampling._RUNS + 2048 and n <= -(-n // blocks.draws) * blocks.draws < n + n // 2 + 2
    blocks = Blocks.of(first, 1 << 17, whole=True)
    assert (1 << 17) % blocks.draws == 0 and blocks.runs <= resampling._RUNS + 2048
    key, runs = jax.random.key(3), [chunk(seed, dim=3) for seed in range(2 * blocks.chunks)]
    _, second = blocks.batches(iter(runs), key)
    (again,) = blocks.batches(iter(runs[blocks.chunks :]), key, start=1)
    np.testing.assert_array_equal(second.position, again.position)
    np.testing.assert_array_equal(second.trace["a"], np.full(3, np.mean(range(blocks.chunks, 2 * blocks.chunks))))
    assert set(second.stats) == {"run", "copies"}


def test_the_bias_of_a_block_is_what_the_docstring_says():
    """f = log w, the worst function: E[f] is off by -sd[log w]²·e^(sd²)/R = -e/64; |z| < 4.5, failure rate 7e-6."""
    means = []
    for seed in range(6000):
        f = np.random.default_rng(seed).normal(size=64)
        means.append(shares(f) @ f)
    error = np.std(means) / np.sqrt(len(means))
    assert abs(np.mean(means) - (1 - np.e / 64)) < 4.5 * error + 0.01  # 0.01: the next order, 1/R²
    assert np.mean(means) < 1 - 4.5 * error
