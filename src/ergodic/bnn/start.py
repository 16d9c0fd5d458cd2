"""P0 of a network's chain: means from a short run of mean-field variational inference.

The appendix runs Adam for 200 iterations, keeps the means, and sets variances to n^-0.5, n being the inputs of a
weight's layer: variational variances are too small to start from. The predecessor (EMPF) kept them; both are here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from ..initial import DiagonalGaussian
from ..kernels import Ensemble
from ..tuning.elbo import elbo_gradient
from .network import Data, Network

VARIANCES = ("layer", "variational")


@dataclass(frozen=True)
class MeanField:
    """Settings of the variational start.

    Attributes:
      iterations, learning_rate, particles: of Adam on the ELBO.
      first_scale: standard deviations that it starts from; means start as a random network, He's.
      variances: ``"layer"`` (n^-0.5) or ``"variational"``.
    """

    iterations: int = 200
    learning_rate: float = 0.05
    particles: int = 4
    first_scale: float = 0.05
    variances: str = "layer"

    def fit(self, network: Network, data: Data, key: Array) -> DiagonalGaussian:
        """P0 given one split's rows."""
        found = self.variational(network, data, key)
        if self.variances == "variational":
            return found
        log_scale = -0.25 * jnp.log(jnp.asarray(network.inputs_of(), found.mean.dtype))
        return DiagonalGaussian(found.mean, log_scale)

    def variational(self, network: Network, data: Data, key: Array) -> DiagonalGaussian:
        """The diagonal Gaussian after some iterations."""
        first_key, train_key = jax.random.split(key)
        density, adam = network.density(data), optax.scale_by_adam()
        begin = DiagonalGaussian(random_network(network, first_key), jnp.full(network.dim, math.log(self.first_scale)))

        def step(
            carry: tuple[DiagonalGaussian, optax.OptState], inputs: tuple[Array, Float[Array, ""]]
        ) -> tuple[tuple[DiagonalGaussian, optax.OptState], None]:
            q, state = carry
            key, rate = inputs
            noise = jax.random.normal(key, (self.particles, network.dim))
            position = q.transform(noise)
            gradient = elbo_gradient(q, noise, Ensemble(position, *density(position)))
            with jax.numpy_dtype_promotion("standard"):  # optax raises a float to an integer count
                direction, state = adam.update(gradient, state)
            return (jax.tree.map(lambda p, d: p + rate * d, q, direction), state), None

        rates = self.learning_rate * jnp.linspace(1.0, 0.1, self.iterations)
        keys = jax.random.split(train_key, self.iterations)
        return jax.lax.scan(step, (begin, adam.init(begin)), (keys, rates))[0][0]


def random_network(network: Network, key: Array) -> Float[Array, "dim"]:
    """Weights of variance 2/n before a relu, no biases, τ = 1."""
    inputs = jnp.asarray(network.inputs_of(), jnp.float32)
    is_weight = jnp.asarray(
        [name.startswith("weights") for name, size in zip(network.layout.paths, network.layout.sizes, strict=True)
         for _ in range(size)]
    )  # fmt: skip
    return jnp.where(is_weight, jnp.sqrt(2 / inputs), 0) * jax.random.normal(key, (network.dim,))
