"""Bounds against the truth: what is said of a total variation from below is below it, and not far."""

import jax
import numpy as np
import pytest
from scipy import special

from ergodic_studies.bench.bound_cells import hold
from ergodic_studies.bench.bound_tables import all_tables
from ergodic_studies.bench.bound_targets import KNOWN, known
from ergodic_studies.report.bounds import BoundPanel, bound_curves

DRAWS = 40_000


def exact(name, rng):
    """Exact draws of a target; those of one dimension by their quantiles."""
    if name == "student-1":
        return rng.standard_t(5, (DRAWS, 1))
    if name == "heaps-1":
        return np.where(rng.random((DRAWS, 1)) < 0.7, rng.normal(size=(DRAWS, 1)), rng.normal(3, 0.5, (DRAWS, 1)))
    if name.startswith("gaussian-"):
        return rng.normal(size=(DRAWS, int(name.removeprefix("gaussian-"))))
    if name == "funnel-10":
        z = rng.normal(size=(DRAWS, 10))
        return np.concatenate([3 * z[:, :1], z[:, 1:] * np.exp(1.5 * z[:, :1])], axis=1)
    return np.asarray(known(name).target.draw_exact(jax.random.key(0), DRAWS))


@pytest.mark.parametrize("name", KNOWN)
def test_exact_draws_are_at_no_distance(name):
    """Within 4.5 errors of 0, for eleven targets: more by a chance of 1e-4."""
    found = known(name).below(exact(name, np.random.default_rng(1)))
    assert abs(found.value) < 4.5 * found.error and found.error < 0.004


@pytest.mark.parametrize("name", ["gaussian", "gaussian-10"])
def test_draws_that_are_displaced_are_at_most_as_far_as_they_are(name):
    """TV(N(0, 1), N(a, 1)) = 2 Φ(a/2) - 1; at most 4.5 errors above (3e-6), and at least four fifths of it."""
    # of the correlated one along the regression on its first coordinate, whose sd is √2
    away = {"gaussian": np.sqrt(2.0) * np.array([1.0, 0.75]), "gaussian-10": np.eye(10)[0]}
    draws = exact(name, np.random.default_rng(2)) + 0.5 * away[name]
    truth, found = 2 * special.ndtr(0.25) - 1, known(name).below(draws)
    assert 0.8 * truth < found.value < truth + 4.5 * found.error


def test_a_bound_is_held_against_draws_that_are_off(tmp_path):
    """Of two bounds of a chain that was cut none is below, but by a chance of one in four hundred."""
    rows = hold("student-1", "cut to two", 1, 2, 128, tmp_path)
    assert [row["passes"] for row in rows] == [1, 2] and not any(row["below"] for row in rows)
    assert rows[0]["truth"] > 5 * rows[0]["error"] and rows[0]["median"] > rows[1]["median"] > rows[1]["truth"]
    (table,) = all_tables([], rows, [])
    assert [row[0] for row in table.rows] == ["student-1"] * 2


def test_the_figure_has_what_it_is_given():
    panels = [
        BoundPanel("met", -1.0, [-2.0, -1.1, -1.0], 1, (0.1, 0.01), (0.05, 0.0)),
        BoundPanel("annealed", -1.0, [], 4, (), ()),
    ]
    above, below = np.reshape(bound_curves(panels, 0.02).axes, (2, 2))
    lines = {line.get_label(): line.get_ydata() for line in below[0].lines}
    np.testing.assert_allclose(lines["limit, 95 %"], [0.1, 0.01])
    assert [text.get_text() for text in below[1].texts] == ["no bound: weighted draws"]
    assert above[0].get_title() == "met"
