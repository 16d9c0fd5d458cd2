"""P0, where chains start: a diagonal Gaussian with tractable sampling, density and entropy (section 3).

x0 = mean + scale * ε,    ε ~ N(0, I)            (the paper's f_φ0(ε), equation 7)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from ..protocols import AnyTarget
from ..runtime.errors import ConfigError

Numbers = float | Sequence[float] | np.ndarray | Array
"""One number for all coordinates, or one per coordinate."""


class DiagonalGaussian(NamedTuple):
    """N(mean, diag(exp(log_scale)²)); φ0 = (mean, log_scale)."""

    mean: Float[Array, "dim"]
    log_scale: Float[Array, "dim"]

    def transform(self, noise: Float[Array, "particles dim"]) -> Float[Array, "particles dim"]:
        """f_φ0(ε): standard normal noise to positions."""
        return self.mean[None, :] + jnp.exp(self.log_scale)[None, :] * noise

    def sample(self, key: Array, particles: int) -> Float[Array, "particles dim"]:
        """Draw independent starting positions."""
        return self.transform(jax.random.normal(key, (particles, self.mean.shape[0]), self.mean.dtype))

    def sample_on_host(self, rng: np.random.Generator, particles: int) -> np.ndarray:
        """The same without a compiled program."""
        mean, log_scale = np.asarray(self.mean), np.asarray(self.log_scale)
        return (mean + np.exp(log_scale) * rng.normal(size=(particles, len(mean)))).astype(mean.dtype)

    def logdensity(self, x: Float[Array, "particles dim"]) -> Float[Array, "particles"]:
        """log p0(x), normalised, of every particle."""
        z = (x - self.mean[None, :]) * jnp.exp(-self.log_scale)[None, :]
        normaliser = jnp.sum(self.log_scale) + 0.5 * self.mean.shape[0] * math.log(2 * math.pi)
        return -0.5 * jnp.sum(z**2, axis=-1) - normaliser

    def entropy(self) -> Float[Array, ""]:
        """H(P0) = Σ log scale + d/2 log(2πe)."""
        return jnp.sum(self.log_scale) + 0.5 * self.mean.shape[0] * math.log(2 * math.pi * math.e)


def diagonal(mean: Numbers, scale: Numbers, dim: int, dtype: DTypeLike) -> DiagonalGaussian:
    """P0 from settings: one number for every coordinate, or one per coordinate."""

    def vector(value: Numbers, what: str) -> Array:
        array = np.asarray(value, dtype)
        if array.ndim > 0 and array.shape != (dim,):
            raise ConfigError(f"{what} has {array.size} values for a target of dimension {dim}")
        return jnp.asarray(np.broadcast_to(array, (dim,)))

    return DiagonalGaussian(vector(mean, "initial_mean"), vector(np.log(scale), "initial_scale"))


def starting(
    target: AnyTarget, mean: Numbers | None = None, scale: Numbers | None = None, default_scale: float = 1.0
) -> DiagonalGaussian:
    """P0 as a method's settings say; where they say nothing, the target's prior; without one, N(0, default_scale²)."""
    prior = target.prior
    if mean is None:
        mean = 0.0 if prior is None else prior.mean
    if scale is None:
        scale = default_scale if prior is None else np.exp(prior.log_scale)
    return diagonal(mean, scale, target.dim, target.dtype)


def scale_for_entropy(entropy: float, dim: int) -> float:
    """The common scale at which an isotropic Gaussian in ``dim`` dimensions has this entropy (in nats)."""
    return math.exp(entropy / dim - 0.5 * math.log(2 * math.pi * math.e))
