"""The diagonal chart x = s z, coordinate by coordinate: O(d) operations per particle."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from .rows import Rows


class DiagonalChart(NamedTuple):
    """x = diag(scale) z."""

    scale: Float[Array, "*charts dim"]

    def push(self, z: Rows) -> Rows:
        """The displacement A z of x that belongs to the displacement z."""
        return z * self.scale[None, :]

    def pull(self, force: Rows) -> Rows:
        """The force A'f in z that belongs to the force f in x."""
        return force * self.scale[None, :]

    def whiten(self, x: Rows) -> Rows:
        """The displacement A⁻¹ x of z."""
        return x / self.scale[None, :]

    def log_volume(self) -> Float[Array, ""]:
        """log|det A|, by which densities in z and x differ."""
        return jnp.sum(jnp.log(self.scale))

    def times(self, factor: float) -> DiagonalChart:
        """The chart of factor · A."""
        return DiagonalChart(self.scale * factor)
