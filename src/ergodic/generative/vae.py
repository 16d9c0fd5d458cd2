"""The variational autoencoder (Kingma & Welling 2014): the paper's baseline, and the start of a warm chain.

ELBO(y) = E_q(x|y)[ log p(y | x) + log p(x) ] + H(q(x | y)),    x = mean(y) + scale(y) ε
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax
from jaxtyping import Array, Float

from ..models.architectures import Architecture
from ..models.decoders import Decoder
from .joint import Estimate, Parameters, climb_bound, log_prior


@dataclass(frozen=True)
class VAE:
    """A factorised Gaussian from the architecture's encoder."""

    name: ClassVar[str] = "VAE"

    def init(self, architecture: Architecture, key: Array) -> Parameters:
        """The encoder's weights."""
        return {"encoder": architecture.encoder(key)}

    def bound(
        self, decoder: Decoder, parameters: Parameters, images: Float[Array, "n pixels"], key: Array
    ) -> Float[Array, "n"]:
        """The ELBO's integrand, the entropy in closed form."""
        posterior = parameters["encoder"](images)
        x = posterior.sample(jax.random.normal(key, posterior.mean.shape, posterior.mean.dtype))
        return decoder.loglikelihood()(x, images) + log_prior(x) + posterior.entropy()

    def estimate(
        self, decoder: Decoder, parameters: Parameters, images: Float[Array, "n pixels"], key: Array
    ) -> Estimate:
        """One estimate of the bound and its gradients."""
        return climb_bound(self.bound, decoder, parameters, images, key)

    def infer(
        self, decoder: Decoder, parameters: Parameters, images: Float[Array, "n pixels"], key: Array
    ) -> Float[Array, "n latents"]:
        """Latents of images: x ~ q(x | y)."""
        posterior = parameters["encoder"](images)
        return posterior.sample(jax.random.normal(key, posterior.mean.shape, posterior.mean.dtype))
