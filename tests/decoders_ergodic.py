"""A decoder whose likelihood is exact, which evaluators are held against."""

import math
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ergodic.generative.decoders import Decoder, LogLikelihood
from ergodic.generative.layers import DenseLayer


class LinearGaussian(Decoder):
    """y = W x + b + noise of a known scale: its likelihood is exact, so that evaluators can be held against it."""

    layer: DenseLayer
    noise: float = eqx.field(static=True)

    def latents(self) -> int:
        """The dimension of the latents x."""
        return self.layer.weight.shape[0]

    def prepared(self) -> Callable[[Array], Array]:
        """The mean W x + b of y, as a function of latents."""
        return self.layer

    def loglikelihood(self) -> LogLikelihood:
        """log p(y | x) = log N(y; W x + b, noise² I)."""

        def value(x: Array, y: Array) -> Array:
            squares = ((y - self.layer(x)) / self.noise) ** 2
            return -0.5 * jnp.sum(squares + math.log(2 * math.pi * self.noise**2), axis=-1)

        return value

    def mean(self, x: Float[Array, "n latents"]) -> Float[Array, "n pixels"]:
        """The expected image E[y | x]."""
        return self.layer(x)

    def sample(self, key: Array, x: Float[Array, "n latents"]) -> Float[Array, "n pixels"]:
        """One image y ~ p(y | x) per row of latents."""
        mean = self.layer(x)
        return mean + self.noise * jax.random.normal(key, mean.shape, mean.dtype)

    def exact(self, y: Float[Array, "n pixels"]) -> Float[Array, "n"]:
        """The exact log p(y) = log N(y; b, W W' + noise² I)."""
        weight = self.layer.weight
        covariance = weight.T @ weight + self.noise**2 * jnp.eye(weight.shape[1], dtype=y.dtype)
        factor = jnp.linalg.cholesky(covariance)
        white = jax.scipy.linalg.solve_triangular(factor, (y - self.layer.bias[None, :]).T, lower=True)
        normaliser = jnp.sum(jnp.log(jnp.diag(factor))) + 0.5 * y.shape[1] * math.log(2 * math.pi)
        return -0.5 * jnp.sum(white**2, axis=0) - normaliser
