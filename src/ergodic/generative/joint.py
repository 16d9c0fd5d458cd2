"""log p(x, y) of latents given images: the target of every chain here, one posterior an image."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..kernels.ensemble import BatchedDensity
from .decoders import Decoder

Parameters = dict[str, Any]
"""Of inference, by what they are: ``encoder``, ``transitions``, ``reverse``, ..."""


class Estimate(NamedTuple):
    """One estimate of an encoder's objective, and its gradients to climb."""

    row: dict[str, Float[Array, ""]]
    """``objective`` and what else is worth recording."""
    decoder: Any
    parameters: Parameters


def log_prior(x: Float[Array, "n latents"]) -> Float[Array, "n"]:
    """log N(x; 0, I)."""
    return -0.5 * jnp.sum(x**2 + math.log(2 * math.pi), axis=-1)


def joint(decoder: Decoder, images: Float[Array, "n pixels"]) -> BatchedDensity:
    """log p(x, y) and its force, for a particle an image."""
    loglikelihood = decoder.loglikelihood()

    def density(x: Array) -> tuple[Array, Array]:
        value, pull = jax.vjp(lambda x: loglikelihood(x, images) + log_prior(x), x)
        return value, pull(jnp.ones_like(value))[0]

    return density
