"""The dense chart x = A z with any invertible matrix A: O(d²) operations per particle."""

from __future__ import annotations

import math
from typing import NamedTuple

from jaxtyping import Array, Float

from .rows import Rows


class DenseChart(NamedTuple):
    """x = root z; the inverse and log|det A| are known where the chart is made, and come along."""

    root: Float[Array, "*charts dim dim"]
    """A."""
    inverse: Float[Array, "*charts dim dim"]
    log_det: Float[Array, "*charts"]

    def push(self, z: Rows) -> Rows:
        """The displacement A z of x that belongs to the displacement z."""
        return z @ self.root.T

    def pull(self, force: Rows) -> Rows:
        """The force A'f in z that belongs to the force f in x."""
        return force @ self.root

    def whiten(self, x: Rows) -> Rows:
        """The displacement A⁻¹ x of z."""
        return x @ self.inverse.T

    def log_volume(self) -> Float[Array, ""]:
        """log|det A|, by which densities in z and x differ."""
        return self.log_det

    def times(self, factor: float) -> DenseChart:
        """The chart of factor · A."""
        dim = self.root.shape[-1]
        return DenseChart(self.root * factor, self.inverse / factor, self.log_det + dim * math.log(factor))
