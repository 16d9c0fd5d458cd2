"""Targets in which hard faults are planted, each with what is known of it: exact draws, or published moments.

    gaussian     N(0, I)
    student      independent t with 5 degrees of freedom
    funnel       v ~ N(0, 3²), the others given v ~ N(0, e^v)
    hierarchy    eight schools' model, centred, of d - 2 groups; log τ is drawn by quadrature, the rest given it
    modes        w N(0, I) + (1 - w) N(5 e, I), e the first coordinate
    eight-schools-centred, german-credit      the posteriors themselves, with their data

Hierarchies have simulated data whose τ is small beside their errors, so that log τ has a neck to go down.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ergodic import targets
from ergodic.target import Target

from ..posteriors.registry import POSTERIORS
from .chart_targets import funnel as funnel_of
from .planted import gaussian as gaussian_of
from .planted import student as student_of

Draw = Callable[[np.random.Generator, int], np.ndarray]
"""``draw(rng, n)``: exact draws ``(n, dim)``."""
_MANY = 200_000
_NU = 5.0
_PRIOR = 5.0
"""Eight schools' μ has a normal prior of this scale, and τ a half-Cauchy one."""
_GRID = np.linspace(-25.0, 8.0, 6601)
"""log τ: below, p(log τ) falls as τ does."""


@dataclass(frozen=True, eq=False)
class Posed:
    """A target, and E[x²] with Var[x²] of its coordinates."""

    target: Target
    square: np.ndarray
    variance: np.ndarray
    draw: Draw | None = None

    @staticmethod
    def by(target: Target, draw: Draw) -> Posed:
        """Moments from many exact draws: good to b2 of about 5e-6."""
        squares = draw(np.random.default_rng(0), _MANY) ** 2
        return Posed(target, squares.mean(axis=0), squares.var(axis=0), draw)

    def bias(self, x: np.ndarray) -> float:
        """b2 of draws: the largest over coordinates."""
        off = (x.astype(np.float64) ** 2).mean(axis=0) - self.square
        return float(np.max(off**2 / self.variance))

    def quantile(self, at: int, level: float) -> float:
        """A quantile of one coordinate, from many exact draws."""
        assert self.draw is not None
        return float(np.quantile(self.draw(np.random.default_rng(1), _MANY)[:, at], level))


@cache
def gaussian(dim: int) -> Posed:
    """The standard Gaussian N(0, I), with exact draws."""
    return Posed.by(gaussian_of(dim), lambda rng, n: rng.normal(size=(n, dim)))


@cache
def student(dim: int) -> Posed:
    """Independent t with 5 degrees of freedom: E[x²] = ν/(ν-2), E[x⁴] = 3 ν²/((ν-2)(ν-4))."""
    square, fourth = _NU / (_NU - 2), 3 * _NU**2 / ((_NU - 2) * (_NU - 4))
    variance = np.full(dim, fourth - square**2)
    return Posed(student_of(dim), np.full(dim, square), variance, lambda rng, n: rng.standard_t(_NU, size=(n, dim)))


@cache
def funnel(dim: int) -> Posed:
    """Neal's funnel, of which only v has moments that any number of draws estimates."""
    made = funnel_of(dim, 3.0)
    truth = made.truth()
    assert truth.square_variance is not None

    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        noise = rng.normal(size=(n, dim))
        return np.concatenate([3 * noise[:, :1], np.exp(1.5 * noise[:, :1]) * noise[:, 1:]], axis=1)

    return Posed(made.target(f"funnel-{dim}"), np.diag(truth.covariance), truth.square_variance, draw)


@cache
def modes(dim: int, weight: float) -> Posed:
    """Two unit Gaussians 5 apart: chains of GEI go from one to the other, now and then."""
    target = Target(lambda x: two_modes(x, weight), like=jnp.zeros(dim), name="two modes")

    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        x = rng.normal(size=(n, dim))
        x[:, 0] += np.where(rng.random(n) < weight, 0.0, APART)
        return x

    return Posed.by(target, draw)


