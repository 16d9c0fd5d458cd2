"""How `LongChain` is set for a network: where it starts, and how long its trajectories are.

The appendix runs variational inference for 200 iterations, keeps the means, and sets variances to n^-0.5, n being the
inputs of a weight's layer: variational variances are too small to start from. The predecessor (EMPF) kept them; both
are here. What n is for the noise it does not say: log τ starts with a standard deviation of 0.1, since networks that
start with too little noise never move (their forces are too large for any step).
"""

from __future__ import annotations

import math
from dataclasses import replace

from ..methods.long_chain import LongChain
from .network import RegressionNetwork

_NOISE_SCALE = 0.1
_SPREAD = 0.1
"""P0's standard deviations in units of the appendix's (`ergodic_studies.bench.network_choices`)."""
_ROW_PASSES = 100_000
"""Rows times leapfrogs of a long chain's transition: large tables get the same arithmetic (docs/bnn.md: its time)."""
_FEW = 1100
"""Rows below which it gets √(this / rows) times that: few rows may have little noise, and steps are short then."""
_LONGEST = 800
"""Leapfrogs of its transition at most."""


def from_network_start(chain: LongChain, network: RegressionNetwork, spread: float | None = 1.0) -> LongChain:
    """The chain with a network's start: variational inference from a random network, He's.

    Args:
      spread: P0's standard deviations in units of n^-0.25; 1 is the appendix's. None: the variational ones.
    """
    scale: tuple[float, ...] | None = None
    if spread is not None:
        scales = spread * network.inputs_of() ** -0.25
        scales[network.noise_index] = _NOISE_SCALE
        scale = tuple(scales.tolist())
    return replace(chain, vi_spread=tuple(network.random_scale().tolist()), initial_scale=scale, alone=True)


def long_chain(rows: int, effort: float = 1.0) -> LongChain:
    """Ours, given so many rows: 50 transitions of as many leapfrogs as a fixed amount of arithmetic buys.

    ``effort`` is the length of its trajectories in units of the default.
    """
    passes = _ROW_PASSES * math.sqrt(max(1.0, _FEW / rows))
    leapfrogs = max(3, round(effort * min(_LONGEST, passes / rows)))
    return LongChain(leapfrogs=leapfrogs, iterations=25, particles=1, step_size=(0.002, 0.005))


def network_chain(network: RegressionNetwork, rows: int, effort: float = 1.0) -> LongChain:
    """The long chain from a network's start, a tenth as wide as the appendix's."""
    return from_network_start(long_chain(rows, effort), network, _SPREAD)
