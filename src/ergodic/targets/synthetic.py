"""The six bivariate targets of section 4.1, and the Gaussian of section 3.3, which is one of them.

The paper names them only (a) to (f). Its published estimates of -E[log π*] identify (a) to (d) among the targets in its
authors' later code; (e) and (f) are of the wave family. As printed there the waves have no mass limit in x1, so they
get a Gaussian envelope N(0, 2²) in x1 here, and their truth is computed with it. Each target is a density, a box that
holds its mass, and a way to draw from it exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..target import Target
from .quadrature import Box, truth_by_quadrature

Point = Float[Array, "2"]
Points = Float[Array, "n 2"]


class Synthetic(NamedTuple):
    """A bivariate benchmark: log π*, exact draws, the box for quadrature, and the box the paper would have cut."""

    letter: str
    title: str
    logdensity: Callable[[Point], Array]
    draw: Callable[[Array, int], Points]
    box: Box
    view: Box
    """The part worth looking at: plots, and rejection sampling as the paper does it."""
    log_bound: float
    """A number at or above max log π*, for rejection sampling."""
    dim: int = 2
    collection: str | None = None

    def target(self, name: str) -> Target:
        """Make a `Target` of it, whose truth is computed when first asked for."""

        def draw(key: Array, n: int) -> np.ndarray:
            return np.asarray(self.draw(key, n))

        return Target(
            self.logdensity,
            like=jnp.zeros(2),
            name=name,
            names=("x1", "x2"),
            truth=lambda: truth_by_quadrature(self.logdensity, self.box, draw),
        )


# (a) ---------------------------------------------------------------------------------------------------------------


def laplace(x: Point) -> Array:
    """Independent Laplace with scale 1 at (5, 5), normalised: -|x1-5| - |x2-5| - 2 log 2."""
    return -jnp.sum(jnp.abs(x - 5.0)) - 2 * math.log(2)


def _draw_laplace(key: Array, n: int) -> Points:
    return 5.0 + jax.random.laplace(key, (n, 2))


# (b) ---------------------------------------------------------------------------------------------------------------


def dual_moon(x: Point) -> Array:
    """-½ ((|x| - 2)/0.4)² + log(exp(-½ ((x1+2)/0.6)²) + exp(-½ ((x1-2)/0.6)²))."""
    radius = jnp.sqrt(jnp.sum(x**2) + 1e-12)  # differentiable at the origin
    ring = -0.5 * ((radius - 2) / 0.4) ** 2
    return ring + jnp.logaddexp(-0.5 * ((x[0] + 2) / 0.6) ** 2, -0.5 * ((x[0] - 2) / 0.6) ** 2)


def _draw_dual_moon(key: Array, n: int) -> Points:
    """Exact rejection without a box: since |x| >= |x2|, x1 from its mixture and x2 from an envelope of the ring.

    The envelope is 1 for |x2| <= 2 and exp(-½ ((|x2|-2)/0.4)²) beyond: uniform with two half-Gaussian tails.
    """
    tail_mass = 0.4 * math.sqrt(2 * math.pi)

    def propose(key: Array, m: int) -> tuple[Points, Array]:
        side_key, x1_key, piece_key, inner_key, tail_key, accept_key = jax.random.split(key, 6)
        x1 = 2 * jax.random.rademacher(side_key, (m,), float) + 0.6 * jax.random.normal(x1_key, (m,))
        tail = 0.4 * jax.random.normal(tail_key, (m,))
        inner = jax.random.uniform(piece_key, (m,)) < 4 / (4 + tail_mass)
        x2 = jnp.where(inner, jax.random.uniform(inner_key, (m,), minval=-2.0, maxval=2.0), tail + 2 * jnp.sign(tail))
        ring = -0.5 * ((jnp.sqrt(x1**2 + x2**2) - 2) / 0.4) ** 2
        envelope = -0.5 * (jnp.maximum(jnp.abs(x2) - 2, 0) / 0.4) ** 2
        accepted = jnp.log(jax.random.uniform(accept_key, (m,))) < ring - envelope
        return jnp.stack([x1, x2], axis=-1), accepted

    kept: list[np.ndarray] = []
    while sum(map(len, kept)) < n:
        key, batch_key = jax.random.split(key)
        x, accepted = propose(batch_key, 2 * n + 1000)
        kept.append(np.asarray(x)[np.asarray(accepted)])
    return jnp.asarray(np.concatenate(kept)[:n])


# (c) ---------------------------------------------------------------------------------------------------------------

_ANGLES = 2 * np.pi * np.arange(7) / 7
RING_CENTRES = 5.0 * np.stack([np.cos(_ANGLES), np.sin(_ANGLES)], axis=-1)


def ring(x: Point) -> Array:
    """Seven unit Gaussians with equal weights on a circle of radius 5, normalised."""
    squares = jnp.sum((x[None, :] - jnp.asarray(RING_CENTRES, x.dtype)) ** 2, axis=-1)
    return jax.nn.logsumexp(-0.5 * squares) - math.log(7 * 2 * math.pi)


def _draw_ring(key: Array, n: int) -> Points:
    which_key, noise_key = jax.random.split(key)
    which = jax.random.randint(which_key, (n,), 0, 7)
    return jnp.asarray(RING_CENTRES, float)[which] + jax.random.normal(noise_key, (n, 2))


# (d), and section 3.3 ----------------------------------------------------------------------------------------------

GAUSSIAN_COVARIANCE = np.array([[2.0, 1.5], [1.5, 1.6]])


def gaussian(x: Point) -> Array:
    """The correlated Gaussian of section 3.3, N(0, (2, 1.5; 1.5, 1.6)), unnormalised: -½ x' Σ⁻¹ x."""
    return -0.5 * x @ jnp.asarray(np.linalg.inv(GAUSSIAN_COVARIANCE), x.dtype) @ x