APART = 5.0


def two_modes(x: Float[Array, "dim"], weight: float) -> Array:
    """log (w N(x; 0, I) + (1 - w) N(x; 5 e, I)), but for a constant."""
    logs = jnp.asarray(np.log([weight, 1 - weight]), x.dtype)
    away = jnp.stack([x[0], x[0] - APART])
    return jax.nn.logsumexp(logs - 0.5 * away**2) - 0.5 * jnp.sum(x[1:] ** 2)


@cache
def hierarchy(dim: int) -> Posed:
    """Centred: log τ, μ, θ_j, with simulated data whose τ is small beside their errors: there is a neck."""
    rng, count = np.random.default_rng(dim), dim - 2
    sigma = rng.uniform(9, 18, size=count)
    y = 4 + 3 * rng.normal(size=count) + sigma * rng.normal(size=count)
    at, error = jnp.asarray(y, jnp.float32), jnp.asarray(sigma, jnp.float32)

    def logdensity(x: Float[Array, "dim"]) -> Array:
        log_tau, mu, theta = x[0], x[1], x[2:]
        likelihood = -0.5 * jnp.sum(((at - theta) / error) ** 2)
        prior = -0.5 * jnp.sum(((theta - mu) * jnp.exp(-log_tau)) ** 2) - count * log_tau
        return likelihood + prior - 0.5 * (mu / _PRIOR) ** 2 + log_tau - jnp.log1p(jnp.exp(2 * log_tau) / _PRIOR**2)

    target = Target(logdensity, like=jnp.zeros(dim), name=f"hierarchy-{dim}")
    return Posed.by(target, lambda rng, n: schools(rng, n, y, sigma))


@cache
def eight_schools() -> Posed:
    """The posterior itself; its coordinates are log τ, μ, θ_j, too."""
    target = targets.get("eight-schools-centred")
    assert target.names[0].startswith("log_tau") and target.names[1].startswith("mu")
    y = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
    sigma = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
    return Posed.by(target, lambda rng, n: schools(rng, n, y, sigma))


@cache
def german_credit() -> Posed:
    """Logistic regression; its published moments, of coefficients that are nearly normal."""
    target = POSTERIORS["german-credit"].target("german-credit")
    reference = target.reference
    assert reference is not None
    mean, variance = np.asarray(reference.mean), np.asarray(reference.sd) ** 2
    return Posed(target, mean**2 + variance, 2 * variance**2 + 4 * mean**2 * variance)


def schools(rng: np.random.Generator, n: int, y: np.ndarray, sigma: np.ndarray) -> np.ndarray:
    """Exact draws of log τ, μ, θ. y_j ~ N(μ, σ_j² + τ²), so μ has a normal law given τ, and p(τ) is known."""
    variance = sigma**2 + np.exp(2 * _GRID)[:, None]
    precision = 1 / _PRIOR**2 + (1 / variance).sum(axis=1)
    mean = (y / variance).sum(axis=1) / precision
    level = -0.5 * (np.log(variance).sum(axis=1) + (y**2 / variance).sum(axis=1) - precision * mean**2)
    level += -0.5 * np.log(precision) + _GRID - np.log1p(np.exp(2 * _GRID) / _PRIOR**2)
    below = np.cumsum(np.exp(level - level.max()))
    log_tau = np.interp(rng.random(n), below / below[-1], _GRID)
    tau = np.exp(log_tau)[:, None]
    variance = sigma**2 + tau**2
    precision = 1 / _PRIOR**2 + (1 / variance).sum(axis=1)
    mu = ((y / variance).sum(axis=1) / precision + rng.normal(size=n) / np.sqrt(precision))[:, None]
    narrow = 1 / (1 / sigma**2 + 1 / tau**2)
    theta = narrow * (y / sigma**2 + mu / tau**2) + np.sqrt(narrow) * rng.normal(size=(n, len(y)))
    return np.concatenate([log_tau[:, None], mu, theta], axis=1)
