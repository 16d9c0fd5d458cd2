"""Hamiltonian VI as an encoder (Salimans, Kingma & Welling 2015): T = 1 transition of 16 leapfrogs after q(x | y).

The reverse model r(v | z, y) is one hidden layer of 640 relu units that sees latents and image, as in section 4.2. The
bound is that of `tuning/hvi_elbo.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax
from jaxtyping import Array, Float

from ..kernels import HMC, Ensemble
from ..kernels.ensemble import BatchedDensity
from ..runtime.validation import settle
from ..tuning.hvi_elbo import reversed_bound
from ..tuning.mlp import MLP, init_mlp
from .architectures import Architecture
from .bounded_encoder import HamiltonianEncoder
from .encoders import ImageGaussians
from .joint import Parameters


@dataclass(frozen=True)
class HVIEncoder(HamiltonianEncoder):
    """Settings of Hamiltonian variational inference as an encoder.

    Attributes:
      steps: T, the number of transitions.
      leapfrogs: L, sub-steps per transition.
      hidden: units of the reverse network of each transition.
      step_size: range from which the first step sizes are drawn.
    """

    steps: int = 1
    leapfrogs: int = 16
    hidden: int = 640
    step_size: tuple[float, float] = (0.01, 0.025)

    name: ClassVar[str] = "HVI"

    def __post_init__(self) -> None:
        settle(self)

    def init(self, architecture: Architecture, key: Array) -> Parameters:
        """An encoder network, step sizes, and reverse networks that predict the momentum's prior."""
        encoder_key, chain_key, network_key = jax.random.split(key, 3)
        encoder = architecture.encoder(encoder_key)
        dim, dtype = architecture.latents, encoder.head.bias.dtype

        def network(key: Array) -> MLP:
            return init_mlp(key, dim + architecture.pixels, self.hidden, 2 * dim, dtype)

        return {
            "encoder": encoder,
            "transitions": HMC(self.leapfrogs).init(chain_key, self.steps, dim, dtype, self.step_size),
            "reverse": jax.vmap(network)(jax.random.split(network_key, self.steps)),
        }

    def flow(
        self,
        density: BatchedDensity,
        parameters: Parameters,
        initial: ImageGaussians,
        begin: Ensemble,
        images: Float[Array, "n pixels"],
        key: Array,
    ) -> tuple[Float[Array, "n"], Ensemble]:
        """The bound with a reverse model that sees the image, and the particles after T transitions."""
        chain, log_q = (parameters["transitions"], parameters["reverse"]), initial.logdensity(begin.position)
        return reversed_bound(density, self.leapfrogs, *chain, begin, log_q, key, datum=images)
