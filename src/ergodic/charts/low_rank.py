"""The low-rank chart x = diag(s) (I + U diag(t - 1) U') z with orthonormal columns U: O(d k) operations per particle.

Every coordinate has its scale, and k directions have a stretch of their own besides.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .rows import Rows


class LowRankChart(NamedTuple):
    """x = diag(scale) (I + U diag(stretch - 1) U') z."""

    scale: Float[Array, "*charts dim"]
    vectors: Float[Array, "*charts dim rank"]
    """U."""
    stretch: Float[Array, "*charts rank"]

    def _along(self, z: Rows, by: Array | np.ndarray) -> Rows:
        """(I + U diag(by - 1) U') z."""
        along: Rows = ((z @ self.vectors) * (by - 1)[None, :]) @ self.vectors.T
        return z + along

    def push(self, z: Rows) -> Rows:
        """The displacement A z of x that belongs to the displacement z."""
        return self._along(z, self.stretch) * self.scale[None, :]

    def pull(self, force: Rows) -> Rows:
        """The force A'f in z that belongs to the force f in x."""
        return self._along(force * self.scale[None, :], self.stretch)

    def whiten(self, x: Rows) -> Rows:
        """The displacement A⁻¹ x of z."""
        return self._along(x / self.scale[None, :], 1 / self.stretch)

    def log_volume(self) -> Float[Array, ""]:
        """log|det A|, by which densities in z and x differ."""
        return jnp.sum(jnp.log(self.scale)) + jnp.sum(jnp.log(self.stretch))

    def times(self, factor: float) -> LowRankChart:
        """The chart of factor · A."""
        return self._replace(scale=self.scale * factor)
