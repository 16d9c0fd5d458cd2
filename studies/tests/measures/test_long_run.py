"""Moments of a long run: their errors, and the file they are kept in."""

import numpy as np

from ergodic_studies.measures.bias import bias_of
from ergodic_studies.measures.long_run import LongRun


def test_moments_and_errors_of_independent_draws(tmp_path):
    """4 x 1,000 draws of N(1, 2²): means within 4.5 standard errors, which are those of 4,000 independent draws."""
    x = 1 + 2 * np.random.default_rng(0).normal(size=(4, 1_000, 2))
    run = LongRun.of(["a", "b"], x)
    assert (np.abs(run.mean - 1) < 4.5 * run.mean_error).all() and (
        np.abs(run.square - 5) < 4.5 * run.square_error
    ).all()
    np.testing.assert_allclose(run.mean_error, 2 / np.sqrt(4_000), rtol=0.2)
    np.testing.assert_allclose(run.square_sd, np.sqrt(2 * 2**4 + 4 * 2**2), rtol=0.1)
    assert run.rhat.max() < 1.01 and run.ess.min() > 2_500
    assert 1 / 8_000 < run.moments(1).noise < 1 / 2_500

    run.write(tmp_path / "run.json", model="toy")
    again = LongRun.read(tmp_path / "run.json")
    assert again.names == ("a", "b")
    assert all(np.allclose(one, other, rtol=1e-6) for one, other in zip(run[1:], again[1:], strict=True))


def test_bias_is_in_units_of_the_variance():
    run = LongRun.of(["a"], np.random.default_rng(1).normal(size=(4, 500, 1)))
    first = bias_of(run.mean + 0.5 * run.sd, run.moments(1))
    assert abs(first.largest - 0.25) < 1e-9 and first.worst == "a"
    assert bias_of(run.square, run.moments(2)).largest == 0
    assert bias_of(np.array([np.nan]), run.moments(2)).largest == np.inf


def test_chains_that_disagree_are_seen():
    x = np.random.default_rng(2).normal(size=(4, 500, 1)) + np.arange(4)[:, None, None]
    assert LongRun.of(["a"], x).rhat.max() > 1.1
