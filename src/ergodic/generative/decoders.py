"""Decoders: log p(y | x) of an image y given latents x ~ N(0, I).

A decoder has two faces. As parameters it is a small pytree of kernels and weights; `prepared` turns it into a function
of latents with everything done that does not depend on them, to be applied many times. Gradients of the parameters pass
through `prepared`.

Section 4.2's decoder has 32 latents, 500 relu units and three transposed convolutions; the text leaves its shapes open,
and these are the authors' (of their later public code): 32 -> 500 -> 4x4x32 -> 7x7x32 -> 14x14x16 -> 28x28 logits.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .deconvolution import Deconvolution, init_kernel
from .layers import DenseLayer, dense_layer

LogLikelihood = Callable[[Float[Array, "n latents"], Float[Array, "n pixels"]], Float[Array, "n"]]


class Decoder(eqx.Module):
    """What every decoder offers: p(y | x) of flat images y, ``(n, pixels)``, given latents x, ``(n, latents)``."""

    @abstractmethod
    def latents(self) -> int:
        """The dimension of the latents x."""

    @abstractmethod
    def prepared(self) -> Callable[[Float[Array, "n latents"]], Float[Array, "n pixels"]]:
        """The decoder as a function of latents; its values are the likelihood's natural parameters."""

    def loglikelihood(self) -> LogLikelihood:
        """log p(y | x): Bernoulli pixels with logits from the network, y log σ(l) + (1 - y) log σ(-l)."""
        network = self.prepared()

        def value(x: Array, y: Array) -> Array:
            logits = network(x)
            return jnp.sum(y * logits - jax.nn.softplus(logits), axis=-1)

        return value

    def mean(self, x: Float[Array, "n latents"]) -> Float[Array, "n pixels"]:
        """The expected image E[y | x]."""
        return jax.nn.sigmoid(self.prepared()(x))

    def sample(self, key: Array, x: Float[Array, "n latents"]) -> Float[Array, "n pixels"]:
        """One image y ~ p(y | x) per row of latents."""
        return jax.random.bernoulli(key, self.mean(x)).astype(x.dtype)


class DeconvDecoder(Decoder):
    """Section 4.2's decoder of 28 by 28 images."""

    hidden: DenseLayer
    features: DenseLayer
    deconvolutions: tuple[Deconvolution, ...]

    def latents(self) -> int:
        """The dimension of the latents x."""
        return self.hidden.weight.shape[0]

    def prepared(self) -> Callable[[Array], Array]:
        """The network, with the matrices of its transposed convolutions."""
        matrices = [layer.matrix() for layer in self.deconvolutions]

        def network(x: Array) -> Array:
            image = self.features(jax.nn.relu(self.hidden(x)))
            size, kernel = self.deconvolutions[0].size, self.deconvolutions[0].kernel
            image = image.reshape(-1, size, size, kernel.shape[2])
            for layer, matrix in zip(self.deconvolutions, matrices, strict=True):
                image = layer.apply(matrix, jax.nn.relu(image))
            return image.reshape(x.shape[0], -1)

        return network


class MLPDecoder(Decoder):
    """A perceptron with relu layers, for small images."""

    layers: tuple[DenseLayer, ...]

    def latents(self) -> int:
        """The dimension of the latents x."""
        return self.layers[0].weight.shape[0]

    def prepared(self) -> Callable[[Array], Array]:
        """The perceptron itself: nothing can be done ahead."""

        def network(x: Array) -> Array:
            for layer in self.layers[:-1]:
                x = jax.nn.relu(layer(x))
            return self.layers[-1](x)

        return network


def deconv_decoder(key: Array, latents: int = 32, hidden: int = 500) -> DeconvDecoder:
    """Random weights; tiles are the fastest on a CPU (`python -m ergodic_studies.bench.decoder`)."""
    keys = jax.random.split(key, 5)
    shapes = ((4, 7, 32, 32, (4, 4)), (7, 14, 32, 16, (1, 1)), (14, 28, 16, 1, (1, 14)))
    deconvolutions = tuple(
        Deconvolution(init_kernel(k, inputs, outputs), jnp.zeros(outputs), size, out, tile)
        for k, (size, out, inputs, outputs, tile) in zip(keys[2:], shapes, strict=True)
    )
    return DeconvDecoder(
        dense_layer(keys[0], latents, hidden), dense_layer(keys[1], hidden, 4 * 4 * 32), deconvolutions
    )


def mlp_decoder(key: Array, latents: int = 8, hidden: tuple[int, ...] = (128, 128), pixels: int = 64) -> MLPDecoder:
    """Random weights of a perceptron from latents to pixel logits."""
    widths = (latents, *hidden, pixels)
    keys = jax.random.split(key, len(widths) - 1)
    return MLPDecoder(tuple(dense_layer(k, a, b) for k, a, b in zip(keys, widths[:-1], widths[1:], strict=True)))
