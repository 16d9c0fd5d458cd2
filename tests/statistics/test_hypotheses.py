"""p-values are p-values: under the hypothesis P(p < α) is at most α, up to noise, also in the tail."""

import numpy as np
import pytest
from scipy import stats

from ergodic.statistics.hypotheses import average, groups, smallest, symmetric, two_averages, two_samples

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("n", [5, 1000])
def test_symmetric_is_exact_for_any_tails(n):
    """20,000 Cauchy columns. Each rate would exceed its bound by 5 errors with probability below 1e-6."""
    p = symmetric(RNG.standard_cauchy((n, 20_000))).p_value
    for level in (0.1, 0.01, 0.001):
        assert np.mean(p < level) < level + 5 * np.sqrt(level / 20_000)


def test_symmetric_has_power():
    assert symmetric(RNG.normal(0.1, 1, (10_000, 1))).p_value[0] < 1e-6
    assert symmetric(np.zeros((10, 1))).p_value[0] == 1


def test_average_is_right_far_into_the_tail_of_a_skewed_mean():
    """χ²₁, n = 1,000, 20,000 columns: both tails within 5 errors of the normal's. The plain t-test is not."""
    values = RNG.chisquare(1, (1_000, 2_000))
    columns = [average(RNG.chisquare(1, (1_000, 2_000)), 1.0) for _ in range(10)]
    z = np.concatenate([column.statistic for column in columns])
    for side in (z, -z):
        rate, expected = np.mean(side > 2.5), stats.norm.sf(2.5)
        assert abs(rate - expected) < 5 * np.sqrt(expected / len(z))
    plain = np.sqrt(1000) * (values.mean(axis=0) - 1) / values.std(axis=0)
    assert np.mean(plain < -2.5) > 1.4 * stats.norm.sf(2.5)  # why the correction is there


def test_two_averages_is_right_for_skewed_values_of_unequal_number():
    """20,000 pairs of exponential samples of 2,000 and 300: both tails within 5 errors of the normal's."""
    z = np.concatenate(
        [
            two_averages(RNG.exponential(size=(2000, 2000)), RNG.exponential(size=(300, 2000))).statistic
            for _ in range(10)
        ]
    )
    for side in (z, -z):
        rate, expected = np.mean(side > 2.5), stats.norm.sf(2.5)
        assert abs(rate - expected) < 5 * np.sqrt(expected / len(z))


def test_constant_columns_are_judged_without_a_division():
    values = np.ones((10, 2))
    assert average(values, np.array([1.0, 0.0])).p_value.tolist() == [1.0, 0.0]
    assert two_averages(values, values[:5]).p_value.tolist() == [1.0, 1.0]


def test_two_samples_is_the_kolmogorov_smirnov_distance():
    x, y = RNG.normal(size=(400, 3)), RNG.normal(0.2, 1, (150, 3))
    found = two_samples(np.sort(x, axis=0), y)
    for column in range(3):
        assert found.statistic[column] == pytest.approx(stats.ks_2samp(x[:, column], y[:, column]).statistic)


def test_two_samples_with_ties():
    x, y = RNG.integers(0, 3, (400, 1)).astype(float), RNG.integers(0, 4, (150, 1)).astype(float)
    assert two_samples(np.sort(x, axis=0), y).statistic[0] == pytest.approx(stats.ks_2samp(x[:, 0], y[:, 0]).statistic)


def test_groups_is_the_analysis_of_variance_on_ranks():
    values = RNG.normal(size=(6, 20, 2))
    values[:, :, 1] += np.arange(6)[:, None]
    found = groups(values)
    ranks = stats.rankdata(values.reshape(-1, 2), axis=0).reshape(values.shape)
    for column in range(2):
        expected = stats.f_oneway(*ranks[:, :, column])
        assert found.statistic[column] == pytest.approx(expected.statistic)
        assert found.p_value[column] == pytest.approx(expected.pvalue)


def test_the_smallest_p_value_pays_for_the_others():
    assert smallest(np.array([0.5, 0.01, 0.2])) == pytest.approx(0.03)
    assert smallest(np.array([0.5, 0.9])) == 1.0
