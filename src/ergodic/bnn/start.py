"""P0 of a network's chain: means from a short run of mean-field variational inference.

The appendix runs Adam for 200 iterations, keeps the means, and sets variances to n^-0.5, n being the inputs of a
weight's layer: variational variances are too small to start from. The predecessor (EMPF) kept them; both are here.
What n is for the noise it does not say: log τ starts with a standard deviation of 0.1, since networks that start with
too little noise never move (their forces are too large for any step).
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
from ..runtime.validation import choice, positive_float, positive_int, settle
from ..tuning.elbo import elbo_gradient
from .network import Data, Network

VARIANCES = ("layer", "variational")
_NOISE_SCALE = 0.1


@dataclass(frozen=True)
class MeanField:
    """Settings of the variational start.

    Attributes:
      iterations, learning_rate, particles: of Adam on the ELBO.
      first_scale: standard deviations that it starts from; means start as a random network, He's.
      variances: ``"layer"`` (n^-0.5) or ``"variational"``.
      spread: standard deviations of the weights in units of that; 1 is the appendix's.
    """

    iterations: int = 200
    learning_rate: float = 0.05
    particles: int = 4
    first_scale: float = 0.05
    variances: str = "layer"
    spread: float = 1.0

    def __post_init__(self) -> None:
        settle(
            self,
            **dict.fromkeys(("iterations", "particles"), positive_int),
            **dict.fromkeys(("learning_rate", "first_scale", "spread"), positive_float),
            variances=choice(*VARIANCES),
        )

    def fit(self, network: Network, data: Data, key: Array) -> DiagonalGaussian:
        """P0 given one split's rows."""
        found = self.variational(network, data, key)
        if self.variances == "variational":
            return found
        inputs = jnp.asarray(network.inputs_of(), found.mean.dtype)
        log_scale = math.log(self.spread) - 0.25 * jnp.log(inputs)
        return DiagonalGaussian(found.mean, log_scale.at[network.noise_index].set(math.log(_NOISE_SCALE)))

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
