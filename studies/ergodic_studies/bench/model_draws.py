"""Draws of `ergodic bench models`, and what it takes to have 1,000 and 4,000 of them once a sampler is fitted.

Independent methods have the draws that were certified in hand, and those cost nothing more. What is missing is drawn,
at its cost. Draws that were chosen from weighted runs count as n²/Σ N² (`Draws.effective_size`), in hand or new. Chains
are run until they are worth as many draws (effective.py), and costs are scaled from there.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array

from ergodic.draws import Draws, concatenate
from ergodic.protocols import Independent
from ergodic.runtime.programs import Cost
from ergodic.sampler import Sampler

from .effective import Worth, depth_of, draw_until
from .outside import NutpieNUTS, Running

SIZES = (1_000, 4_000)
_SPARE = 0.5
"""The part of the time left that drawing may take: chains are looked at first, and then run again."""
_TAIL = 60_000
"""New draws of an independent method in which a tail is looked for; they are not among what is timed."""
_MARGIN = 1.05
"""Draws that may repeat are asked for so many times, so that asking once is mostly enough."""


class Tail(NamedTuple):
    """The draws whose coordinate is below a level, and the share of them that is right."""

    coordinate: int
    level: float
    share: float

    def found(self, sampler: Sampler | Running, draws: Draws, key: Array, seconds: float) -> float:
        """The share of the draws; an independent method makes `_TAIL` new ones besides, as far as the seconds go."""
        x = draws.unconstrained[:, self.coordinate]
        if isinstance(sampler, Sampler) and isinstance(sampler.method, Independent):
            rate = max(draws.cost.run_seconds / len(draws), 1e-9)
            more = sampler.sample(key, max(1, math.floor(min(_TAIL, seconds / rate))), progress=False)
            x = np.concatenate([x, more.unconstrained[:, self.coordinate]])
        return float(np.mean(x < self.level))


class Drawn(NamedTuple):
    """The draws that are measured, and what they cost beside fitting."""

    draws: Draws
    effective: float
    kept: float
    """How many of the effective ones were in hand."""
    measured: int
    """The first so many draws are worth the largest size, or all are worth less."""
    costs: dict[int, Cost]
    """By the number of effective draws: what it takes to have them. Scaled where there are fewer."""


def drawn(sampler: Sampler | Running, key: Array, left: float, fitting: float) -> Drawn:
    """The draws that are measured, within the seconds that are left: the one place that says how they are made."""
    if isinstance(sampler, Sampler) and isinstance(sampler.method, Independent):
        return topped_up(sampler, key, _SPARE * left)
    again = fitting if isinstance(sampler.method, NutpieNUTS) else 0.0  # every run of its draws warms up again
    worth = draw_until(sampler, key, SIZES[-1], _SPARE * max(left - 2 * again, 0.0), squares=False)
    costs = {size: _scaled(worth, size) for size in SIZES}
    return Drawn(worth.draws, worth.effective, 0.0, worth.for_effective(SIZES[-1]), costs)


def topped_up(sampler: Sampler, key: Array, seconds: float) -> Drawn:
    """The sampler's certified draws, and as many new ones as are missing, as far as the seconds go."""
    draws, spent, costs = sampler.draws, Cost(), {}
    kept = _worth(draws)
    for size in SIZES:
        while (missing := size - _worth(draws)) > 0:
            n, afforded = missing, math.inf
            if draws is not None:
                n *= len(draws) / _worth(draws) * (1.0 if draws.independent else _MARGIN)
                afforded = (seconds - spent.run_seconds) * len(draws) / max(draws.cost.run_seconds, 1e-9)
            if afforded < 1:
                break
            key, fresh_key = jax.random.split(key)
            fresh = sampler.sample(fresh_key, math.ceil(min(n, afforded)), progress=False)
            spent = _and(spent, fresh.cost)
            draws = fresh if draws is None else concatenate([draws, fresh])
        assert draws is not None
        rest = max(0.0, size - _worth(draws)) / _worth(draws)
        costs[size] = _and(spent, _times(draws.cost, rest, sampler.depth)) if rest else spent
    assert draws is not None
    effective = _worth(draws)
    measured = min(len(draws), math.ceil(SIZES[-1] * len(draws) / effective))
    return Drawn(draws, effective, kept, measured, costs)


def _worth(draws: Draws | None) -> float:
    return 0.0 if draws is None else draws.effective_size()


def _and(one: Cost, two: Cost) -> Cost:
    """Both; draws that do not need one another wait for the deeper one alone."""
    return replace(one + two, depth=max(one.depth, two.depth))


def _times(cost: Cost, factor: float, depth: int) -> Cost:
    return Cost(round(cost.gradients * factor), depth, 0.0, cost.run_seconds * factor)


def _scaled(worth: Worth, size: int) -> Cost:
    part = worth.part(size)
    gradients = round(worth.draws.cost.gradients * part)
    return Cost(gradients, depth_of(worth.draws, part), worth.compile_seconds, worth.seconds(size))
