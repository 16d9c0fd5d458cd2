"""Targets on which samplers are usually compared, every one with its truth and exact draws.

| name | log π* | source |
|---|---|---|
| `banana` | x1 ~ N(0, 10²), x2 given x1 ~ N(0.03 (x1² - 100), 1) | Inference Gym's Banana |
| `rosenbrock` | x1 ~ N(1, 1), x2 given x1 ~ N(x1², 0.1) | one pair of the microcanonical samplers' and LAPS's 36 |
| `ill-conditioned` | N(0, diag), 100 variances log-spaced, the largest 1,000 times the smallest | as LAPS's |
| `ill-conditioned-rotated` | the same, turned by a fixed random rotation | Inference Gym turns its own |
| `student-t` | t with 5 degrees of freedom, d = 20, scales log-spaced from 0.3 to 3, rotated | ours |
| `funnel` | v ~ N(0, 3²), x1..x9 given v ~ N(0, e^v) | Neal 2003, Inference Gym's NealsFunnel |
| `unequal-modes` | 0.6 N(c1, I) + 0.3 N(c2, I) + 0.1 N(c3, I), centres about 10 apart | ours |

(N(m, s²), variances, here.) Second moments of squares, Var[x_i²], are given too: b2 (of the studies) divides by
them, and a sample estimates them badly where tails are heavy. The funnel's x_i have Var[x_i²] = 3 e^18 - e^9, so that
b2 sees v and next to nothing of x_i.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..target import Target, Truth
from .quadrature import truth_by_quadrature

Position = Float[Array, "dim"]


class Classic(NamedTuple):
    """A target of the registry: log π*, exact draws and what is known of it."""

    title: str
    dim: int
    logdensity: Callable[[Position], Array]
    draw: Callable[[Array, int], Float[Array, "n dim"]]
    truth: Callable[[], Truth]
    """Computes what is known exactly, except for the draws."""
    collection: str | None = None

    def target(self, name: str) -> Target:
        """Make a `Target` of it, whose truth is computed when first asked for."""

        def draw(key: Array, n: int) -> np.ndarray:
            return np.asarray(self.draw(key, n))

        return Target(
            self.logdensity,
            like=jnp.zeros(self.dim),
            name=name,
            names=tuple(f"x{i + 1}" for i in range(self.dim)),
            truth=lambda: self.truth()._replace(draw=draw),
        )


# Curved ------------------------------------------------------------------------------------------------------------


def _curved(
    title: str, mean: float, scale: float, curve: Callable[[Array], Array], width: float, truth: Callable[[], Truth]
) -> Classic:
    """x1 ~ N(mean, scale²), x2 given x1 ~ N(curve(x1), width²)."""

    def logdensity(x: Position) -> Array:
        return -0.5 * (((x[0] - mean) / scale) ** 2 + ((x[1] - curve(x[0])) / width) ** 2)

    def draw(key: Array, n: int) -> Float[Array, "n dim"]:
        noise = jax.random.normal(key, (n, 2))
        x1 = mean + scale * noise[:, 0]
        return jnp.stack([x1, curve(x1) + width * noise[:, 1]], axis=-1)

    return Classic(title, 2, logdensity, draw, truth)


def _curved_truth(scale: float, width: float, mean: list[float], covariance: list, square_variance: list) -> Truth:
    log_z = math.log(2 * math.pi * scale * width)
    return Truth(-1.0, log_z, np.array(mean), np.array(covariance), square_variance=np.array(square_variance))


def _banana_truth() -> Truth:
    """x2 = 3 (z² - 1) + e: E[x2²] = 18 + 1, E[x2⁴] = 81·60 + 6·18 + 3 = 4971."""
    return _curved_truth(10.0, 1.0, [0.0, 0.0], [[100.0, 0.0], [0.0, 19.0]], [2e4, 4971.0 - 19.0**2])


_Q = 0.1


def _rosenbrock_truth() -> Truth:
    """N(1, 1) has raw moments 2, 10, 764 of orders 2, 4, 8: E[x2²] = 10 + Q, E[x2⁴] = 764 + 6 Q 10 + 3 Q²."""
    square = 764 + 60 * _Q + 3 * _Q**2 - (10 + _Q) ** 2
    return _curved_truth(1.0, math.sqrt(_Q), [1.0, 2.0], [[1.0, 2.0], [2.0, 6.0 + _Q]], [6.0, square])


# Gaussian and Student-t in skewed axes -----------------------------------------------------------------------------


def _axes(scales: np.ndarray, rotated: bool) -> np.ndarray:
    """A with x = A z: scales along the coordinates, or along the columns of a fixed random rotation."""
    if not rotated:
        return np.diag(scales)
    q, r = np.linalg.qr(np.random.default_rng(0).normal(size=(len(scales), len(scales))))
    return (q * np.sign(np.diag(r))) * scales


def _normal(title: str, scales: np.ndarray, rotated: bool) -> Classic:
    """N(0, A A'), unnormalised: -½ |A⁻¹ x|². Var[x_i²] = 2 Σ_ii²."""
    axes, dim = _axes(scales, rotated), len(scales)
    inverse = np.linalg.inv(axes)

    def logdensity(x: Position) -> Array:
        z = x / jnp.asarray(scales, x.dtype) if not rotated else jnp.asarray(inverse, x.dtype) @ x
        return -0.5 * jnp.sum(z**2)

    def draw(key: Array, n: int) -> Float[Array, "n dim"]:
        return jax.random.normal(key, (n, dim)) @ jnp.asarray(axes.T, float)

    def truth() -> Truth:
        covariance = axes @ axes.T
        log_z = 0.5 * dim * math.log(2 * math.pi) + float(np.log(scales).sum())
        return Truth(-0.5 * dim, log_z, np.zeros(dim), covariance, square_variance=2 * np.diag(covariance) ** 2)

    return Classic(title, dim, logdensity, draw, truth)


_FREEDOM = 5.0


def _student(title: str, scales: np.ndarray) -> Classic:
    """-(ν+d)/2 log(1 + |A⁻¹ x|²/ν). |z|²/ν is beta prime, so E log(1 + |z|²/ν) = ψ((ν+d)/2) - ψ(ν/2).

    x_i is Student-t of scale c_i: E[x_i²] = c² ν/(ν-2), E[x_i⁴] = 3 c⁴ ν²/((ν-2)(ν-4)).
    """
    axes, dim, nu = _axes(scales, True), len(scales), _FREEDOM
    inverse = np.linalg.inv(axes)

    def logdensity(x: Position) -> Array:
        z = jnp.asarray(inverse, x.dtype) @ x
        return -0.5 * (nu + dim) * jnp.log1p(jnp.sum(z**2) / nu)

    def draw(key: Array, n: int) -> Float[Array, "n dim"]:
        normal_key, scale_key = jax.random.split(key)
        shrink = jnp.sqrt(nu / (2 * jax.random.gamma(scale_key, nu / 2, (n, 1))))
        return (jax.random.normal(normal_key, (n, dim)) @ jnp.asarray(axes.T, float)) * shrink

    def truth() -> Truth:
        from scipy.special import digamma, gammaln

        spread = axes @ axes.T
        c2 = np.diag(spread)
        log_z = gammaln(nu / 2) - gammaln((nu + dim) / 2) + 0.5 * dim * math.log(nu * math.pi) + np.log(scales).sum()
        return Truth(
            float(-0.5 * (nu + dim) * (digamma((nu + dim) / 2) - digamma(nu / 2))),
            float(log_z),
            np.zeros(dim),
            nu / (nu - 2) * spread,
            square_variance=c2**2 * (3 * nu**2 / ((nu - 2) * (nu - 4)) - (nu / (nu - 2)) ** 2),
        )

    return Classic(title, dim, logdensity, draw, truth)


# The funnel --------------------------------------------------------------------------------------------------------


def funnel(x: Position) -> Array:
    """-v²/18 - Σ (½ x_i² e^-v + v/2), v the first coordinate."""
    v, rest = x[0], x[1:]
    return -0.5 * (v / 3) ** 2 - 0.5 * jnp.sum(rest**2) * jnp.exp(-v) - 0.5 * rest.shape[0] * v


def _draw_funnel(key: Array, n: int) -> Float[Array, "n dim"]:
    noise = jax.random.normal(key, (n, 10))
    v = 3 * noise[:, :1]
    return jnp.concatenate([v, jnp.exp(v / 2) * noise[:, 1:]], axis=-1)


def _funnel_truth() -> Truth:
    """E[x_i²] = E e^v = e^4.5, E[x_i⁴] = 3 E e^2v = 3 e^18."""
    variance = np.array([9.0] + 9 * [math.exp(4.5)])
    square = np.array([162.0] + 9 * [3 * math.exp(18) - math.exp(9)])
    log_z = math.log(3) + 5 * math.log(2 * math.pi)
    return Truth(-5.0, log_z, np.zeros(10), np.diag(variance), square_variance=square)


# Separate modes ----------------------------------------------------------------------------------------------------

MODE_WEIGHTS = np.array([0.6, 0.3, 0.1])
MODE_CENTRES = np.array([[-5.0, -3.0], [5.0, -2.0], [1.0, 6.0]])


def unequal_modes(x: Position) -> Array:
    """log Σ_k w_k N(x; c_k, I), normalised."""
    squares = jnp.sum((x[None, :] - jnp.asarray(MODE_CENTRES, x.dtype)) ** 2, axis=-1)
    return jax.nn.logsumexp(jnp.asarray(np.log(MODE_WEIGHTS), x.dtype) - 0.5 * squares) - math.log(2 * math.pi)


def _draw_modes(key: Array, n: int) -> Float[Array, "n dim"]:
    which_key, noise_key = jax.random.split(key)
    which = jax.random.choice(which_key, 3, (n,), p=jnp.asarray(MODE_WEIGHTS, float))
    return jnp.asarray(MODE_CENTRES, float)[which] + jax.random.normal(noise_key, (n, 2))


# The registry ------------------------------------------------------------------------------------------------------

_ILL = np.sqrt(np.geomspace(1 / math.sqrt(1000), math.sqrt(1000), 100))

CLASSICS = {
    "banana": _curved("banana", 0.0, 10.0, lambda x: 0.03 * (x**2 - 100), 1.0, _banana_truth),
    "rosenbrock": _curved("Rosenbrock", 1.0, 1.0, lambda x: x**2, math.sqrt(_Q), _rosenbrock_truth),
    "ill-conditioned": _normal("Gaussian, condition 1,000", _ILL, rotated=False),
    "ill-conditioned-rotated": _normal("the same, rotated", _ILL, rotated=True),
    "student-t": _student("t with 5 degrees of freedom, rotated", np.geomspace(0.3, 3.0, 20)),
    "funnel": Classic("Neal's funnel", 10, funnel, _draw_funnel, _funnel_truth),
    "unequal-modes": Classic(
        "three modes of 0.6, 0.3, 0.1",
        2,
        unequal_modes,
        _draw_modes,
        lambda: truth_by_quadrature(unequal_modes, ((-13.0, 13.0), (-11.0, 14.0))),
    ),
}
