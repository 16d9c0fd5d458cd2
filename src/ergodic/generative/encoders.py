"""Encoder networks: from an image y to the diagonal Gaussian q(x | y) of its latents, mirroring the decoder."""

from __future__ import annotations

import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..initial import DiagonalGaussian
from .deconvolution import WIDTH, Convolution
from .layers import DenseLayer, dense_layer


class ImageGaussians(NamedTuple):
    """A `DiagonalGaussian` per image, stacked: N(mean, diag(exp(log_scale)²)) of row i is that of image i."""

    mean: Float[Array, "n latents"]
    log_scale: Float[Array, "n latents"]

    def of(self, image: int) -> DiagonalGaussian:
        """The Gaussian of one image, as chains of the library start from it."""
        return DiagonalGaussian(self.mean[image], self.log_scale[image])

    def sample(self, noise: Float[Array, "n latents"]) -> Float[Array, "n latents"]:
        """x = mean + scale ε, for given standard normal ε."""
        return self.mean + jnp.exp(self.log_scale) * noise

    def draw(self, key: Array) -> Float[Array, "n latents"]:
        """One draw x ~ q(x | y) per image."""
        return self.sample(jax.random.normal(key, self.mean.shape, self.mean.dtype))

    def logdensity(self, x: Float[Array, "n latents"]) -> Float[Array, "n"]:
        """log q(x | y) of one x per image."""
        z = (x - self.mean) * jnp.exp(-self.log_scale)
        return -0.5 * jnp.sum(z**2 + math.log(2 * math.pi), axis=-1) - jnp.sum(self.log_scale, axis=-1)

    def entropy(self) -> Float[Array, "n"]:
        """The entropy H(q(x | y)) of every image, in nats."""
        return jnp.sum(self.log_scale + 0.5 * math.log(2 * math.pi * math.e), axis=-1)


class EncoderNetwork(eqx.Module):
    """Convolutions and relu layers give features of an image; a linear head gives mean and log-scale of its latents."""

    convolutions: tuple[Convolution, ...]
    layers: tuple[DenseLayer, ...]
    head: DenseLayer

    def __call__(self, y: Float[Array, "n pixels"]) -> ImageGaussians:
        """The Gaussian q(x | y) of every image."""
        features = y
        if self.convolutions:
            size = self.convolutions[0].out
            image = y.reshape(-1, size, size, 1)
            for convolution in self.convolutions:
                image = jax.nn.relu(convolution(image))
            features = image.reshape(y.shape[0], -1)
        for layer in self.layers:
            features = jax.nn.relu(layer(features))
        mean, log_scale = jnp.split(self.head(features), 2, axis=-1)
        return ImageGaussians(mean, log_scale)


def conv_encoder(key: Array, latents: int = 32, hidden: int = 500) -> EncoderNetwork:
    """Section 4.2's mirrored encoder: 28x28 -> 14x14x16 -> 7x7x32 -> 4x4x32 -> 500 -> 32."""
    keys = jax.random.split(key, 5)
    shapes = ((14, 28, 16, 1, (1, 14)), (7, 14, 32, 16, (1, 1)), (4, 7, 32, 32, (4, 4)))
    convolutions = []
    for k, (size, out, outputs, inputs, tile) in zip(keys, shapes, strict=False):
        scale = math.sqrt(2 / (inputs * WIDTH**2))
        kernel = scale * jax.random.normal(k, (WIDTH, WIDTH, outputs, inputs))
        convolutions.append(Convolution(kernel, jnp.zeros(outputs), size, out, tile))
    layers = (dense_layer(keys[3], 4 * 4 * 32, hidden),)
    return EncoderNetwork(tuple(convolutions), layers, _head(keys[4], hidden, latents))


def mlp_encoder(key: Array, latents: int = 8, hidden: tuple[int, ...] = (128, 128), pixels: int = 64) -> EncoderNetwork:
    """Random weights of a perceptron with relu layers, for small images."""
    widths = (pixels, *hidden)
    keys = jax.random.split(key, len(widths))
    layers = tuple(dense_layer(k, a, b) for k, a, b in zip(keys, widths[:-1], widths[1:], strict=False))
    return EncoderNetwork((), layers, _head(keys[-1], widths[-1], latents))


def _head(key: Array, inputs: int, latents: int) -> DenseLayer:
    """The last layer, with small weights: q starts near N(0, I)."""
    return dense_layer(key, inputs, 2 * latents, gain=0.01)
