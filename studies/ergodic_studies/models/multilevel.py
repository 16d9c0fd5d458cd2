"""Multilevel models: groups that share a distribution, written with and without the group's scale taken out.

A non-centred effect is σ z with z ~ N(0, 1). A centred one is a ~ N(μ, σ), whose posterior has a neck where the data
say little of a group.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.handlers import reparam
from numpyro.infer.reparam import LocScaleReparam

from .model import Model, Problem

_GROUPS = {"state": 30, "age": 6, "education": 5, "region": 20}


def multilevel_logistic(x: np.ndarray, groups: dict[str, np.ndarray], y: np.ndarray) -> None:
    """A survey's yes or no: seven slopes, and four groupings with a scale each."""
    eta = numpyro.sample("intercept", dist.Normal(0, 2))
    beta = numpyro.sample("beta", dist.Normal(0, 1).expand([x.shape[1]]).to_event(1))
    for name, size in _GROUPS.items():
        scale = numpyro.sample(f"sigma_{name}", dist.HalfNormal(1))
        z = numpyro.sample(f"z_{name}", dist.Normal(0, 1).expand([size]).to_event(1))
        eta = eta + scale * z[groups[name]]
    numpyro.sample("y", dist.Bernoulli(logits=eta + x @ beta), obs=y)


def _multilevel_logistic() -> Problem:
    rng, n = np.random.default_rng(1), 2_000
    x = rng.normal(size=(n, 7))
    groups = {name: rng.integers(0, size, n) for name, size in _GROUPS.items()}
    eta = -0.5 + x @ rng.normal(0, 0.5, 7)
    for (name, size), scale in zip(_GROUPS.items(), (0.8, 0.4, 0.2, 0.5), strict=True):
        eta = eta + scale * rng.normal(size=size)[groups[name]]
    return Problem(multilevel_logistic, (x, groups, rng.binomial(1, 1 / (1 + np.exp(-eta)))))


def item_response(person: np.ndarray, item: np.ndarray, y: np.ndarray) -> None:
    """Two-parameter item response: logit p = a_item (θ_person - b_item), 100 persons and 20 items."""
    theta = numpyro.sample("theta", dist.Normal(0, 1).expand([100]).to_event(1))
    mean = numpyro.sample("mean_b", dist.Normal(0, 1))
    scale = numpyro.sample("sigma_b", dist.HalfNormal(1))
    spread = numpyro.sample("sigma_a", dist.HalfNormal(0.5))
    a = numpyro.sample("a", dist.LogNormal(0, spread).expand([20]).to_event(1))
    b = numpyro.sample("b", dist.Normal(mean, scale).expand([20]).to_event(1))
    numpyro.sample("y", dist.Bernoulli(logits=a[item] * (theta[person] - b[item])), obs=y)


def _item_response() -> Problem:
    rng = np.random.default_rng(2)
    person, item = (index.ravel() for index in np.meshgrid(np.arange(100), np.arange(20), indexing="ij"))
    theta, a, b = rng.normal(size=100), np.exp(rng.normal(0, 0.5, 20)), rng.normal(0.3, 1, 20)
    p = 1 / (1 + np.exp(-a[item] * (theta[person] - b[item])))
    return Problem(item_response, (person, item, rng.binomial(1, p)))


