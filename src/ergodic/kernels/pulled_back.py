"""A density in other coordinates: log π*(x(u)) + log|det ∂x/∂u|, with its force, of a whole ensemble."""

from __future__ import annotations

from jaxtyping import Array, Float

from ..charts.coordinates import Coordinates
from .ensemble import BatchedDensity


def pulled_back(density: BatchedDensity, coordinates: Coordinates) -> BatchedDensity:
    """The density in u, with its force."""
    if not coordinates.each():
        return density

    def batched(
        u: Float[Array, "particles dim"],
    ) -> tuple[Float[Array, "particles"], Float[Array, "particles dim"]]:
        return coordinates.within(u, density)

    return batched
