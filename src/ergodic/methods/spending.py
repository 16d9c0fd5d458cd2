"""What a fit of the default has spent so far, all of it: walks, learning, and certificates that decide what is next."""

from __future__ import annotations

from dataclasses import dataclass

import jax
from jaxtyping import Array

from ..runtime.budget import Budget
from ..runtime.programs import Cost, Stopwatch
from ..sampler import Sampler

_RUNS, _KEY = 512, 52
"""Runs of an annealed chain that are looked at first, and by which number the key is folded for them."""


@dataclass
class Spent:
    """What tuning has cost so far, and since when."""

    clock: Stopwatch
    budget: Budget
    depth: int = 0
    gradients: int = 0

    def add(self, depth: int, gradients: int) -> None:
        """Count what another part of tuning cost."""
        self.depth += depth
        self.gradients += gradients
        self.budget.spend(gradients)

    def cost(self) -> Cost:
        """All of it, with the seconds."""
        return self.clock.cost(self.gradients, self.depth)

    def count(self, sampler: Sampler) -> None:
        """A certificate that decides what is done next is part of tuning."""
        if sampler.certificate is not None:
            self.add(sampler.certificate.cost.depth, sampler.certificate.cost.gradients)

    def worth(self, annealed: Sampler, key: Array) -> float:
        """How much of a draw an annealed run is worth: where that is little, a certificate of many is not paid for.

        Nothing, where a look at so few costs more than all tuning so far.
        """
        if _RUNS * annealed.depth > self.gradients:
            return 0.0
        runs = annealed.sample(jax.random.fold_in(key, _KEY), _RUNS, weighted=True, chunk=_RUNS, progress=False)
        self.add(runs.cost.depth, runs.cost.gradients)
        return runs.effective_size() / _RUNS
