"""Families whose posteriors are known, for `ergodic bench family` (family.py): three without necks, three with and without.

| family | members | what is known |
|---|---|---|
| `windows` | logistic regression on a window that rolls over 1,000 rows, d = 10 | moments, by importance sampling from Laplace's approximation widened to a t with 8 degrees of freedom |
| `folds` | linear regression with its noise's scale, a fold of its rows left out by weights, d = 7 | exact draws, from the normal-inverse-gamma |
| `simulated` | eight schools, data simulated from the prior, d = 10 | the parameters behind each data set: their ranks among the draws are uniform (simulation-based calibration) |
| `gaussians` | Gaussians, each with a mean and covariance of its own, d = 10 | moments |
| `funnels` | v ~ N(0, s²), nine x ~ N(0, e^v), s from 1 to 3, d = 10 | moments |
| `centred` | eight schools with θ ~ N(mu, tau) and tau ~ HalfCauchy(5), data simulated, d = 10 | moments, by quadrature over log tau |
"""  # noqa: E501 (the table)

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ergodic.family import Family
from ergodic.initial import DiagonalGaussian

from ..measures.bias import SecondMoments

_ROWS = 1000
_SIGMA = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])
"""Standard errors of the eight schools."""


class Problem(NamedTuple):
    """A family, and what is known of it."""

    family: Family
    known: list[SecondMoments] | np.ndarray
    """Second moments, one set per member; or the parameters behind the data, ``(members, dim)``."""
    driver: int | None = None
    """The coordinate that drives the others, where there is one."""


def windows(members: int) -> Problem:
    """Logistic regression on 300 rows at a time of 1,000; w ~ N(0, I)."""
    rng, dim, rows = np.random.default_rng(0), 10, 300
    x = rng.normal(size=(_ROWS, dim)) * np.geomspace(0.3, 3, dim)
    x[:, 1] += 2 * x[:, 0]
    y = rng.uniform(size=_ROWS) < 1 / (1 + np.exp(-x @ rng.normal(size=dim)))
    signed = np.where(y[:, None], x, -x)
    starts = np.linspace(0, _ROWS - rows, members).astype(int)
    data = np.stack([signed[at : at + rows] for at in starts])

    def logdensity(w: Array, rows: Array) -> Float[Array, ""]:
        return jnp.sum(jax.nn.log_sigmoid(rows @ w)) - 0.5 * jnp.sum(w**2)

    family = Family(logdensity, data.astype(np.float32), jnp.zeros(dim), name="windows")
    return Problem(family, [logistic_moments(member, np.random.default_rng(1)) for member in data])


def logistic_moments(signed: np.ndarray, rng: np.random.Generator, draws: int = 50_000) -> SecondMoments:
    """E[w²] and Var[w²] of a logistic regression with w ~ N(0, I), by importance sampling in float64."""
    dim, nu = signed.shape[1], 8
    mode = np.zeros(dim)
    for _ in range(30):
        p = 1 / (1 + np.exp(signed @ mode))
        hessian = (signed * (p * (1 - p))[:, None]).T @ signed + np.eye(dim)
        mode = mode + np.linalg.solve(hessian, signed.T @ p - mode)
    root = np.linalg.cholesky(np.linalg.inv(hessian))
    z = rng.normal(size=(draws, dim)) / np.sqrt(rng.chisquare(nu, size=(draws, 1)) / nu)
    w = mode + z @ root.T
    log_ratio = -np.logaddexp(0, -w @ signed.T).sum(axis=1) - 0.5 * (w**2).sum(axis=1)
    log_ratio += 0.5 * (nu + dim) * np.log1p((z**2).sum(axis=1) / nu)
    weight = np.exp(log_ratio - log_ratio.max())
    weight /= weight.sum()
    expected, fourth = weight @ w**2, weight @ w**4
    return SecondMoments(tuple(f"w[{i}]" for i in range(dim)), expected, fourth - expected**2, float((weight**2).sum()))


