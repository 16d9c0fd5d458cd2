"""What coupled chains say: how far P_T can be from π, and by how much an average of its draws is off.

Two chains with one law, X from P0 once through all T transitions ahead of Y from P0, then both together with shared
randomness (`kernels/coupled.py`), pass after pass. With p the passes until they meet,

    TV(P_T, π) <= E[max(0, p - 1)]            (lag one pass: Biswas, Jacob & Vanetti 2019)
    E_π[f] - E_{P_T}[f] = E[Σ_k f(X_{k+1}) - f(Y_k)]        (Jacob, O'Leary & Atchadé 2020)

In the second every term of a pair is zero from its meeting on: an unbiased estimate of the bias of the draws
themselves, whose error is small because what is shared cancels. Where pairs are cut off after K passes it is the
change over the next K passes of the chain. Both are blind to what neither chain visits. For the first, pairs that have
not met are run on (`run_on`), since it holds for none that are cut off.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Array

from ..certificate import Bound
from ..kernels.coupled import Pairs
from . import limits

PASSES = 6
"""Passes together of all pairs, at most: what has not met by then is late, and is run on for the bound alone."""
_REACH = 8.0

Outside = Callable[[np.ndarray | Array], np.ndarray]
"""The positions x of some u."""


class Meeting:
    """Blocks of pairs, each followed until all have met or the passes are over.

    Attributes:
      blocks: of every block, its pairs (X, Y) after every pass together.
      passes: of every pair, in which pass it met; one more than it went together where it did not.
      times: passes that a draw goes through before it is one: 1, or more, where once is not enough.
      late: pairs that have not met, and ``which`` they are.
      later: what late pairs did in further passes.
    """

    def __init__(self) -> None:
        self.blocks: list[list[Pairs]] = []
        self.passes = np.zeros(0, int)
        self.times = 1
        self.late: Pairs | None = None
        self.which = np.zeros(0, int)
        self.later: list[tuple[np.ndarray, Pairs]] = []

    def __len__(self) -> int:
        return len(self.passes)

    def add(self, states: list[Pairs]) -> None:
        """One more block: its pairs after every pass."""
        unmet = np.sum([~state.met for state in states], axis=0)
        self.blocks.append(states)
        late = np.flatnonzero(~states[-1].met)
        if len(late):
            some = states[-1].rows(late)
            self.late = some if self.late is None else self.late.and_also(some)
            self.which = np.append(self.which, len(self.passes) + late)
        self.passes = np.concatenate([self.passes, np.where(states[-1].met, 1 + unmet, PASSES + 1)])

    def run_on(self, move: Callable[[Pairs], Pairs], size: int) -> None:
        """One more pass for late pairs, the first of them: ``move`` takes ``size`` pairs."""
        assert self.late is not None
        count = min(size, len(self.which))
        moved = move(self.late.rows(np.resize(np.arange(count), size))).rows(np.arange(count))
        which, self.which = self.which[:count], np.append(self.which[:count][~moved.met], self.which[count:])
        self.later.append((which, moved))
        self.passes[which] += ~moved.met
        left = moved.rows(np.flatnonzero(~moved.met)).and_also(self.late.rows(np.arange(count, len(self.late.met))))
        self.late = left if len(self.which) else None

    def unmet(self) -> np.ndarray:
        """The share of pairs that have not met after 1, 2, ... passes."""
        return np.array([np.mean(self.passes > k) for k in range(1, PASSES + 1)])

    def apart(self, floor: float) -> np.ndarray:
        """The share of pairs that have not met after each pass, but where Y is at its end as high as draws are."""
        count, total = np.zeros(PASSES), 0
        for states in self.blocks:
            high = states[-1].second.logdensity > floor
            unmet = np.array([np.sum(~state.met & high) for state in states])
            count += np.append(unmet, [unmet[-1]] * (PASSES - len(states)))
            total += len(high)
        return count / total

    def bias(self, look: Moments, times: int | None = None) -> np.ndarray:
        """Σ_{k >= m} f(X_{k+1}) - f(Y_k) of every pair, ``(pairs, functions)``: its mean is E_π[f] - E_{P_mT}[f].

        m is ``times``, or as often as draws go through the chain. As X_k and Y_k have one law, f(X_{K+1}) - f(Y_m) has
        the same mean over K passes. Its error is larger where pairs meet, and smaller where they stay apart for long.
        Function by function, what serves better of both is taken: the sum plus λ times their difference, which is 0 on
        average, λ from the other half of the pairs.
        """
        skipped = (self.times if times is None else times) - 1
        blocks = [states[min(skipped, len(states) - 1) :] for states in self.blocks]  # all have met by the last
        every = [np.sum([_difference(look, each) for each in states], axis=0) for states in blocks]
        ends = [look(states[-1].first.position) - look(states[0].second.position) for states in blocks]
        off = np.concatenate(every)
        apart = np.concatenate(ends) - off
        weight = np.empty_like(off)
        for half in (slice(0, None, 2), slice(1, None, 2)):
            other = slice(1 - (half.start or 0), None, 2)
            a, b = off[other] - off[other].mean(axis=0), apart[other] - apart[other].mean(axis=0)
            weight[half] = np.clip(-(a * b).sum(axis=0) / np.maximum((b * b).sum(axis=0), 1e-300), 0, 1)
        return off + weight * apart

    def spread(self, look: Moments) -> np.ndarray:
        """The standard deviation of every function where the first chains are at last, which is nearest to π."""
        return np.concatenate([look(states[-1].first.position) for states in self.blocks]).std(axis=0)

    def bound(self, confidence: float, gradients: int, outside: Outside) -> Bound | None:
        """TV(P_T, π) and W1(P_T, π), of P_2T, ..., with upper limits; None where pairs have not met."""
        if not len(self) or self.late is not None:
            return None
        after = range(self.times, self.times * PASSES + 1, self.times)
        near = [limits.total_variation(self.passes, t, confidence) for t in after]
        curve = tuple(np.minimum.accumulate(near).tolist())  # the distance never grows along a chain
        means = tuple(float(np.maximum(0, self.passes - t).mean()) for t in after)
        apart, strangers = self._distances(outside)
        far = [limits.wasserstein(self.passes, apart, min(t, PASSES), confidence, strangers) for t in after]
        return Bound(curve[0], confidence, len(self), curve, means, gradients, tuple(far))

    def _distances(self, outside: Outside) -> tuple[np.ndarray, float]:
        """|X_{k+1} - Y_k| after every pass, ``(passes, pairs)``, late ones' further passes as one; and of strangers.

        Coordinates of x are in units of their spread.
        """
        first = np.concatenate([outside(states[-1].first.position) for states in self.blocks]).astype(np.float64)
        low, high = np.quantile(first, (0.16, 0.84), axis=0)
        spread = np.where(high > low, (high - low) / 2, 1.0)

        def between(one: np.ndarray, other: np.ndarray) -> np.ndarray:
            with np.errstate(invalid="ignore", over="ignore"):
                away = np.linalg.norm((one.astype(np.float64) - other.astype(np.float64)) / spread, axis=1)
            return np.where(np.isnan(away), np.inf, away)

        apart, at = np.zeros((PASSES + 1, len(self))), 0
        for states in self.blocks:
            for k, state in enumerate(states):
                away = between(*(outside(each.position) for each in state[:2]))
                apart[k, at : at + len(away)] = np.where(state.met, 0, away)
            at += len(states[-1].met)
        for which, moved in self.later:
            away = between(*(outside(each.position) for each in moved[:2]))
            np.add.at(apart[PASSES], which, np.where(moved.met, 0, away))
        return apart, float(between(first, np.roll(first, 1, axis=0)).mean())


class Moments(NamedTuple):
    """Every coordinate in units of its spread, and its square; far tails are drawn in, so that averages have errors.

    A normal coordinate reaches beyond `_REACH` spreads in one draw of 10^15, and has means and squares of unit
    variance.
    """

    centre: np.ndarray
    spread: np.ndarray
    names: tuple[str, ...]

    @staticmethod
    def of(names: tuple[str, ...], draws: np.ndarray) -> Moments:
        """Units from some draws: their median, and half the distance between the 16 % and 84 % quantiles."""
        low, centre, high = np.quantile(draws, (0.16, 0.5, 0.84), axis=0)
        spread = np.where(high > low, (high - low) / 2, 1.0)
        return Moments(centre, spread, (*names, *(f"({name})²" for name in names)))

    def __call__(self, position: np.ndarray | Array) -> np.ndarray:
        """Values ``(n, 2 dim)``."""
        z = np.clip((np.asarray(position, np.float64) - self.centre) / self.spread, -_REACH, _REACH)
        return np.concatenate([z, z**2 / np.sqrt(2)], axis=1)


def _difference(look: Moments, state: Pairs) -> np.ndarray:
    values = [look(each.position) for each in state[:2]]
    return np.where(state.met[:, None], 0.0, values[0] - values[1])
