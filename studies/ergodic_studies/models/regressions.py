"""Regressions with heavy tails, censoring, sparse slopes, or many rows."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from .model import Model, Problem


def robust(x: np.ndarray, y: np.ndarray) -> None:
    """Cauchy errors, and slopes with Student's t of three degrees as their prior."""
    intercept = numpyro.sample("intercept", dist.Cauchy(0, 5))
    beta = numpyro.sample("beta", dist.StudentT(3, 0, 2.5).expand([x.shape[1]]).to_event(1))
    scale = numpyro.sample("scale", dist.HalfCauchy(1))
    numpyro.sample("y", dist.Cauchy(intercept + x @ beta, scale), obs=y)


def _robust() -> Problem:
    rng, n = np.random.default_rng(31), 200
    x = rng.normal(size=(n, 9))
    return Problem(robust, (x, 1 + x @ rng.normal(0, 1, 9) + 0.5 * rng.standard_cauchy(n)))


def weibull(x: np.ndarray, time: np.ndarray, seen: np.ndarray) -> None:
    """Survival times, some of them censored: log S(t) = -(t/λ)^k with log λ = intercept + x β."""
    intercept = numpyro.sample("intercept", dist.Normal(0, 3))
    beta = numpyro.sample("beta", dist.Normal(0, 1).expand([3]).to_event(1))
    shape = numpyro.sample("shape", dist.LogNormal(0, 1))
    log_ratio = jnp.log(time) - intercept - x @ beta
    hazard = jnp.log(shape) + shape * log_ratio - jnp.log(time)
    numpyro.factor("survival", jnp.sum(seen * hazard - jnp.exp(shape * log_ratio)))


def _weibull() -> Problem:
    rng, n = np.random.default_rng(32), 300
    x = rng.normal(size=(n, 3))
    time = np.exp(1 + x @ np.array([0.5, -0.3, 0.1])) * rng.weibull(1.4, n)
    end = rng.uniform(1, 6, n)
    return Problem(weibull, (x, np.minimum(time, end), (time < end).astype(float)))


def _sparse() -> tuple[object, ...]:
    """Sixty rows, thirty columns, four slopes that are not zero."""
    rng, n = np.random.default_rng(33), 60
    x = rng.normal(size=(n, 30))
    return x, x[:, :4] @ np.array([2.0, -1.5, 1.0, 0.7]) + rng.normal(size=n)


def horseshoe(x: np.ndarray, y: np.ndarray) -> None:
    """The horseshoe, non-centred: β_i = τ λ_i z_i with half-Cauchy λ and τ."""
    sigma = numpyro.sample("sigma", dist.HalfNormal(2))
    tau = numpyro.sample("tau", dist.HalfCauchy(0.1))
    lam = numpyro.sample("lam", dist.HalfCauchy(1).expand([x.shape[1]]).to_event(1))
    z = numpyro.sample("z", dist.Normal(0, 1).expand([x.shape[1]]).to_event(1))
    numpyro.sample("y", dist.Normal(x @ (tau * lam * z), sigma), obs=y)


def regularised_horseshoe(x: np.ndarray, y: np.ndarray) -> None:
    """The regularised horseshoe (Piironen and Vehtari 2017): large λ_i are held by a slab of scale c."""
    sigma = numpyro.sample("sigma", dist.HalfNormal(2))
    tau = numpyro.sample("tau", dist.HalfCauchy(0.1))
    lam = numpyro.sample("lam", dist.HalfCauchy(1).expand([x.shape[1]]).to_event(1))
    slab = numpyro.sample("slab", dist.InverseGamma(2, 8))
    z = numpyro.sample("z", dist.Normal(0, 1).expand([x.shape[1]]).to_event(1))
    held = lam * jnp.sqrt(slab / (slab + (tau * lam) ** 2))
    numpyro.sample("y", dist.Normal(x @ (tau * held * z), sigma), obs=y)


def logistic(x: np.ndarray, y: np.ndarray) -> None:
    """Logistic regression; the likelihood is written as one sum."""
    beta = numpyro.sample("beta", dist.Normal(0, 1).expand([x.shape[1]]).to_event(1))
    eta = x @ beta
    numpyro.factor("likelihood", jnp.sum(y * eta - jax.nn.softplus(eta)))


def _big_logistic() -> Problem:
    rng, n, p = np.random.default_rng(34), 100_000, 50
    x = (rng.normal(size=(n, p)) + 0.5 * rng.normal(size=(n, 1))).astype(np.float32)
    x[:, 0] = 1.0
    p_yes = 1 / (1 + np.exp(-x @ rng.normal(0, 1 / math.sqrt(p), p)))
    return Problem(logistic, (x, rng.binomial(1, p_yes).astype(np.float32)))


MODELS = {
    "robust": Model("regression with Cauchy errors", 11, _robust),
    "weibull": Model("Weibull survival regression, censored", 5, _weibull),
    "horseshoe": Model("horseshoe regression", 62, lambda: Problem(horseshoe, _sparse())),
    "horseshoe-reg": Model("regularised horseshoe", 63, lambda: Problem(regularised_horseshoe, _sparse())),
    "biglogit": Model("logistic regression, 100,000 rows", 50, _big_logistic),
}
