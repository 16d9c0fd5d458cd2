"""Encoders that have a lower bound of log p(y): decoder and encoder climb the same bound.

A Hamiltonian one runs deterministic leapfrogs after q(x | y); it says how by its `flow`.
"""

from __future__ import annotations

from abc import abstractmethod

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..kernels import Ensemble, start
from ..kernels.ensemble import BatchedDensity
from .decoders import Decoder
from .encoders import ImageGaussians
from .image_encoder import ImageEncoder
from .joint import EncoderEstimate, Parameters, joint


class BoundedEncoder(ImageEncoder):
    """An encoder whose `run` gives, for every image, the bound's integrand and latents."""

    @abstractmethod
    def run(
        self, decoder: Decoder, parameters: Parameters, images: Float[Array, "n pixels"], key: Array
    ) -> tuple[Float[Array, "n"], Float[Array, "n latents"]]:
        """The bound's integrand, and the latents that it was taken at."""

    def bound(
        self, decoder: Decoder, parameters: Parameters, images: Float[Array, "n pixels"], key: Array
    ) -> Float[Array, "n"]:
        """One estimate per image of a lower bound of log p(y)."""
        return self.run(decoder, parameters, images, key)[0]

    def infer(
        self, decoder: Decoder, parameters: Parameters, images: Float[Array, "n pixels"], key: Array
    ) -> Float[Array, "n latents"]:
        """One draw of the latents of every image."""
        return self.run(decoder, parameters, images, key)[1]

    def estimate(
        self, decoder: Decoder, parameters: Parameters, images: Float[Array, "n pixels"], key: Array
    ) -> EncoderEstimate:
        """One estimate of the mean bound, and its gradients by reverse mode."""

        def objective(trained: tuple[Decoder, Parameters]) -> Float[Array, ""]:
            return jnp.mean(self.bound(*trained, images, key))

        value, (decoder_gradient, gradient) = jax.value_and_grad(objective)((decoder, parameters))
        return EncoderEstimate({"objective": value}, decoder_gradient, gradient)


class HamiltonianEncoder(BoundedEncoder):
    """An encoder that draws x from q(x | y) and then moves it by leapfrogs on log p(x, y)."""

    @abstractmethod
    def flow(
        self,
        density: BatchedDensity,
        parameters: Parameters,
        initial: ImageGaussians,
        begin: Ensemble,
        images: Float[Array, "n pixels"],
        key: Array,
    ) -> tuple[Float[Array, "n"], Ensemble]:
        """The bound's integrand and the particles after the leapfrogs, from draws ``begin`` of q(x | y)."""

    def run(
        self, decoder: Decoder, parameters: Parameters, images: Float[Array, "n pixels"], key: Array
    ) -> tuple[Float[Array, "n"], Float[Array, "n latents"]]:
        """The bound's integrand, and the latents after the leapfrogs."""
        start_key, flow_key = jax.random.split(key)
        density, initial = joint(decoder, images), parameters["encoder"](images)
        begin = start(density, initial.draw(start_key))
        bound, end = self.flow(density, parameters, initial, begin, images, flow_key)
        return bound, end.position
