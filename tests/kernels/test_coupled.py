"""Two chains that are brought together: each moves as if it were alone, and they meet as often as they can."""

import numpy as np
import pytest
from scipy import stats

from ergodic.charts import DenseChart
from ergodic.kernels.coupled import Pairs, land
from ergodic.kernels.ensemble import Ensemble

N = 40_000
COVARIANCE = np.array([[2.0, 1.2], [1.2, 1.0]])
PRECISION = np.linalg.inv(COVARIANCE)
ROOT = np.linalg.cholesky(COVARIANCE) * 0.8  # not quite the right one
CHART = DenseChart(ROOT, np.linalg.inv(ROOT), np.log(np.linalg.det(ROOT)))


def evaluated(x):
    return Ensemble(x, -0.5 * np.einsum("ni,ij,nj->n", x, PRECISION, x), -x @ PRECISION)


def exact(seed):
    return np.random.default_rng(seed).multivariate_normal(np.zeros(2), COVARIANCE, size=N)


@pytest.mark.parametrize("which", [0, 1])
def test_each_of_the_two_has_its_law(which):
    """Started at the target it stays there, wherever the other is. Two tests that fail by chance once in 10^5."""
    others = np.random.default_rng(9).normal(size=(N, 2)) * 2 + 1
    starts = [evaluated(others), evaluated(others)]
    starts[which] = evaluated(exact(1))
    ends = land(Pairs.of(*starts), CHART, 1.1, evaluated, np.random.default_rng(2))
    moved = ends[which].position @ np.linalg.inv(np.linalg.cholesky(COVARIANCE)).T
    assert (ends[which].position != starts[which].position).any(axis=1).mean() > 0.5
    for column in (moved[:, 0], moved[:, 1], (moved[:, 0] + moved[:, 1]) / np.sqrt(2)):
        assert stats.kstest(column, "norm").pvalue > 0.3e-5


def test_proposals_are_equal_as_often_as_two_gaussians_can_be():
    """1 - TV(N(0, 1), N(δ, 1)) = 2 Φ(-δ/2); every step is accepted on a flat density. Fails once in 10^6."""
    apart, chart = 0.7, DenseChart(np.eye(2), np.eye(2), np.zeros(()))
    flat = [
        Ensemble(np.zeros((N, 2)) + np.array([shift, 0.0]), np.zeros(N), np.zeros((N, 2))) for shift in (0.0, apart)
    ]
    step = 0.5
    ends = land(Pairs.of(*flat), chart, step, lambda x: Ensemble(x, np.zeros(len(x)), 0 * x), np.random.default_rng(3))
    wanted = 2 * stats.norm.cdf(-0.5 * apart / step)
    assert abs(ends.met.mean() - wanted) < 4.9 * np.sqrt(wanted * (1 - wanted) / N)
    np.testing.assert_array_equal(ends.first.position[ends.met], ends.second.position[ends.met])
    assert (ends.first.position[~ends.met] != ends.second.position[~ends.met]).any(axis=1).all()


def test_what_has_met_stays_together_to_the_last_bit():
    start, rng = evaluated(exact(4)[:1000].astype(np.float32)), np.random.default_rng(5)
    near = evaluated(start.position + np.float32(0.05))
    pairs = Pairs.of(start, near)
    for _ in range(3):
        before = pairs.met
        pairs = land(pairs, CHART, 1.0, evaluated, rng)
        assert pairs.met[before].all()
    noise = Ensemble(*(np.concatenate([leaf, leaf + 1]) for leaf in pairs.first))
    for state in (pairs, pairs.moved(noise)):
        for ours, theirs in zip(state.first, state.second, strict=True):
            assert ours[state.met].tobytes() == theirs[state.met].tobytes()
    assert pairs.met.mean() > 0.9


def test_what_is_not_finite_is_never_accepted():
    def broken(x):
        found = evaluated(x)
        bad = x[:, 0] > 0
        return Ensemble(x, np.where(bad, np.nan, found.logdensity), np.where(bad[:, None], 0, found.gradient))

    left = -np.abs(exact(6)[:2000])
    pairs = land(Pairs.of(evaluated(left), evaluated(left - 0.1)), CHART, 1.5, broken, np.random.default_rng(7))
    assert all(np.isfinite(each.logdensity).all() and (each.position[:, 0] <= 0).all() for each in pairs[:2])
