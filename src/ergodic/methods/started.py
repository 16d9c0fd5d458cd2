"""`GEI` from where another sampler's chain starts: a posterior that moves a little with its data is found at once.

The pilot starts from the other's P0, which lies around its posterior, in place of the prior and of wide Gaussians. From
there on all is tuned and certified anew, so that a start that is off costs steps and not correctness.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from jaxtyping import Array

from ..protocols import Initial
from ..runtime.budget import Budget
from ..runtime.errors import ConfigError
from ..sampler import Sampler
from ..target import Target
from .gei import GEI


@dataclass(frozen=True)
class _Started(GEI):
    """The settings, and where the pilot starts."""

    around: Any = field(default=None, repr=False, compare=False)

    def starts(self, target: Target) -> list[Initial]:  # type: ignore[override]
        """The one start that is given."""
        return [self.around]


def fit_from(
    start: Sampler, method: GEI, target: Target, key: Array, *, progress: bool | None, budget: Budget
) -> Sampler:
    """Tune `GEI` to a target, from another sampler's P0. Its draws are those of the method's own settings."""
    initial = start.method.start(start.params)
    if initial is None or start.target.layout != target.layout:
        raise ConfigError(
            f"start must be a sampler with a P0, of positions like ({target.layout}); this one is "
            f"{start.method.name}, of positions like ({start.target.layout})"
        )
    found = _Started(**vars(method), around=initial).fit(target, key, progress=progress, budget=budget)
    return replace(found, method=method)
