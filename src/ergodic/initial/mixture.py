"""P0 from an ensemble: a mixture of equal Gaussians, one around each of K centres, x0 = c_k + A ε.

The centres are an ensemble's positions drawn towards their mean by √(1-h²), the noise has h² times a covariance AA' of
the ensemble, so that the mixture has about the ensemble's own mean and covariance whatever h is (West 1993): a smoothed
bootstrap. Silverman's h for Gaussians, (4/((d+2) K))^(1/(d+4)), is small in few dimensions, where a curved or skewed
ensemble is then followed closely, and near 1 in many, where the mixture is all but one Gaussian. One centre is one.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..charts import LinearChart
from ..runtime.noise import noise

_BLOCK = 256
_FOR_ENTROPY = 1024


class KernelMixture(NamedTuple):
    """(1/K) Σ_k N(c_k, AA')."""

    centres: Float[Array, "centres dim"]
    chart: LinearChart
    """A."""

    @staticmethod
    def around(position: np.ndarray, chart: LinearChart) -> KernelMixture:
        """The smoothed bootstrap of an ensemble whose covariance is about AA'."""
        count, dim = position.shape
        width = min(1.0, (4 / ((dim + 2) * count)) ** (1 / (dim + 4)))
        mean = np.mean(position, axis=0)
        centres = mean + np.asarray(math.sqrt(1 - width**2), position.dtype) * (position - mean)
        return KernelMixture(jnp.asarray(centres), chart.times(width))

    def sample(self, key: Array, particles: int) -> Float[Array, "particles dim"]:
        """Draw independent starting positions."""
        count, dim = self.centres.shape
        normal, uniform = noise(key, particles, dim, 1, self.centres.dtype)
        which = jnp.minimum((count * uniform[:, 0]).astype(jnp.int32), count - 1)
        return self.centres[which] + self.chart.push(normal)

    def sample_on_host(self, rng: np.random.Generator, particles: int) -> np.ndarray:
        """The same without a compiled program."""
        centres, chart = self._on_host()
        noise = rng.normal(size=(particles, centres.shape[1])).astype(centres.dtype)
        return centres[rng.integers(len(centres), size=particles)] + chart.push(noise)

    def logdensity(self, x: Float[Array, "particles dim"]) -> Float[Array, "particles"]:
        """log p0(x), some centres at a time."""
        count, dim = self.centres.shape
        z, centres = self.chart.whiten(x), self.chart.whiten(self.centres)
        size = math.gcd(count, _BLOCK)

        def block(total: Array, some: Array) -> tuple[Array, None]:
            distance = jnp.sum((z[:, None, :] - some[None, :, :]) ** 2, axis=-1)
            return jnp.logaddexp(total, jax.nn.logsumexp(-0.5 * distance, axis=1)), None

        nothing = jnp.full(x.shape[0], -jnp.inf, x.dtype)
        total, _ = jax.lax.scan(block, nothing, centres.reshape(-1, size, dim))
        return total - self.chart.log_volume() - 0.5 * dim * math.log(2 * math.pi) - math.log(count)

    def entropy(self) -> Float[Array, ""]:
        """H(P0): exactly for one centre, else -E[log p0] over 1,024 fixed draws, on the host."""
        count, dim = self.centres.shape
        if count == 1:
            return self.chart.log_volume() + 0.5 * dim * math.log(2 * math.pi * math.e)
        draws, (centres, chart) = self.sample_on_host(np.random.default_rng(0), _FOR_ENTROPY), self._on_host()
        z, inside = (np.asarray(chart.whiten(x), np.float64) for x in (draws, centres))
        z, inside = z - inside.mean(axis=0), inside - inside.mean(axis=0)
        distance = (z**2).sum(axis=1)[:, None] + (inside**2).sum(axis=1)[None, :] - 2 * z @ inside.T
        nearest = distance.min(axis=1, keepdims=True)
        total = np.log(np.exp(0.5 * (nearest - distance)).mean(axis=1)) - 0.5 * nearest[:, 0]
        volume = float(self.chart.log_volume()) + 0.5 * dim * math.log(2 * math.pi)
        return jnp.asarray(volume - total.mean(), centres.dtype)

    def _on_host(self) -> tuple[np.ndarray, LinearChart]:
        return jax.device_get((self.centres, self.chart))
