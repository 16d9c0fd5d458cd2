"""A small perceptron as a pytree of arrays, so that it is saved like every other parameter."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float


class MLP(NamedTuple):
    """One hidden layer of relu units beside a linear path: y = A x + W2 relu(W1 x + b1) + b2."""

    linear: Float[Array, "in out"]
    hidden_weight: Float[Array, "in hidden"]
    hidden_bias: Float[Array, "hidden"]
    weight: Float[Array, "hidden out"]
    bias: Float[Array, "out"]

    def __call__(self, x: Float[Array, "n in"]) -> Float[Array, "n out"]:
        """The network's values for a batch of inputs."""
        hidden = jax.nn.relu(x @ self.hidden_weight + self.hidden_bias[None, :])
        return x @ self.linear + hidden @ self.weight + self.bias[None, :]


def init_mlp(key: Array, inputs: int, hidden: int, outputs: int, dtype: DTypeLike) -> MLP:
    """A network with a random hidden layer (He) and no output: it starts as y = 0."""
    weight = jax.random.normal(key, (inputs, hidden), dtype) * math.sqrt(2 / inputs)
    return MLP(
        jnp.zeros((inputs, outputs), dtype),
        weight,
        jnp.zeros(hidden, dtype),
        jnp.zeros((hidden, outputs), dtype),
        jnp.zeros(outputs, dtype),
    )
