"""The variational autoencoder (Kingma & Welling 2014): the paper's baseline, and the start of a warm chain.

ELBO(y) = E_q(x|y)[ log p(y | x) + log p(x) ] + H(q(x | y)),    x = mean(y) + scale(y) ε
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Array, Float

from .architectures import Architecture
from .bounded_encoder import BoundedEncoder
from .decoders import Decoder
from .joint import Parameters, log_prior


@dataclass(frozen=True)
class VAEEncoder(BoundedEncoder):
    """A diagonal Gaussian per image, from the architecture's encoder network; it has no settings."""

    name: ClassVar[str] = "VAE"

    def init(self, architecture: Architecture, key: Array) -> Parameters:
        """Random weights of the encoder network."""
        return {"encoder": architecture.encoder(key)}

    def run(
        self, decoder: Decoder, parameters: Parameters, images: Float[Array, "n pixels"], key: Array
    ) -> tuple[Float[Array, "n"], Float[Array, "n latents"]]:
        """The ELBO's integrand, with the entropy in closed form, at x ~ q(x | y)."""
        initial = parameters["encoder"](images)
        x = initial.draw(key)
        return decoder.loglikelihood()(x, images) + log_prior(x) + initial.entropy(), x
