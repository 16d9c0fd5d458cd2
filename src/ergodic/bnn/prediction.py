"""What sampled networks predict together: a mixture of Gaussians per row, in the target's own units.

p(y | x) = 1/K Σ_k N(y; f(x; w_k), 1/τ_k)
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float
from scipy.special import logsumexp, ndtr

from ..runtime.programs import compiled
from .network import RegressionNetwork
from .scaling import Scaling

_HALVINGS = 50


class Mixture(NamedTuple):
    """The predictive distribution of every row."""

    means: Float[np.ndarray, "networks rows"]
    scales: Float[np.ndarray, "networks"]
    """The noise's standard deviation of each network."""

    @property
    def mean(self) -> Float[np.ndarray, "rows"]:
        """E[y | x] of every row."""
        return self.means.mean(axis=0)

    @property
    def sd(self) -> Float[np.ndarray, "rows"]:
        """Standard deviation of y given x: noise and disagreement of networks."""
        return np.sqrt(np.mean(self.scales**2) + self.means.var(axis=0))

    def log_likelihood(self, y: Float[np.ndarray, "rows"]) -> Float[np.ndarray, "rows"]:
        """log p(y | x) of every row."""
        z = (y[None, :] - self.means) / self.scales[:, None]
        terms = -0.5 * z**2 - np.log(self.scales)[:, None] - 0.5 * np.log(2 * np.pi)
        return np.asarray(logsumexp(terms, axis=0) - np.log(len(self.scales)))

    def quantile(self, level: float) -> Float[np.ndarray, "rows"]:
        """The value below which y lies with this probability, by bisection."""
        low = (self.means - 40 * self.scales[:, None]).min(axis=0)
        high = (self.means + 40 * self.scales[:, None]).max(axis=0)
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            below = ndtr((middle[None, :] - self.means) / self.scales[:, None]).mean(axis=0) < level
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return 0.5 * (low + high)

    def coverage(self, y: Float[np.ndarray, "rows"], probability: float) -> float:
        """The part of rows whose y lies in the central interval of this probability."""
        tail = (1 - probability) / 2
        return float(np.mean((y >= self.quantile(tail)) & (y <= self.quantile(1 - tail))))

    def rmse(self, y: Float[np.ndarray, "rows"]) -> float:
        """Root mean squared error of the mean prediction."""
        return float(np.sqrt(np.mean((y - self.mean) ** 2)))


def predict(network: RegressionNetwork, positions: np.ndarray, scaling: Scaling, x: np.ndarray) -> Mixture:
    """The mixture over networks at ``positions``, ``(networks, dim)``, for raw inputs."""
    args = (np.asarray(positions, np.float32), scaling.inputs(x))
    means = np.asarray(compiled(_means, (network,), *args)(*args), np.float64)
    noise = np.exp(-0.5 * np.asarray(positions, np.float64)[:, network.noise_index])
    return Mixture(scaling.y_mean + scaling.y_scale * means, scaling.y_scale * noise)


def _means(network: RegressionNetwork, positions: Array, x: Array) -> Array:
    return jax.vmap(lambda flat: network.mean(network.layout.unravel(flat), x))(positions)


def score(mixture: Mixture, y: np.ndarray) -> dict[str, float]:
    """What a split is judged by."""
    return {
        "log_likelihood": float(mixture.log_likelihood(y).mean()),
        "rmse": mixture.rmse(y),
        "coverage_50": mixture.coverage(y, 0.5),
        "coverage_90": mixture.coverage(y, 0.9),
    }
