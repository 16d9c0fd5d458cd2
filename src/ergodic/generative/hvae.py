"""The Hamiltonian variational autoencoder (Caterini, Doucet & Sejdinovic 2018): leapfrogs with one momentum after q.

Without tempering as the paper runs it, or with fixed tempering as its authors recommend; `tuning/hvae_elbo.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..kernels import start
from ..runtime.validation import choice, positive_float, positive_int, settle
from ..tuning.hvae_elbo import TEMPERINGS, hvae_bound
from .architectures import Architecture
from .decoders import Decoder
from .joint import Parameters, joint
from .variational import Variational


@dataclass(frozen=True)
class HVAE(Variational):
    """Settings.

    Attributes:
      leapfrogs: K.
      tempering: ``"none"`` or ``"fixed"``.
      temperature: T0, with fixed tempering.
      step_size: the first step size.
    """

    leapfrogs: int = 16
    tempering: str = "none"
    temperature: float = 2.0
    step_size: float = 0.02

    name: ClassVar[str] = "HVAE"

    def __post_init__(self) -> None:
        settle(
            self,
            leapfrogs=positive_int,
            tempering=choice(*TEMPERINGS),
            temperature=positive_float,
            step_size=positive_float,
        )

    def init(self, architecture: Architecture, key: Array) -> Parameters:
        """An encoder and step sizes."""
        encoder = architecture.encoder(key)
        step = jnp.full(architecture.latents, math.log(self.step_size), encoder.head.bias.dtype)
        return {"encoder": encoder, "log_step": step}

    def run(
        self, decoder: Decoder, parameters: Parameters, images: Float[Array, "n pixels"], key: Array
    ) -> tuple[Float[Array, "n"], Float[Array, "n latents"]]:
        """The bound's integrand, and latents after the leapfrogs."""
        start_key, momentum_key = jax.random.split(key)
        density, posterior = joint(decoder, images), parameters["encoder"](images)
        x = posterior.draw(start_key)
        bound, end = hvae_bound(
            density,
            start(density, x),
            posterior.entropy(),
            parameters["log_step"],
            momentum_key,
            leapfrogs=self.leapfrogs,
            tempering=self.tempering,
            temperature=self.temperature,
        )
        return bound, end.position