def _draw_gaussian(key: Array, n: int) -> Points:
    root = jnp.asarray(np.linalg.cholesky(GAUSSIAN_COVARIANCE), float)
    return jax.random.normal(key, (n, 2)) @ root.T


# (e), (f): the waves -----------------------------------------------------------------------------------------------

ENVELOPE_SCALE = 2.0


def _wave(x1: Array) -> Array:
    return jnp.sin(0.5 * math.pi * x1)


def _envelope(x1: Array) -> Array:
    return -0.5 * (x1 / ENVELOPE_SCALE) ** 2


def wave1(x: Point) -> Array:
    """-½ ((x2 + sin(π x1/2))/0.4)², with the envelope in x1."""
    return -0.5 * ((x[1] + _wave(x[0])) / 0.4) ** 2 + _envelope(x[0])


def _bump2(x1: Array) -> Array:
    return 3 * jnp.exp(-0.5 * ((x1 - 1) / 0.6) ** 2)


def wave2(x: Point) -> Array:
    """The sum of two waves of width 0.35, one lifted by a bump at x1 = 1, with the envelope in x1."""
    low = x[1] + _wave(x[0])
    high = low - _bump2(x[0])
    return jnp.logaddexp(-0.5 * (low / 0.35) ** 2, -0.5 * (high / 0.35) ** 2) + _envelope(x[0])


def _step3(x1: Array) -> Array:
    return 3 * jax.nn.sigmoid((x1 - 1) / 0.3)


def wave3(x: Point) -> Array:
    """The sum of a wave of width 0.4 and one of width 0.35 lifted by a step at x1 = 1, with the envelope in x1."""
    low = x[1] + _wave(x[0])
    high = low - _step3(x[0])
    return jnp.logaddexp(-0.5 * (low / 0.4) ** 2, -0.5 * (high / 0.35) ** 2) + _envelope(x[0])


def _draw_waves(lift: Callable[[Array], Array], low_width: float, high_width: float) -> Callable[[Array, int], Points]:
    """Given x1 each wave is a Gaussian in x2 with its width as mass: x1 keeps the envelope, the mixture is exact."""

    def draw(key: Array, n: int) -> Points:
        x1_key, which_key, noise_key = jax.random.split(key, 3)
        x1 = ENVELOPE_SCALE * jax.random.normal(x1_key, (n,))
        high = jax.random.uniform(which_key, (n,)) < high_width / (low_width + high_width)
        centre = -_wave(x1) + jnp.where(high, lift(x1), 0)
        width = jnp.where(high, high_width, low_width)
        return jnp.stack([x1, centre + width * jax.random.normal(noise_key, (n,))], axis=-1)

    return draw


# The registry's rows -----------------------------------------------------------------------------------------------

_WAVE_BOX: Box = ((-14.0, 14.0), (-6.0, 8.0))
_WAVE_VIEW: Box = ((-6.0, 6.0), (-3.0, 5.0))

SYNTHETIC = {
    "laplace": Synthetic(
        "a",
        "Laplace at (5, 5)",
        laplace,
        _draw_laplace,
        ((-25.0, 35.0), (-25.0, 35.0)),
        ((0.0, 10.0), (0.0, 10.0)),
        -1.386,
    ),
    "dual-moon": Synthetic(
        "b",
        "dual moon",
        dual_moon,
        _draw_dual_moon,
        ((-7.0, 7.0), (-6.0, 6.0)),
        ((-4.0, 4.0), (-4.0, 4.0)),
        0.001,
    ),
    "ring": Synthetic(
        "c",
        "seven Gaussians on a ring",
        ring,
        _draw_ring,
        ((-13.0, 13.0), (-13.0, 13.0)),
        ((-8.0, 8.0), (-8.0, 8.0)),
        -3.77,
    ),
    "gaussian": Synthetic(
        "d",
        "correlated Gaussian",
        gaussian,
        _draw_gaussian,
        ((-12.0, 12.0), (-12.0, 12.0)),
        ((-5.0, 5.0), (-5.0, 5.0)),
        0.0,
    ),
    "wave1": Synthetic("e", "wave", wave1, _draw_waves(lambda x1: 0 * x1, 0.4, 0.4), _WAVE_BOX, _WAVE_VIEW, 0.0),
    "wave2": Synthetic("f", "wave with a bump", wave2, _draw_waves(_bump2, 0.35, 0.35), _WAVE_BOX, _WAVE_VIEW, 0.694),
    "wave3": Synthetic("", "wave with a step", wave3, _draw_waves(_step3, 0.4, 0.35), _WAVE_BOX, _WAVE_VIEW, 0.694),
}
PAPER_SIX = ("laplace", "dual-moon", "ring", "gaussian", "wave1", "wave2")
