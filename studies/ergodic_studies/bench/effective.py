"""How many effective draws a sampler's draws are worth, and what so many of them cost.

n draws of an independent method are n effective ones; weighted draws are worth (Σw)²/Σw²; of chains, ArviZ's bulk
estimate is taken, the smallest over coordinates x_i and their squares. Costs are scaled, linearly, from the draws that
were made. The first draws of k chains that run side by side are k independent ones, and cost one transition.
"""

from __future__ import annotations

import math
from typing import NamedTuple, TypedDict

import numpy as np
from jaxtyping import Array

from ergodic.draws import Draws
from ergodic.protocols import Correlated
from ergodic.runtime.arviz import arviz, ess
from ergodic.sampler import Sampler

from .outside import NumPyroNUTS, NutpieNUTS, Running

_PROBE = 2_000
"""Draws of a first look at how fast chains mix."""
_PROBE_STEPS = 8
"""Transitions of that look at least."""
_VALUES = 50_000_000
"""Numbers that draws may hold."""


class Spent(TypedDict, total=False):
    """What every record of one seed has: what it is of, what it cost, and how far its draws are off."""

    seed: int
    error: str
    kind: str
    draws: int
    effective: float
    b2_max: float
    compile_seconds: float
    tuning_seconds: float
    tuning_gradients: int
    depth: int
    wall_seconds: float
    cpu_share: float


class Worth(NamedTuple):
    """Draws, and how many effective ones they are worth."""

    draws: Draws
    effective: float
    compile_seconds: float
    long_run: tuple[int, float] | None = None
    """Another run of an independent method: draws and seconds."""

    def for_effective(self, size: int) -> int:
        """How many draws are worth ``size`` effective ones: whole transitions of all chains."""
        chains, n = self.draws.chains, len(self.draws)
        if self.draws.independent:
            return size
        if self.draws.kind == "correlated" and size <= chains:
            return chains
        return max(chains, math.ceil(size * n / max(self.effective, 1e-9) / chains) * chains)

    def part(self, size: int) -> float:
        """The share of the draws that ``size`` effective ones are, or a multiple of them."""
        return self.for_effective(size) / len(self.draws)

    def seconds(self, size: int) -> float:
        """Of sampling, without compiling, for ``size`` effective draws."""
        n, seconds = len(self.draws), self.draws.cost.run_seconds
        if self.long_run is not None and size > n:
            n, seconds = self.long_run
        return seconds * self.for_effective(size) / n


def draw_until(
    sampler: Sampler | Running, key: Array, wanted: int, seconds: float, *, longer: int = 0, squares: bool = True
) -> Worth:
    """Draw until ``wanted`` effective ones are there, or the seconds are up; at least one probe is made.

    Where draws are independent and there is time, ``longer`` are made as well, to know what many cost. Without
    ``squares``, chains are worth the smallest estimate over coordinates alone.
    """
    method = sampler.method
    chains = method.chains if isinstance(method, Correlated | NumPyroNUTS | NutpieNUTS) else None
    block = wanted if chains is None else max(_PROBE, _PROBE_STEPS * chains)
    chunk = None if chains is None else block
    draws = _sample(sampler, key, block, chunk)
    compiling, spent = draws.cost.compile_seconds, draws.cost.run_seconds
    most = max(block, _VALUES // sampler.target.dim)
    if draws.independent:
        longer = min(longer, most)
        if spent * longer / block > seconds or longer <= block:
            return Worth(draws, float(len(draws)), compiling)
        long = _sample(sampler, key, longer, chunk).cost
        return Worth(draws, float(len(draws)), compiling + long.compile_seconds, (longer, long.run_seconds))
    effective = effective_size(draws, squares)
    while effective < wanted:
        rate = draws.cost.run_seconds / len(draws)
        limit = min(seconds / rate, most)
        n = int(min(1.15 * len(draws) * wanted / max(effective, 1.0), 32 * len(draws), limit))
        if chunk is not None:  # whole blocks: chains run to the end of one, so a part would cost as much
            n = min(math.ceil(n / chunk), int(limit / chunk)) * chunk
        if n < 1.1 * len(draws):
            break
        draws = _sample(sampler, key, n, chunk)
        compiling += draws.cost.compile_seconds
        effective = effective_size(draws, squares)
    return Worth(draws, effective, compiling)


def _sample(sampler: Sampler | Running, key: Array, n: int, chunk: int | None) -> Draws:
    """Draws as the sampler makes them, with weights where it gives them: effective draws are counted here."""
    if isinstance(sampler, Sampler) and sampler.kind == "weighted":
        return sampler.sample(key, n, weighted=True, chunk=chunk, progress=False)
    return sampler.sample(key, n, chunk=chunk, progress=False)


def effective_size(draws: Draws, squares: bool = True) -> float:
    """Over coordinates, and their squares unless left out, the smallest; at most the number of draws.

    (Thousands of chains of a few steps make the estimate many times that.)
    """
    if draws.kind == "weighted":
        return draws.effective_size()
    x = draws.by_chain(draws.unconstrained)
    if x.shape[1] < 4:
        return float(min(draws.chains, len(draws)))
    powers = (1, 2) if squares else (1,)
    sizes = [ess(x[:, :, i].astype(np.float64) ** power) for i in range(x.shape[2]) for power in powers]
    return min([float(len(draws)), *(size for size in sizes if math.isfinite(size))])


def depth_of(draws: Draws, part: float) -> int:
    """Gradients one after the other for that part of the draws; of chains, of the one that took the most."""
    if draws.kind != "correlated":
        return draws.cost.depth
    return round(float(draws.by_chain(draws.stats["gradients"].astype(np.int64)).sum(axis=1).max()) * part)


def largest_rhat(draws: Draws) -> float:
    """The largest R-hat (rank-normalised, split) of a coordinate; 1 where draws are not of chains."""
    if draws.kind != "correlated":
        return 1.0
    x = draws.by_chain(draws.unconstrained).astype(np.float64)
    return max(float(arviz("R-hat of chains").rhat(x[:, :, i])) for i in range(x.shape[2]))
