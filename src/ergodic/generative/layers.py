"""The dense layers that the image networks are made of."""

from __future__ import annotations

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float


class DenseLayer(eqx.Module):
    """The affine layer y = x W + b, for a batch of rows x."""

    weight: Float[Array, "inputs outputs"]
    bias: Float[Array, "outputs"]

    def __call__(self, x: Float[Array, "n inputs"]) -> Float[Array, "n outputs"]:
        """The layer's values for a batch of inputs."""
        return x @ self.weight + self.bias[None, :]


def dense_layer(key: Array, inputs: int, outputs: int, gain: float = 2.0, dtype: DTypeLike = jnp.float32) -> DenseLayer:
    """Random weights of variance gain/inputs, and no bias; the gain is 2 before a relu (He), 1 elsewhere."""
    weight = math.sqrt(gain / inputs) * jax.random.normal(key, (inputs, outputs), dtype)
    return DenseLayer(weight, jnp.zeros(outputs, dtype))
