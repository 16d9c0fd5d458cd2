"""The one loop that draws: batches come from compiled programs, their rows are copied into the output until it is full.

A method says how its batches are made (`protocols.py`): by index, so that draw i depends on the key and i alone; from
chains that go on; or from proposals until enough are accepted. The loop does not know which. Memory beside the output
does not grow with the number of draws.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float

from .progress import Progress

_CHUNK_PARTICLES = 1 << 11
_CHUNK_VALUES = 1 << 20


class Kind(StrEnum):
    """What draws are to one another; also plain text, so that ``draws.kind == "weighted"`` works."""

    INDEPENDENT = "independent"
    """Each draw comes from a run of its own."""
    WEIGHTED = "weighted"
    """Each comes from a run of its own and counts by its weight."""
    RESAMPLED = "resampled"
    """Each counts the same; they were chosen from weighted runs."""
    CORRELATED = "correlated"
    """Draws follow one another along chains."""


class Batch(NamedTuple):
    """Some draws, as a compiled program returns them; draws of a family have an axis of members in front."""

    position: Float[Array, "*members particles dim"]
    logdensity: Float[Array, "*members particles"]
    stats: dict[str, Array]
    """One value per draw: ``acceptance_rate``, ``diverging``, ``energy_error``, ``log_weight``, ``gradients``, ..."""
    trace: dict[str, Array]
    """Averages over the batch along the run, such as ``expected_logdensity`` (T+1 values)."""


class Columns(NamedTuple):
    """All draws that were asked for, on the host."""

    position: np.ndarray
    """``(*members, n, dim)``."""
    logdensity: np.ndarray
    """``(*members, n)``."""
    stats: dict[str, np.ndarray]
    trace: dict[str, np.ndarray]
    """Averages over all batches."""
    made: int
    """Rows that were simulated; the last batch may have had more than were needed."""
    batches: int


def default_chunk(dim: int) -> int:
    """Runs simulated at a time: enough to fill vector units, few enough to stay in cache."""
    return max(1, min(_CHUNK_PARTICLES, _CHUNK_VALUES // dim))


def ahead(running: Iterator[Batch]) -> Iterator[Batch]:
    """Batches on the host; one is computed while the last one is copied and used."""
    last: Batch | None = None
    for batch in running:
        if last is not None:
            yield jax.device_get(last)
        last = batch
    if last is not None:
        yield jax.device_get(last)


def filled(batches: Iterator[Batch], n: int, *, size: int, progress: bool | None = None) -> Columns:
    """Take rows of batches, in order, until there are n. Where one batch of ``size`` is enough, there is no bar."""
    position = logdensity = np.empty(0)
    stats: dict[str, np.ndarray] = {}
    traces: list[dict[str, Array]] = []
    have = made = 0
    with Progress("sampling", n, "draws", enabled=progress if size < n else False) as bar:
        for batch in batches:
            lead, rows = batch.logdensity.shape[:-1], batch.logdensity.shape[-1]
            if not traces:
                position = np.empty((*lead, n, batch.position.shape[-1]), batch.position.dtype)
                logdensity = np.empty((*lead, n), batch.logdensity.dtype)
                stats = {name: np.empty((*lead, n), column.dtype) for name, column in batch.stats.items()}
            take = min(rows, n - have)
            here = slice(have, have + take)
            position[..., here, :], logdensity[..., here] = batch.position[..., :take, :], batch.logdensity[..., :take]
            for name, column in batch.stats.items():
                stats[name][..., here] = column[..., :take]
            traces.append(batch.trace)
            have, made = have + take, made + rows
            bar.advance(by=rows)
            if have >= n:
                break
    trace = {name: np.mean([trace[name] for trace in traces], axis=0) for name in traces[0]}
    return Columns(position, logdensity, stats, trace, made, len(traces))
