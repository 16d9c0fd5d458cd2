"""P0 through coordinates: x = C(u) with u from a distribution that is known, so its density in x is known too.

log p(x) = log p_u(u) - log|det ∂x/∂u|,      H(x) = H(u) + E[log|det ∂x/∂u|]
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..charts.coordinates import Coordinates
from ..protocols import Initial

_FOR_ENTROPY = 1024


class Pushed(NamedTuple):
    """The distribution of C(u)."""

    inside: Initial
    coordinates: Coordinates

    def sample(self, key: Array, particles: int) -> Float[Array, "particles dim"]:
        """Draw independent starting positions."""
        return self.coordinates.forward(self.inside.sample(key, particles))[0]

    def sample_on_host(self, rng: np.random.Generator, particles: int) -> np.ndarray:
        """The same without a compiled program."""
        return self.coordinates.on_host().forward(self.inside.sample_on_host(rng, particles))[0]

    def logdensity(self, x: Float[Array, "particles dim"]) -> Float[Array, "particles"]:
        """log p0(x) of every particle."""
        u = self.coordinates.inverse(x)
        return self.inside.logdensity(u) - self.coordinates.forward(u)[1]

    def entropy(self) -> Float[Array, ""]:
        """H(P0), its mean volume over 1,024 fixed draws."""
        u = self.inside.sample_on_host(np.random.default_rng(0), _FOR_ENTROPY)
        volume = np.mean(self.coordinates.on_host().forward(u)[1])
        return jnp.asarray(np.asarray(self.inside.entropy()) + volume)