def folds(members: int) -> Problem:
    """y ~ N(X c, σ), c ~ N(0, 10² σ²), σ² ~ InverseGamma(2, 2), with a weight of 0 for the rows of one fold."""
    rng, dim = np.random.default_rng(2), 6
    x = rng.normal(size=(_ROWS // 5, dim)) * np.geomspace(0.1, 10, dim)
    y = x @ rng.normal(size=dim) + 0.5 * rng.normal(size=len(x))
    weights = np.stack([np.arange(len(x)) % members != fold for fold in range(members)]).astype(float)
    design, response = jnp.asarray(x, float), jnp.asarray(y, float)

    def logdensity(position: dict[str, Array], weight: Array) -> Float[Array, ""]:
        c, u = position["c"], position["log_sigma"]
        error = jnp.sum(weight * (response - design @ c) ** 2) + jnp.sum((c / 10) ** 2) + 4.0
        return -(jnp.sum(weight) + dim + 4.0) * u - 0.5 * jnp.exp(-2 * u) * error

    like = {"c": jnp.zeros(dim), "log_sigma": jnp.zeros(())}
    family = Family(logdensity, weights.astype(np.float32), like, name="folds")
    return Problem(family, [_linear_moments(x, y, weight, np.random.default_rng(3)) for weight in weights])


def _linear_moments(x: np.ndarray, y: np.ndarray, weight: np.ndarray, rng: np.random.Generator) -> SecondMoments:
    """From 200,000 exact draws of the normal-inverse-gamma: σ² first, then c given σ²."""
    n, dim = 200_000, x.shape[1]
    precision = (x * weight[:, None]).T @ x + np.eye(dim) / 100
    mean = np.linalg.solve(precision, (x * weight[:, None]).T @ y)
    scale = 2 + 0.5 * ((weight * y**2).sum() - mean @ precision @ mean)
    variance = scale / rng.gamma(2 + 0.5 * weight.sum(), size=n)
    root = np.linalg.cholesky(np.linalg.inv(precision))
    c = mean + np.sqrt(variance)[:, None] * (rng.normal(size=(n, dim)) @ root.T)
    squares = np.concatenate([c, 0.5 * np.log(variance)[:, None]], axis=1) ** 2
    names = (*(f"c[{i}]" for i in range(dim)), "log_sigma")
    return SecondMoments(names, squares.mean(axis=0), squares.var(axis=0), 1 / n)


def simulated(members: int) -> Problem:
    """Eight schools, not centred: z_j ~ N(0, 1), mu ~ N(0, 5²), log tau ~ N(log 5, 1), y_j ~ N(mu + tau z_j, σ_j)."""
    rng = np.random.default_rng(4)
    z, mu = rng.normal(size=(members, 8)), 5 * rng.normal(size=members)
    log_tau = np.log(5) + rng.normal(size=members)
    y = mu[:, None] + np.exp(log_tau)[:, None] * z + _SIGMA * rng.normal(size=z.shape)

    def logdensity(position: dict[str, Array], schools: Array) -> Float[Array, ""]:
        theta = position["mu"] + jnp.exp(position["log_tau"]) * position["z"]
        prior = jnp.sum(position["z"] ** 2) + (position["mu"] / 5) ** 2 + (position["log_tau"] - np.log(5)) ** 2
        return -0.5 * (jnp.sum(((schools - theta) / jnp.asarray(_SIGMA, theta.dtype)) ** 2) + prior)

    like = {"log_tau": jnp.zeros(()), "mu": jnp.zeros(()), "z": jnp.zeros(8)}
    mean, scale = np.zeros(10, np.float32), np.ones(10, np.float32)
    mean[0], scale[1] = np.log(5), 5
    prior = DiagonalGaussian(jnp.asarray(mean), jnp.log(jnp.asarray(scale)))
    family = Family(logdensity, y.astype(np.float32), like, name="simulated", prior=prior)
    return Problem(family, np.column_stack([log_tau, mu, z]))


def gaussians(members: int) -> Problem:
    """x ~ N(m, RR')."""
    rng, dim = np.random.default_rng(5), 10
    root = np.eye(dim) + rng.normal(size=(members, dim, dim)) / np.sqrt(dim)
    mean, variance = 3 * rng.normal(size=(members, dim)), (root**2).sum(axis=2)

    def logdensity(x: Array, datum: dict[str, Array]) -> Float[Array, ""]:
        return -0.5 * jnp.sum((datum["whiten"] @ (x - datum["mean"])) ** 2)

    data = {"whiten": np.linalg.inv(root).astype(np.float32), "mean": mean.astype(np.float32)}
    names = tuple(f"x[{i}]" for i in range(dim))
    known = zip(mean**2 + variance, 2 * variance**2 + 4 * mean**2 * variance, strict=True)
    family = Family(logdensity, data, jnp.zeros(dim), name="gaussians")
    return Problem(family, [SecondMoments(names, *each, 0.0) for each in known])


def funnels(members: int) -> Problem:
    """v ~ N(0, s²), x_i ~ N(0, e^v), for nine x."""
    dim, widths = 9, np.geomspace(1.0, 3.0, members)

    def logdensity(position: dict[str, Array], s: Array) -> Float[Array, ""]:
        v, x = position["v"], position["x"]
        return -0.5 * ((v / s) ** 2 + jnp.sum(x**2) * jnp.exp(-v) + dim * v)

    like = {"v": jnp.zeros(()), "x": jnp.zeros(dim)}
    names = ("v", *(f"x[{i}]" for i in range(dim)))
    known = []
    for s in widths:
        e, var = np.exp(s**2 / 2), 3 * np.exp(2 * s**2) - np.exp(s**2)
        known.append(SecondMoments(names, np.array([s**2] + dim * [e]), np.array([2 * s**4] + dim * [var]), 0.0))
    return Problem(Family(logdensity, widths.astype(np.float32), like, name="funnels"), known, driver=0)


def centred(members: int) -> Problem:
    """Eight schools, centred: θ_j ~ N(mu, tau), mu ~ N(0, 5²), tau ~ HalfCauchy(5), y_j ~ N(θ_j, σ_j)."""
    rng = np.random.default_rng(4)
    mu, log_tau = 5 * rng.normal(size=members), np.log(5) + rng.normal(size=members)
    theta = mu[:, None] + np.exp(log_tau)[:, None] * rng.normal(size=(members, 8))
    y = theta + _SIGMA * rng.normal(size=theta.shape)

    def logdensity(position: dict[str, Array], schools: Array) -> Float[Array, ""]:
        u, mu, theta = position["log_tau"], position["mu"], position["theta"]
        prior = -7 * u - jnp.log1p(jnp.exp(2 * (u - np.log(5)))) - 0.5 * (mu / 5) ** 2
        errors = (schools - theta) / jnp.asarray(_SIGMA, theta.dtype)
        return prior - 0.5 * (jnp.sum((theta - mu) ** 2) * jnp.exp(-2 * u) + jnp.sum(errors**2))

    like = {"log_tau": jnp.zeros(()), "mu": jnp.zeros(()), "theta": jnp.zeros(8)}
    family = Family(logdensity, y.astype(np.float32), like, name="centred")
    return Problem(family, [hierarchy_moments(each) for each in y], driver=0)


def hierarchy_moments(y: np.ndarray) -> SecondMoments:
    """Of log tau, mu and θ: given log tau, which is on a grid, mu and θ are Gaussian."""
    u = np.linspace(-25, 12, 40_001)[:, None]
    weight = 1 / (_SIGMA**2 + np.exp(2 * u))
    precision = weight.sum(axis=1, keepdims=True) + 1 / 25
    mu = (weight @ y)[:, None] / precision
    level = u - np.log1p(np.exp(2 * (u - np.log(5)))) - 0.5 * (np.log(precision) - precision * mu**2)
    level = level[:, 0] + 0.5 * (np.log(weight) - weight * y**2).sum(axis=1)
    p = np.exp(level - level.max())
    p /= p.sum()
    kept = 1 / (np.exp(2 * u) / _SIGMA**2 + 1)  # the share of mu in θ's mean
    mean = np.concatenate([u, mu, (1 - kept) * y + kept * mu], axis=1)
    variance = np.concatenate([0 * u, 1 / precision, kept * np.exp(2 * u) + kept**2 / precision], axis=1)
    second = p @ (mean**2 + variance)
    fourth = p @ (mean**4 + 6 * mean**2 * variance + 3 * variance**2)
    names = ("log_tau", "mu", *(f"theta[{j}]" for j in range(8)))
    return SecondMoments(names, second, fourth - second**2, 0.0)