def varying_centred(county: np.ndarray, floor: np.ndarray, uranium: np.ndarray, y: np.ndarray) -> None:
    """Radon in 85 counties: an intercept per county around a line in the county's uranium."""
    mean = numpyro.sample("mean", dist.Normal(0, 5))
    gamma = numpyro.sample("gamma", dist.Normal(0, 2))
    beta = numpyro.sample("beta", dist.Normal(0, 2))
    scale = numpyro.sample("sigma_county", dist.HalfNormal(1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(2))
    with numpyro.plate("county", 85):
        alpha = numpyro.sample("alpha", dist.Normal(mean + gamma * uranium, scale))
    numpyro.sample("y", dist.Normal(alpha[county] + beta * floor, sigma), obs=y)


varying = reparam(varying_centred, config={"alpha": LocScaleReparam(0)})


def _radon() -> tuple[object, ...]:
    rng, n = np.random.default_rng(3), 919
    county = np.concatenate([np.arange(85), rng.choice(85, n - 85, p=rng.dirichlet(np.full(85, 0.7)))])
    floor, uranium = rng.binomial(1, 0.2, n).astype(float), rng.normal(0, 0.4, 85)
    alpha = 1.4 + 0.7 * uranium + rng.normal(0, 0.15, 85)
    return county, floor, uranium, alpha[county] - 0.7 * floor + rng.normal(0, 0.75, n)


def poisson_offset(group: np.ndarray, x: np.ndarray, exposure: np.ndarray, y: np.ndarray) -> None:
    """Counts in 40 areas with different exposures: log rate = log exposure + line + area."""
    mean = numpyro.sample("mean", dist.Normal(0, 3))
    beta = numpyro.sample("beta", dist.Normal(0, 1).expand([x.shape[1]]).to_event(1))
    scale = numpyro.sample("sigma", dist.HalfNormal(1))
    z = numpyro.sample("z", dist.Normal(0, 1).expand([40]).to_event(1))
    numpyro.sample("y", dist.Poisson(jnp.exp(jnp.log(exposure) + mean + x @ beta + scale * z[group])), obs=y)


def _poisson_offset() -> Problem:
    rng, n = np.random.default_rng(4), 400
    group, x, exposure = rng.integers(0, 40, n), rng.normal(size=(n, 3)), rng.uniform(1, 20, n)
    rate = np.exp(-1 + x @ np.array([0.4, -0.3, 0.1]) + 0.5 * rng.normal(size=40)[group])
    return Problem(poisson_offset, (group, x, exposure, rng.poisson(exposure * rate)))


def beta_binomial(n: np.ndarray, y: np.ndarray) -> None:
    """71 experiments with a rate each, as the rat tumours are: θ_j ~ Beta(m κ, (1 - m) κ)."""
    mean = numpyro.sample("m", dist.Beta(1, 1))
    size = numpyro.sample("kappa", dist.LogNormal(2, 1))
    theta = numpyro.sample("theta", dist.Beta(mean * size, (1 - mean) * size).expand([71]).to_event(1))
    numpyro.sample("y", dist.Binomial(n, theta), obs=y)


def _beta_binomial() -> Problem:
    rng = np.random.default_rng(5)
    n = rng.integers(14, 53, 71)
    return Problem(beta_binomial, (n, rng.binomial(n, rng.beta(1.8, 10, 71))))


def schools_centred(sigma: np.ndarray, y: np.ndarray) -> None:
    """Eight schools (Rubin 1981), centred: a funnel."""
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("school", 8):
        theta = numpyro.sample("theta", dist.Normal(mu, tau))
        numpyro.sample("y", dist.Normal(theta, sigma), obs=y)


schools = reparam(schools_centred, config={"theta": LocScaleReparam(0)})


def _eight_schools() -> tuple[object, ...]:
    return np.array([15.0, 10, 16, 11, 9, 11, 10, 18]), np.array([28.0, 8, -3, 7, -1, 1, 18, 12])


MODELS = {
    "mlogit": Model("multilevel logistic regression, four groupings", 73, _multilevel_logistic),
    "irt": Model("item response, two parameters", 143, _item_response),
    "varying": Model("varying intercepts, non-centred", 90, lambda: Problem(varying, _radon())),
    "varying-c": Model("varying intercepts, centred", 90, lambda: Problem(varying_centred, _radon()), varying),
    "offset": Model("multilevel Poisson with an offset", 45, _poisson_offset),
    "rates": Model("rates of 71 experiments, beta-binomial", 73, _beta_binomial),
    "schools": Model("eight schools, non-centred", 10, lambda: Problem(schools, _eight_schools())),
    "schools-c": Model("eight schools, centred", 10, lambda: Problem(schools_centred, _eight_schools()), schools),
}
