"""Points on lines through draws: chances that hold for any target and any lines, and a neck that was never entered."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from ergodic.charts import DenseChart
from ergodic.diagnostics.beyond import Beyond, beyond, counted
from ergodic.diagnostics.lines import MOST, Lines, Sets
from ergodic.tuning.forgetting import Particles


def dense(root):
    return DenseChart(root, np.linalg.inv(root), np.linalg.slogdet(root)[1])


def lines_of(rng, root, n=512):
    """Lines of points of N(0, root root')."""
    u = rng.normal(size=(n, len(root))) @ root.T
    return Lines.of(Particles(u, np.zeros(n), np.zeros_like(u)), dense(root))


def student(u):
    return -3 * np.log1p(u**2 / 5).sum(axis=1)


def skewed(u):
    return (2 * u - np.exp(np.minimum(u, 50))).sum(axis=1)


TARGETS = {
    "student": (student, lambda rng, n: rng.standard_t(5, size=(n, 3))),
    "skewed": (skewed, lambda rng, n: np.log(rng.gamma(2, size=(n, 3)))),
}
WRONG = np.array([[2.0, 0, 0], [1.0, 0.3, 0], [-0.5, 0.4, 1.5]])
"""Of no target here: scales and directions of lines are wrong."""


@pytest.mark.parametrize("name", TARGETS)
def test_the_draw_is_a_point_of_its_line_by_their_weights_however_wrong_lines_are(name):
    """At 7 limits, the number of draws below is within 4.8 errors of its expectation: one wrong in 10^5.

    And of 200 p-values that hold, 22 or more are below 0.05 by a chance of 1e-3 at most.
    """
    density, draw = TARGETS[name]
    rng = np.random.default_rng(3)
    lines = lines_of(rng, WRONG)
    u = draw(rng, 60_000)
    sets = lines.sets(u, density(u), np.arange(len(u)) % 3, MOST, density, rng)
    np.testing.assert_allclose(sets.chance.sum(axis=1), 1)
    assert 0.2 < 1 - sets.chance[:, 0].mean() < 0.9
    for limit in (-3, -1.5, -0.5, 0, 0.5, 1.5, 3):
        q = np.clip(np.sum(sets.chance * (sets.z < limit), axis=1), 0, 1)
        off = np.sum(sets.z[:, 0] < limit) - q.sum()
        assert abs(off) < 4.8 * np.sqrt(np.sum(q * (1 - q)) + 1)
    blocks = [Sets(*(leaf[i::200] for leaf in sets)) for i in range(200)]
    low = sum(counted(block).p_value < 0.05 for block in blocks)
    assert low < 22 and stats.binom.sf(21, 200, 0.05) < 1e-3


def test_weights_that_forget_how_points_were_chosen_are_found_out():
    """The same count with weights without 1/g is wrong: the test above can fail."""
    rng = np.random.default_rng(4)
    u = rng.standard_t(5, size=(20_000, 3))
    sets = lines_of(rng, WRONG).sets(u, student(u), np.zeros(len(u), int), MOST, student, rng)
    weight = sets.chance / (1 + (sets.z / 2) ** 2 / 3) ** 2
    wrong = sets._replace(chance=weight / weight.sum(axis=1, keepdims=True))
    assert counted(sets).p_value > 1e-4 > 1e-6 > counted(wrong).p_value


def test_limits_of_counts_are_above_exact_ones_and_not_far():
    """Coins of unequal chances, by convolution: the p-value of none, or of few, below a limit."""
    rng = np.random.default_rng(5)
    q = rng.beta(0.3, 5, size=400)
    exact = np.ones(1)
    for each in q:
        exact = np.convolve(exact, [1 - each, each])
    for s in (0, 3, 6):
        below = np.cumsum(exact)[s]
        z = np.full((400, MOST + 1), 3.0)
        z[:, 1], z[:s, 0] = -3.0, -3.0
        z[:s, 1] = 3.0
        chance = np.zeros_like(z)
        chance[:, 0], chance[:, 1] = 1 - q, q
        chance[:s] = chance[:s, [1, 0, *range(2, MOST + 1)]]
        found = counted(Sets(np.zeros(400, int), z, chance))
        assert found.found == s and found.expected == pytest.approx(q.sum())
        assert below <= found.p_value / 38 < 20 * below


def test_others_follow_a_gaussian_by_its_regression():
    root = np.array([[1.0, 0], [2.0, 0.5]])
    lines = lines_of(np.random.default_rng(6), root)
    b = lines.follow(np.array([0, 1])) / lines.spread[:, None]
    np.testing.assert_allclose(b, [[1, 2.0], [2 / 4.25, 1]], rtol=1e-6)


def seen_of(u, density, drivers, root, rng):
    seen = Beyond(drivers, u.shape[1])
    seen.begin(lines_of(rng, root))
    assert seen.add(u, density(u), density, rng) == MOST * len(u)
    return seen


def normal(u):
    return -0.5 * np.sum(u**2, axis=1)


def uneven(u):
    """.98 N(0, I) + .02 N(5 e, I)."""
    return normal(u) + np.logaddexp(np.log(0.98), np.log(0.02) + 5 * u[:, 0] - 12.5)


def test_a_driver_cut_at_its_2_percent_quantile_is_found_with_1024_draws():
    """Fourteen of 1024 draws are expected where none is, by weights that vary; sound draws pass."""
    rng = np.random.default_rng(7)
    u = rng.normal(size=(1200, 20))
    names = tuple(f"x{i}" for i in range(20))
    cut = u[u[:, 0] > stats.norm.ppf(0.02)][:1024]
    (found,) = beyond(seen_of(cut, normal, [0], np.eye(20), rng), names, 4e-4)
    assert found.verdict == "failed" and found.words.startswith("0.00% of 1,024 draws have x0 < ")
    (found,) = beyond(seen_of(u[:1024], normal, [0], np.eye(20), rng), names, 4e-4)
    assert found.verdict == "passed" and "along x0 " in found.words


def test_a_mode_that_is_missing_is_suspected_and_found():
    """A mode of 2 % in one of 20 directions, 2,048 draws; nothing is suspected for long where nothing is missing."""
    rng = np.random.default_rng(8)
    u = rng.normal(size=(2048, 20))
    seen = seen_of(u, uneven, [], np.eye(20), rng)
    (found,) = beyond(seen, tuple(f"x{i}" for i in range(20)), 2e-4)
    assert found.verdict == "failed" and "x0" in found.words
    assert np.mean(seen.leading.along == 0) > 0.5


def test_where_nothing_can_move_it_is_noted():
    rng = np.random.default_rng(9)
    density = lambda u: np.where(np.abs(u).max(axis=1) < 1e-3, 0.0, -jnp.inf)  # noqa: E731
    u = rng.uniform(-1e-4, 1e-4, size=(1024, 2))
    (found,) = beyond(seen_of(u, density, [1], np.eye(2), rng), ("a", "b"), 4e-4)
    assert found.verdict == "noted" and "cannot move" in found.words
