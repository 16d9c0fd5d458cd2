"""Regressions of counts: too many zeros, too much spread, or both."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from .model import Model, Problem


def _slopes(name: str, x: np.ndarray) -> jnp.ndarray:
    """x β with β ~ N(0, 1), the column of ones among x's."""
    return x @ numpyro.sample(name, dist.Normal(0, 1).expand([x.shape[1]]).to_event(1))


def _design(rng: np.random.Generator, n: int, p: int) -> np.ndarray:
    """A column of ones, and p - 1 standardised columns that are correlated with their neighbours."""
    noise = rng.normal(size=(n, p))
    columns = noise[:, 1:] + 0.5 * noise[:, :-1]
    return np.column_stack([np.ones(n), columns / columns.std(axis=0)])


def zero_inflated_poisson(x: np.ndarray, y: np.ndarray) -> None:
    """Zeros with a probability that has a logistic regression of its own; else Poisson."""
    zero, rate = _slopes("gamma", x), jnp.exp(_slopes("beta", x))
    numpyro.sample("y", dist.ZeroInflatedDistribution(dist.Poisson(rate), gate_logits=zero), obs=y)


def _zero_inflated_poisson() -> Problem:
    rng, n = np.random.default_rng(11), 600
    x = _design(rng, n, 5)
    rate, zero = np.exp(x @ np.array([0.8, 0.3, -0.2, 0.1, 0.0])), x @ np.array([-0.7, 0.5, 0.0, -0.4, 0.2])
    inflated = rng.uniform(size=n) < 1 / (1 + np.exp(-zero))
    return Problem(zero_inflated_poisson, (x, np.where(inflated, 0, rng.poisson(rate))))


def zero_inflated_negative_binomial(x: np.ndarray, y: np.ndarray) -> None:
    """The same with a negative binomial, whose concentration is unknown."""
    zero, rate = _slopes("gamma", x), jnp.exp(_slopes("beta", x))
    concentration = numpyro.sample("concentration", dist.LogNormal(0, 1))
    counts = dist.NegativeBinomial2(rate, concentration)
    numpyro.sample("y", dist.ZeroInflatedDistribution(counts, gate_logits=zero), obs=y)


def _zero_inflated_negative_binomial() -> Problem:
    rng, n = np.random.default_rng(12), 1_000
    x = _design(rng, n, 13)
    rate = np.exp(1 + x[:, 1:] @ rng.normal(0, 0.2, 12))
    zero = -0.8 + x[:, 1:] @ rng.normal(0, 0.3, 12)
    counts = rng.poisson(rate * rng.gamma(2.0, 1 / 2.0, n))
    inflated = rng.uniform(size=n) < 1 / (1 + np.exp(-zero))
    return Problem(zero_inflated_negative_binomial, (x, np.where(inflated, 0, counts)))


def negative_binomial(x: np.ndarray, y: np.ndarray) -> None:
    """Counts with more spread than Poisson's; 1/√concentration has a half-normal prior."""
    inverse = numpyro.sample("inverse_root", dist.HalfNormal(1))
    numpyro.sample("y", dist.NegativeBinomial2(jnp.exp(_slopes("beta", x)), inverse**-2.0), obs=y)


def _negative_binomial() -> Problem:
    rng, n = np.random.default_rng(13), 500
    x = _design(rng, n, 9)
    rate = np.exp(1.5 + x[:, 1:] @ rng.normal(0, 0.3, 8))
    return Problem(negative_binomial, (x, rng.poisson(rate * rng.gamma(3.0, 1 / 3.0, n))))


def poisson(x: np.ndarray, y: np.ndarray) -> None:
    """Poisson regression, with nothing added to it."""
    numpyro.sample("y", dist.Poisson(jnp.exp(_slopes("beta", x))), obs=y)


def _big_poisson() -> Problem:
    rng, n = np.random.default_rng(14), 50_000
    x = _design(rng, n, 30).astype(np.float32)
    return Problem(poisson, (x, rng.poisson(np.exp(0.5 + x[:, 1:] @ rng.normal(0, 0.1, 29)))))


MODELS = {
    "zip": Model("zero-inflated Poisson regression", 10, _zero_inflated_poisson),
    "zinb": Model("zero-inflated negative binomial regression", 27, _zero_inflated_negative_binomial),
    "negbin": Model("negative binomial regression", 10, _negative_binomial),
    "bigpoisson": Model("Poisson regression, 50,000 rows", 30, _big_poisson),
}
