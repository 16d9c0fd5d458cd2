"""Methods whose chains, runs or tuning start from a Gaussian: the two settings that they share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from ..initial import DiagonalGaussian, starting
from ..protocols import Method
from ..runtime.validation import Rule, finite_float, numbers, optional, positive_float
from ..target import Target


@dataclass(frozen=True)
class FromGaussian(Method):
    """A method that starts from a Gaussian.

    Attributes:
      initial_mean: its mean; one number, or one per flat coordinate. None: the prior's, or 0.
      initial_scale: its standard deviation, likewise. None: the prior's, or 1.
    """

    initial_mean: float | tuple[float, ...] | None = field(default=None, kw_only=True)
    initial_scale: float | tuple[float, ...] | None = field(default=None, kw_only=True)
    rules: ClassVar[Mapping[str, Rule]] = {
        "initial_mean": optional(numbers(finite_float)),
        "initial_scale": optional(numbers(positive_float)),
    }

    def initial(self, target: Target) -> DiagonalGaussian:
        """The Gaussian, for a target."""
        return starting(target, self.initial_mean, self.initial_scale)
