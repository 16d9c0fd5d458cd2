"""What `Sampler.sample` gives: positions, a few statistics of each draw, and what they cost."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import jax
import numpy as np

from .programs import Cost
from .target import Target

_CONSTRAIN_CHUNK = 1 << 14


@dataclass(frozen=True, eq=False)
class Draws:
    """Draws from an approximation of a target, as NumPy arrays with one row a draw.

    Attributes:
      target: what was sampled.
      unconstrained: flat unconstrained positions, ``(n, dim)``.
      logdensity: log π* of the unconstrained position, ``(n,)``.
      stats: further values a draw, ``(n,)`` each: ``acceptance_rate``, ``diverging``, ``energy_error``.
      trace: averages over the draws along the chain: ``expected_logdensity``, ``acceptance``, ``divergence``.
      cost: gradients and seconds spent on these draws.
      attributes: plain facts about where they come from: method, its settings, whether draws are independent.
    """

    target: Target
    unconstrained: np.ndarray
    logdensity: np.ndarray
    stats: dict[str, np.ndarray] = field(default_factory=dict)
    trace: dict[str, np.ndarray] = field(default_factory=dict)
    cost: Cost = field(default_factory=Cost)
    attributes: dict[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.logdensity)

    @cached_property
    def position(self) -> Any:
        """The draws as a pytree, leading axis = draws, constrained where the target has a `constrain` map."""
        layout, constrain = self.target.layout, self.target.constrain
        if constrain is None:
            return layout.unravel(self.unconstrained)
        mapped = jax.jit(jax.vmap(lambda flat: constrain(layout.unravel(flat))))
        parts = [
            jax.device_get(mapped(self.unconstrained[at : at + _CONSTRAIN_CHUNK]))
            for at in range(0, len(self), _CONSTRAIN_CHUNK)
        ]
        return jax.tree_util.tree_map(lambda *leaves: np.concatenate(leaves), *parts)

    def to_arviz(self) -> Any:
        """As ArviZ InferenceData: chain=1, draw=n; attributes say whether the draws are independent."""
        from .adapters.arviz import to_inference_data

        return to_inference_data(self)

    def __repr__(self) -> str:
        mean = float(np.mean(self.logdensity, dtype=np.float64))
        kind = "independent" if self.attributes.get("independent_draws") else "correlated"
        return (
            f"Draws({len(self):,} {kind} draws of '{self.target.name}', dim={self.target.dim}, "
            f"E[log π*]={mean:.4g}, {self.cost.gradients:,} gradients in {self.cost.run_seconds:.2f} s)"
        )
