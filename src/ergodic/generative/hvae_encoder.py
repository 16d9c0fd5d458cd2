"""The Hamiltonian variational autoencoder (Caterini, Doucet & Sejdinovic 2018): leapfrogs with one momentum after q.

Without tempering as the paper runs it, or with fixed tempering as its authors recommend; `tuning/hvae_elbo.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..kernels import Ensemble
from ..kernels.ensemble import BatchedDensity
from ..runtime.validation import choice, settle
from ..tuning.hvae_elbo import TEMPERINGS, hvae_bound
from .architectures import Architecture
from .bounded_encoder import HamiltonianEncoder
from .encoders import ImageGaussians
from .joint import Parameters


@dataclass(frozen=True)
class HVAEEncoder(HamiltonianEncoder):
    """Settings of the Hamiltonian variational autoencoder.

    Attributes:
      leapfrogs: K, the number of leapfrogs.
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
        settle(self, tempering=choice(*TEMPERINGS))

    def init(self, architecture: Architecture, key: Array) -> Parameters:
        """An encoder network, and one step size per latent."""
        encoder = architecture.encoder(key)
        step = jnp.full(architecture.latents, math.log(self.step_size), encoder.head.bias.dtype)
        return {"encoder": encoder, "log_step": step}

    def flow(
        self,
        density: BatchedDensity,
        parameters: Parameters,
        initial: ImageGaussians,
        begin: Ensemble,
        images: Float[Array, "n pixels"],
        key: Array,
    ) -> tuple[Float[Array, "n"], Ensemble]:
        """The bound with one momentum per particle, and the particles after K leapfrogs."""
        return hvae_bound(
            *(density, begin, initial.entropy(), parameters["log_step"], key),
            leapfrogs=self.leapfrogs,
            tempering=self.tempering,
            temperature=self.temperature,
        )
