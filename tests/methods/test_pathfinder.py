"""Pathfinder through BlackJAX: the adapter, its mixture and its weights."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import ergodic as eg
from ergodic.methods import pathfinder
from ergodic.methods.pathfinder import PathfinderParams, _log_mixture

SMALL = eg.Pathfinder(paths=4, elbo_draws=50)


@pytest.fixture(scope="module")
def fitted():
    return SMALL.fit(eg.targets.get("gaussian"), jax.random.key(0), progress=False)


def test_weighted_moments_and_log_z_of_a_gaussian(fitted):
    """|error| < 5 standard errors of weighted means; log Z within 5 of its own."""
    draws = fitted.sample(jax.random.key(1), 20_000, weighted=True, progress=False)
    truth = draws.target.require_truth()
    assert draws.kind == "weighted" and draws.effective_size() > 5_000
    x = draws.unconstrained.astype(np.float64)
    for values, exact in ((x, truth.mean), (x**2, truth.covariance.diagonal())):
        mean = draws.mean(values)
        error = np.sqrt(draws.weights**2 @ (values - mean) ** 2)
        assert np.all(np.abs(mean - exact) < 5 * error)
    value, error = draws.log_z()
    assert abs(value - truth.log_z) < 5 * error + 1e-3


def test_the_mixture_is_scipys():
    rng = np.random.default_rng(0)
    roots = np.tril(rng.normal(size=(3, 2, 2))) * 0.3 + np.eye(2)
    means, x = rng.normal(size=(3, 2)), rng.normal(size=(5, 2))
    params = PathfinderParams(*(jnp.asarray(leaf, jnp.float32) for leaf in (means, roots)))
    each = [stats.multivariate_normal.pdf(x, m, r @ r.T) for m, r in zip(means, roots, strict=True)]
    np.testing.assert_allclose(
        _log_mixture(params, jnp.asarray(x, jnp.float32)), np.log(np.mean(each, axis=0)), rtol=1e-4
    )


def test_costs_are_those_of_the_paths(fitted):
    assert fitted.record["elbo"].shape == (4,) and np.all(np.isfinite(fitted.record["elbo"]))
    assert 4 * 4 < fitted.cost.gradients <= 4 * (3 * SMALL.iterations + 1)
    assert fitted.cost.depth < fitted.cost.gradients


def test_a_target_without_a_gaussian_anywhere_is_said_so(monkeypatch):
    nowhere = lambda *_: (None, np.full(4, -np.inf), np.zeros(4))  # noqa: E731
    monkeypatch.setattr(pathfinder, "compiled", lambda *_: nowhere)
    with pytest.raises(eg.ErgodicError, match="no usable Gaussian on any of 4 paths of 'gaussian'"):
        SMALL.fit(eg.targets.get("gaussian"), jax.random.key(0))
