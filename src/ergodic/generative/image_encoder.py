"""What every image encoder offers: a frozen configuration that trains a decoder and finds latents of images."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict
from typing import ClassVar

from jaxtyping import Array, Float

from .architectures import Architecture
from .decoders import Decoder
from .joint import EncoderEstimate, Parameters


class ImageEncoder(ABC):
    """A way to infer latents from images; its settings are the fields of a frozen dataclass."""

    name: ClassVar[str]

    def settings(self) -> dict[str, object]:
        """The settings as plain values."""
        return asdict(self)  # type: ignore[call-overload]

    @abstractmethod
    def init(self, architecture: Architecture, key: Array) -> Parameters:
        """The parameters before training."""

    @abstractmethod
    def estimate(
        self, decoder: Decoder, parameters: Parameters, images: Float[Array, "n pixels"], key: Array
    ) -> EncoderEstimate:
        """One estimate of the objective, averaged over binary images, and its gradients."""

    @abstractmethod
    def infer(
        self, decoder: Decoder, parameters: Parameters, images: Float[Array, "n pixels"], key: Array
    ) -> Float[Array, "n latents"]:
        """One draw of the latents of every image."""
