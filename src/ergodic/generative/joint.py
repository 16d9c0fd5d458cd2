"""log p(x, y) of latents x given images y: the density that every chain of this room moves on, one row per image."""

from __future__ import annotations

import math
from typing import NamedTuple, TypedDict

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..kernels import HMCParams
from ..kernels.ensemble import BatchedDensity
from ..tuning.mlp import MLP
from .decoders import Decoder
from .encoders import EncoderNetwork


class Parameters(TypedDict, total=False):
    """What an image encoder has learnt; each encoder has some of these."""

    encoder: EncoderNetwork
    """The network of q(x | y)."""
    transitions: HMCParams
    """Step sizes and momentum variances of a chain, one row per transition."""
    log_scale: Float[Array, ""]
    """log s: how much wider than q(x | y) a warm chain starts."""
    log_step: Float[Array, "latents"]
    """Step sizes of the Hamiltonian variational autoencoder."""
    reverse: MLP
    """Reverse networks of Hamiltonian variational inference, stacked over transitions."""


class EncoderEstimate(NamedTuple):
    """One estimate of an encoder's objective, and its gradients to climb."""

    row: dict[str, Float[Array, ""]]
    """``objective``, and what else the history keeps of an iteration."""
    decoder: Decoder
    """The gradient along the decoder's weights."""
    parameters: Parameters
    """The gradient along the encoder's parameters."""


def log_prior(x: Float[Array, "n latents"]) -> Float[Array, "n"]:
    """log N(x; 0, I) of every row."""
    return -0.5 * jnp.sum(x**2 + math.log(2 * math.pi), axis=-1)


def joint(decoder: Decoder, images: Float[Array, "n pixels"]) -> BatchedDensity:
    """log p(x, y) and its force ∂_x log p(x, y), for one particle per image."""
    loglikelihood = decoder.loglikelihood()

    def density(x: Float[Array, "n latents"]) -> tuple[Float[Array, "n"], Float[Array, "n latents"]]:
        value, pull = jax.vjp(lambda x: loglikelihood(x, images) + log_prior(x), x)
        return value, pull(jnp.ones_like(value))[0]

    return density
