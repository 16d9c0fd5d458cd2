"""The coordinates u that an image's chain moves in: x = centre + diag(scale) u, one centre and one scale per image.

In the encoder's coordinates, centre mean(y) and scale(y), the posteriors of all images are alike and wide, so that one
step size suits every image.
"""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Array, Float

from ..kernels.ensemble import BatchedDensity


class ImageCoordinates(NamedTuple):
    """x = centre + scale u, row by row: a diagonal chart per image, and where it begins."""

    centre: Float[Array, "n latents"]
    """Where u = 0."""
    scale: Float[Array, "n latents"]
    """How far x moves when u moves by one."""

    def position(self, u: Float[Array, "n latents"]) -> Float[Array, "n latents"]:
        """The latents x that belong to u."""
        return self.centre + self.scale * u

    def density(self, of_x: BatchedDensity) -> BatchedDensity:
        """log p(x, y) and its force along u, scale ∂_x log p(x, y), as functions of u."""

        def of_u(u: Float[Array, "n latents"]) -> tuple[Float[Array, "n"], Float[Array, "n latents"]]:
            value, force = of_x(self.position(u))
            return value, self.scale * force

        return of_u
