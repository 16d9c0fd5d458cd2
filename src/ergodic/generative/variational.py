"""What encoders with a lower bound of log p(y) share: decoder and inference climb the same bound."""

from __future__ import annotations

from abc import ABC, abstractmethod

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .decoders import Decoder
from .joint import Estimate, Parameters


class Variational(ABC):
    """An encoder whose `run` gives, for every image, the bound's integrand and latents."""

    @abstractmethod
    def run(
        self, decoder: Decoder, parameters: Parameters, images: Float[Array, "n pixels"], key: Array
    ) -> tuple[Float[Array, "n"], Float[Array, "n latents"]]:
        """The bound's integrand and the latents it was taken at."""

    def bound(
        self, decoder: Decoder, parameters: Parameters, images: Float[Array, "n pixels"], key: Array
    ) -> Float[Array, "n"]:
        """One estimate, an image, of a lower bound of log p(y)."""
        return self.run(decoder, parameters, images, key)[0]

    def infer(
        self, decoder: Decoder, parameters: Parameters, images: Float[Array, "n pixels"], key: Array
    ) -> Float[Array, "n latents"]:
        """Latents of images."""
        return self.run(decoder, parameters, images, key)[1]

    def estimate(
        self, decoder: Decoder, parameters: Parameters, images: Float[Array, "n pixels"], key: Array
    ) -> Estimate:
        """One estimate of the mean bound and its gradients."""

        def objective(trained: tuple[Decoder, Parameters]) -> Array:
            return jnp.mean(self.bound(*trained, images, key))

        value, (decoder_gradient, gradient) = jax.value_and_grad(objective)((decoder, parameters))
        return Estimate({"objective": value}, decoder_gradient, gradient)
