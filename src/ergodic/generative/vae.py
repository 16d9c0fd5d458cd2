"""The variational autoencoder (Kingma & Welling 2014): the paper's baseline, and the start of a warm chain.

ELBO(y) = E_q(x|y)[ log p(y | x) + log p(x) ] + H(q(x | y)),    x = mean(y) + scale(y) ε
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Array, Float

from .architectures import Architecture
from .decoders import Decoder
from .joint import Parameters, log_prior
from .variational import Variational


@dataclass(frozen=True)
class VAE(Variational):
    """A factorised Gaussian from the architecture's encoder."""

    name: ClassVar[str] = "VAE"

    def init(self, architecture: Architecture, key: Array) -> Parameters:
        """The encoder's weights."""
        return {"encoder": architecture.encoder(key)}

    def run(
        self, decoder: Decoder, parameters: Parameters, images: Float[Array, "n pixels"], key: Array
    ) -> tuple[Float[Array, "n"], Float[Array, "n latents"]]:
        """The ELBO's integrand, the entropy in closed form, at x ~ q(x | y)."""
        posterior = parameters["encoder"](images)
        x = posterior.draw(key)
        return decoder.loglikelihood()(x, images) + log_prior(x) + posterior.entropy(), x
