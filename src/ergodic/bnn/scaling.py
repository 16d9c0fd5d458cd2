"""Standardising a table by its training rows, and the way back to the target's own units."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .network import Data


class Scaling(NamedTuple):
    """Means and standard deviations of training rows; a column that does not vary is left at 0."""

    x_mean: Float[np.ndarray, "features"]
    x_scale: Float[np.ndarray, "features"]
    y_mean: float
    y_scale: float

    @staticmethod
    def of(x: Float[np.ndarray, "rows features"], y: Float[np.ndarray, "rows"]) -> Scaling:
        """The scaling that training rows ask for."""
        x_scale, y_scale = x.std(axis=0), float(y.std())
        return Scaling(x.mean(axis=0), np.where(x_scale > 0, x_scale, 1.0), float(y.mean()), y_scale or 1.0)

    def data(self, x: Float[np.ndarray, "rows features"], y: Float[np.ndarray, "rows"]) -> Data:
        """Rows as the network sees them."""
        outputs = (y - self.y_mean) / self.y_scale
        return Data(jnp.asarray(self.inputs(x)), jnp.asarray(outputs, jnp.float32))

    def inputs(self, x: Float[np.ndarray, "rows features"]) -> np.ndarray:
        """Raw inputs as the network sees them."""
        return np.asarray((x - self.x_mean) / self.x_scale, np.float32)
