"""Hamiltonian VI as an encoder (Salimans, Kingma & Welling 2015): T = 1 transition of 16 leapfrogs after q(x | y).

The reverse model r(v | z, y) is one hidden layer of 640 relu units that sees latents and image, as in section 4.2. The
bound is that of `tuning/hvi_elbo.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
from jaxtyping import Array, Float

from ..kernels import HMC, start
from ..runtime.validation import numbers, positive_float, positive_int, settle
from ..tuning.hvi_elbo import reversed_bound
from ..tuning.mlp import init_mlp
from .architectures import Architecture
from .decoders import Decoder
from .joint import Parameters, joint
from .variational import Variational


@dataclass(frozen=True)
class HVI(Variational):
    """Settings.

    Attributes:
      steps, leapfrogs: T and L.
      hidden: units of a step's reverse network.
      step_size: range from which the first step sizes are drawn.
    """

    steps: int = 1
    leapfrogs: int = 16
    hidden: int = 640
    step_size: tuple[float, float] = (0.01, 0.025)

    name: ClassVar[str] = "HVI"

    def __post_init__(self) -> None:
        settle(
            self,
            **dict.fromkeys(("steps", "leapfrogs", "hidden"), positive_int),
            step_size=numbers(positive_float, 2),
        )

    def init(self, architecture: Architecture, key: Array) -> Parameters:
        """An encoder, step sizes, and reverse networks that predict the momentum's prior."""
        encoder_key, chain_key, network_key = jax.random.split(key, 3)
        encoder = architecture.encoder(encoder_key)
        dim, dtype = architecture.latents, encoder.head.bias.dtype

        def network(key: Array) -> Any:
            return init_mlp(key, dim + architecture.pixels, self.hidden, 2 * dim, dtype)

        return {
            "encoder": encoder,
            "transitions": HMC(self.leapfrogs).init(chain_key, self.steps, dim, dtype, self.step_size),
            "reverse": jax.vmap(network)(jax.random.split(network_key, self.steps)),
        }

    def run(
        self, decoder: Decoder, parameters: Parameters, images: Float[Array, "n pixels"], key: Array
    ) -> tuple[Float[Array, "n"], Float[Array, "n latents"]]:
        """The bound's integrand, and latents after the leapfrogs."""
        start_key, chain_key = jax.random.split(key)
        density, posterior = joint(decoder, images), parameters["encoder"](images)
        x = posterior.draw(start_key)
        bound, end = reversed_bound(
            density,
            self.leapfrogs,
            parameters["transitions"],
            parameters["reverse"],
            start(density, x),
            posterior.logdensity(x),
            chain_key,
            datum=images,
        )
        return bound, end.position
