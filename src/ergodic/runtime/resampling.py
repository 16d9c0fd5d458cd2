"""Equally weighted draws out of weighted runs, a block at a time.

A block's n draws are chosen from its R > n runs by systematic resampling: run i comes N_i times, n w_i/Σw rounded up or
down at random. Rejection would need a bound of the weights, which nobody knows; systematic resampling needs none, and
where n w_i/Σw < 1 it is rejection: no run comes twice. What draws are worth follows from N alone,

    Var[Σ N f/n] ≈ Var[f] Σ N²/n²,   so that n draws are worth n²/Σ N² = n / (mean over draws of their run's N)

independent ones, which is never more than n, nor (on average) than the (Σw)²/Σw² of the runs. R/n comes from the first
chunk of runs: the least at which draws are worth nine tenths of their number.

Blocks bound the memory and depend on the key and on their index alone. Each normalises its own weights, which leaves a
bias of Cov_π[w/E[w], f]/R however many blocks there are: for log-normal weights at most sd[log w] · sd[f]/E, with E the
block's effective size. Blocks have 32,768 runs, so at sd[log w] = 1, where E is 12,000, that is 8e-5 sd: less than the
Monte Carlo error sd/√n of up to 100 million draws.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import count, islice
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float

from .drawing import Batch

WORTH = 0.9
"""What a draw should be worth."""
_RUNS = 1 << 15  # of a block
_VALUES = 1 << 24  # of a block's runs, at most
_RATIOS = 1.1 ** np.arange(41)  # runs per draw, at most 45
_KEY = 0x72736D70  # folded into the key, so that choosing does not share the runs' randomness


class Blocks(NamedTuple):
    """How runs become draws: ``draws`` are chosen from ``chunks`` chunks of ``size`` runs each."""

    draws: int
    chunks: int
    size: int

    @classmethod
    def of(cls, first: Batch, n: int, *, whole: bool = False) -> Blocks:
        """Blocks for n draws, given the first chunk of runs; with ``whole`` n is a multiple of a block's draws."""
        size, dim = first.position.shape
        ratio = _runs_per_draw(shares(first.stats["log_weight"]))
        blocks = min(n, math.ceil(n * ratio / max(size, min(_RUNS, _VALUES // dim))))
        if whole:
            blocks = next(parts for parts in range(blocks, n + 1) if n % parts == 0)
        draws = math.ceil(n / blocks)
        return cls(draws, math.ceil(draws * ratio / size), size)

    @property
    def runs(self) -> int:
        """Runs of a block."""
        return self.chunks * self.size

    def batches(self, runs: Iterator[Batch], key: Array, start: int = 0) -> Iterator[Batch]:
        """Draws of block ``start`` and of those after it, as long as there are chunks of runs for them."""
        for index in count(start):
            chunks = list(islice(runs, self.chunks))
            if not chunks:
                return
            yield resampled(_joined(chunks), self.draws, jax.random.fold_in(jax.random.fold_in(key, _KEY), index))


def shares(log_weight: Float[Array | np.ndarray, "runs"]) -> Float[np.ndarray, "runs"]:
    """Weights that add up to 1; what is not a number has none, and where none has any, all have the same."""
    log_weight = np.nan_to_num(np.asarray(log_weight, np.float64), nan=-np.inf, posinf=-np.inf, neginf=-np.inf)
    weight = np.exp(log_weight - top) if np.isfinite(top := log_weight.max()) else np.ones(len(log_weight))
    return weight / weight.sum()


def resampled(runs: Batch, n: int, key: Array) -> Batch:
    """n equally weighted draws in random order; ``stats["copies"]`` says how often a draw's run comes among them."""
    places = (np.arange(n) + float(jax.random.uniform(key))) / n
    reached = np.cumsum(shares(runs.stats["log_weight"]))
    rows = np.minimum(np.searchsorted(reached, places), len(reached) - 1)
    rows = np.asarray(jax.random.permutation(jax.random.fold_in(key, 1), rows))
    stats: dict[str, Any] = {name: column[rows] for name, column in runs.stats.items() if name != "log_weight"}
    stats["copies"] = np.bincount(rows)[rows].astype(np.int32)
    return Batch(runs.position[rows], runs.logdensity[rows], stats, runs.trace)


def _runs_per_draw(share: Float[np.ndarray, "runs"]) -> float:
    """The least R/n at which Σ E[N²]/n is 1/WORTH or less, for runs whose weights are like these."""
    for ratio in _RATIOS:
        often = share * len(share) / ratio  # E[N]
        part = often % 1
        if WORTH * ratio * np.mean(often**2 + part * (1 - part)) <= 1:
            break
    return float(ratio)


def _joined(chunks: list[Batch]) -> Batch:
    rows: Batch = jax.tree_util.tree_map(lambda *parts: np.concatenate(parts), *(c._replace(trace={}) for c in chunks))
    return rows._replace(trace={name: np.mean([c.trace[name] for c in chunks], axis=0) for name in chunks[0].trace})
