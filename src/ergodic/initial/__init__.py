"""P0, where chains start: distributions with tractable sampling, density and entropy."""

from .gaussian import DiagonalGaussian, diagonal, scale_for_entropy, starting

__all__ = ["DiagonalGaussian", "diagonal", "scale_for_entropy", "starting"]
