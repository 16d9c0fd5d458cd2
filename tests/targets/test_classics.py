"""The classic targets: their closed forms against exact draws, quadrature and SciPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import ergodic as eg
from ergodic.targets import classics
from ergodic.targets.classics import CLASSICS
from ergodic.targets.quadrature import truth_by_quadrature
from statistics_ergodic import z_of_mean

N = 100_000
BOXES = {"banana": ((-80.0, 80.0), (-12.0, 190.0)), "rosenbrock": ((-8.0, 10.0), (-3.0, 85.0))}


def test_the_registry():
    assert set(CLASSICS) <= set(eg.targets.names())
    for name, entry in CLASSICS.items():
        assert eg.targets.get(name).dim == entry.dim


@pytest.mark.parametrize("name", CLASSICS)
def test_exact_draws_have_the_moments_of_the_truth(name):
    """E[log π*], means and covariances along 5 directions, |z| < 5: at most 1e-4 a target by the normal law.

    Squares of the funnel's and the Student-t's coordinates have no variance, or a sample that shows none of it; there
    only the means are looked at, and the funnel's first coordinate.
    """
    target = eg.targets.get(name)
    truth = target.require_truth()
    x = target.draw_exact(jax.random.key(1), N)
    assert x.shape == (N, target.dim) and x.dtype == np.float32
    value = jax.jit(jax.vmap(target.density))(jnp.asarray(x))
    assert abs(z_of_mean(value, truth.expected_logdensity)) < 5
    assert np.abs(z_of_mean(x, truth.mean)).max() < 5
    centred = x.astype(np.float64) - truth.mean
    if name == "funnel":
        assert abs(z_of_mean(centred[:, 0] ** 2, 9.0)) < 5
        return
    directions = np.random.default_rng(0).normal(size=(target.dim, 5)) / np.sqrt(truth.covariance.diagonal())[:, None]
    variances = np.sum(directions * (truth.covariance @ directions), axis=0)
    assert np.abs(z_of_mean((centred @ directions) ** 2, variances)).max() < 5
    if truth.square_variance is not None and name != "student-t":
        square = (x.astype(np.float64) ** 2 - truth.mean**2 - truth.covariance.diagonal()) ** 2
        assert np.abs(z_of_mean(square, truth.square_variance)).max() < 5


@pytest.mark.parametrize("name", BOXES)
def test_curved_targets_agree_with_quadrature(name, x64):
    target = eg.targets.get(name)
    truth = target.require_truth()
    panels = {"panels": 400}
    found = truth_by_quadrature(target.density, BOXES[name], **panels)
    assert found.log_z == pytest.approx(truth.log_z, abs=1e-8)
    assert found.expected_logdensity == pytest.approx(truth.expected_logdensity, abs=1e-7)
    np.testing.assert_allclose(found.mean, truth.mean, atol=1e-6)
    np.testing.assert_allclose(found.covariance, truth.covariance, rtol=1e-6, atol=1e-5)


def test_densities_are_what_scipy_says(x64):
    """log π* - log Z at two points."""
    points = np.random.default_rng(0).normal(size=(2, 100))

    def ours(name, x):
        target = eg.targets.get(name)
        return float(target.density(jnp.asarray(x[: target.dim]))) - target.require_truth().log_z

    for x in points:
        for name in ("ill-conditioned", "ill-conditioned-rotated"):
            truth = eg.targets.get(name).require_truth()
            scales = np.linalg.eigvalsh(truth.covariance)
            assert scales[-1] / scales[0] == pytest.approx(1000)
            assert ours(name, x) == pytest.approx(stats.multivariate_normal.logpdf(x, truth.mean, truth.covariance))
        spread = eg.targets.get("student-t").require_truth().covariance * 3 / 5
        assert ours("student-t", x) == pytest.approx(stats.multivariate_t.logpdf(x[:20], np.zeros(20), spread, df=5))
        funnel = stats.norm.logpdf(x[0], 0, 3) + stats.norm.logpdf(x[1:10], 0, np.exp(x[0] / 2)).sum()
        assert ours("funnel", x) == pytest.approx(funnel)


def test_the_heavy_tails_squares(x64):
    """Var[x²] of the Student-t, by SciPy's moments of one coordinate; the funnel's by the lognormal's."""
    truth = eg.targets.get("student-t").require_truth()
    scale = np.sqrt(truth.covariance[3, 3] * 3 / 5)
    second, fourth = (stats.t.moment(order, 5, scale=scale) for order in (2, 4))
    assert truth.square_variance[3] == pytest.approx(fourth - second**2)
    truth = eg.targets.get("funnel").require_truth()
    spread = stats.lognorm(3)
    assert truth.square_variance[1] == pytest.approx(3 * spread.moment(2) - spread.moment(1) ** 2)


def test_the_three_modes_hold_their_weights():
    x = eg.targets.get("unequal-modes").draw_exact(jax.random.key(2), N)
    nearest = np.argmin(np.sum((x[:, None] - classics.MODE_CENTRES) ** 2, axis=2), axis=1)
    found = np.bincount(nearest) / N
    error = np.sqrt(classics.MODE_WEIGHTS * (1 - classics.MODE_WEIGHTS) / N)
    assert np.all(np.abs(found - classics.MODE_WEIGHTS) < 5 * error)


def test_the_command_line_lists_them(capsys):
    from ergodic.cli.listings import list_targets

    list_targets()
    listed = capsys.readouterr().out
    assert all(name in listed for name in CLASSICS)
