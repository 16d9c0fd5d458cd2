"""Dense layers of the image models."""

from __future__ import annotations

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


class Dense(eqx.Module):
    """y = x W + b for a batch."""

    weight: Float[Array, "inputs outputs"]
    bias: Float[Array, "outputs"]

    def __call__(self, x: Float[Array, "n inputs"]) -> Float[Array, "n outputs"]:
        """Apply it."""
        return x @ self.weight + self.bias[None, :]


def dense(key: Array, inputs: int, outputs: int, gain: float = 2.0, dtype: Any = jnp.float32) -> Dense:
    """Weights of variance gain/inputs: 2 before a relu (He), 1 elsewhere; no bias."""
    weight = math.sqrt(gain / inputs) * jax.random.normal(key, (inputs, outputs), dtype)
    return Dense(weight, jnp.zeros(outputs, dtype))
