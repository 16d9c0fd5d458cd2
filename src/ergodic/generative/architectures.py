"""Which decoder and encoder network go with which images."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jaxtyping import Array

from ..runtime.errors import ConfigError
from .decoders import Decoder, deconv_decoder, mlp_decoder
from .encoders import EncoderNetwork, conv_encoder, mlp_encoder


@dataclass(frozen=True)
class Architecture:
    """A decoder, and the encoder network that mirrors it, as functions of a random key.

    Attributes:
      name: what to call the pair.
      latents: the dimension of x.
      pixels: values per image.
      decoder: makes a decoder with random weights.
      encoder: makes an encoder network with random weights.
    """

    name: str
    latents: int
    pixels: int
    decoder: Callable[[Array], Decoder]
    encoder: Callable[[Array], EncoderNetwork]


def architecture(pixels: int) -> Architecture:
    """The paper's deconvolutional pair for 28 by 28 images, a perceptron pair for 8 by 8 ones."""
    if pixels == 28 * 28:
        return Architecture("deconvolution", 32, pixels, deconv_decoder, conv_encoder)
    if pixels == 8 * 8:
        return Architecture("perceptron", 8, pixels, mlp_decoder, mlp_encoder)
    raise ConfigError(f"there are decoders for images of 28 by 28 and of 8 by 8 pixels, not of {pixels} pixels")
