"""The coordinates that an image's chain moves in: x = centre + A u, with one centre and one diagonal chart A per image.

In the encoder's coordinates, centre mean(y) and A = diag(scale(y)), the posteriors of all images are alike and wide, so
that one step size suits every image.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
from jaxtyping import Array, Float

from ..charts.linear import Diagonal
from ..kernels.ensemble import BatchedDensity


class ImageCoordinates(NamedTuple):
    """x = centre + A u, row by row."""

    centre: Float[Array, "n latents"]
    chart: Diagonal
    """A, the library's diagonal chart of every image, stacked."""

    @staticmethod
    def of(centre: Float[Array, "n latents"], scale: Float[Array, "n latents"]) -> ImageCoordinates:
        """The coordinates with A = diag(scale) of every image."""
        return ImageCoordinates(centre, Diagonal(scale))

    def position(self, u: Float[Array, "n latents"]) -> Float[Array, "n latents"]:
        """The latents x that belong to u."""
        return self.centre + jax.vmap(Diagonal.push)(self.chart, u[:, None, :])[:, 0]

    def density(self, of_x: BatchedDensity) -> BatchedDensity:
        """log p(x, y) and its force A'f, as functions of u."""

        def of_u(u: Float[Array, "n latents"]) -> tuple[Float[Array, "n"], Float[Array, "n latents"]]:
            value, force = of_x(self.position(u))
            return value, jax.vmap(Diagonal.pull)(self.chart, force[:, None, :])[:, 0]

        return of_u
