"""Parameters that live on simplexes, in order, between bounds, or among correlation matrices."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from .model import Model, Problem, ordered


def monotonic(first: np.ndarray, second: np.ndarray, x: np.ndarray, y: np.ndarray) -> None:
    """An ordinal answer on two ordinal predictors with monotonic effects, and eight slopes between -1 and 1.

    A monotonic effect is b Σ_{k < level} s_k with s on a simplex, as brms writes it.
    """
    eta = x @ numpyro.sample("beta", dist.Uniform(-1, 1).expand([8]).to_event(1))
    for name, level, levels in (("first", first, 8), ("second", second, 12)):
        steps = numpyro.sample(f"simplex_{name}", dist.Dirichlet(jnp.ones(levels)))
        size = numpyro.sample(f"size_{name}", dist.Uniform(-3, 3))
        eta = eta + size * jnp.concatenate([jnp.zeros(1), jnp.cumsum(steps)])[level]
    cuts = ordered("cuts", np.array([-2.0, 0, 0, 0, 0, 0]), 0.75)
    numpyro.sample("y", dist.OrderedLogistic(eta, cuts), obs=y)


def _monotonic() -> Problem:
    rng, n = np.random.default_rng(21), 800
    first, second, x = rng.integers(0, 9, n), rng.integers(0, 13, n), rng.normal(size=(n, 8))
    steps = [np.concatenate([[0], np.cumsum(rng.dirichlet(np.full(k, 2.0)))]) for k in (8, 12)]
    eta = x @ rng.uniform(-0.5, 0.5, 8) + 1.5 * steps[0][first] - steps[1][second]
    cuts = np.array([-2.0, -1.2, -0.4, 0.5, 1.3, 2.2])
    return Problem(monotonic, (first, second, x, np.sum((eta + rng.logistic(size=n))[:, None] > cuts, axis=1)))


def mixture(y: np.ndarray) -> None:
    """Two normals of unknown weight, whose means are in order."""
    weight = numpyro.sample("weight", dist.Beta(2, 2))
    means = ordered("means", np.array([-1.0, 1.0]), 1.5)
    scales = numpyro.sample("scales", dist.HalfNormal(2).expand([2]).to_event(1))
    parts = dist.Normal(means, scales)
    numpyro.sample("y", dist.MixtureSameFamily(dist.Categorical(jnp.stack([weight, 1 - weight])), parts), obs=y)


def _mixture() -> Problem:
    rng = np.random.default_rng(22)
    return Problem(mixture, (np.concatenate([rng.normal(-1.2, 0.8, 90), rng.normal(1.5, 1.0, 160)]),))


def correlations(y: np.ndarray) -> None:
    """The scales and the correlations of eleven measurements, with an LKJ prior."""
    scales = numpyro.sample("scales", dist.HalfNormal(2).expand([11]).to_event(1))
    factor = numpyro.sample("factor", dist.LKJCholesky(11, concentration=2.0))
    numpyro.sample("y", dist.MultivariateNormal(jnp.zeros(11), scale_tril=scales[:, None] * factor), obs=y)


def _correlations() -> Problem:
    rng = np.random.default_rng(23)
    loadings = rng.normal(size=(11, 3))
    root = np.linalg.cholesky(
        loadings @ loadings.T + np.eye(11)
    )  # one on every machine, where singular vectors are not
    return Problem(correlations, (rng.normal(size=(100, 11)) @ root.T,))


def ordinal(x: np.ndarray, y: np.ndarray) -> None:
    """Ordered logistic regression of an answer on five levels."""
    beta = numpyro.sample("beta", dist.Normal(0, 1).expand([5]).to_event(1))
    cuts = ordered("cuts", np.array([-1.5, 0, 0, 0]), 0.75)
    numpyro.sample("y", dist.OrderedLogistic(x @ beta, cuts), obs=y)


def _ordinal() -> Problem:
    rng, n = np.random.default_rng(24), 400
    x = rng.normal(size=(n, 5))
    latent = x @ np.array([0.8, -0.5, 0.3, 0.0, 0.1]) + rng.logistic(size=n)
    return Problem(ordinal, (x, np.sum(latent[:, None] > np.array([-2.0, -0.5, 0.5, 1.8]), axis=1)))


MODELS = {
    "simplex": Model("simplexes, ordered and bounded parameters", 34, _monotonic),
    "mixture": Model("mixture of two normals, ordered means", 5, _mixture),
    "lkj": Model("correlations of eleven measurements", 66, _correlations),
    "ordinal": Model("ordered logistic regression", 9, _ordinal),
}
