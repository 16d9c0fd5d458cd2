"""The one loop that draws: batches come from compiled programs, their rows are copied into the output until it is full.

A method says how its batches are made (`protocols.py`): by index, so that draw i depends on the key and i alone; from
chains that go on; or from proposals until enough are accepted. The loop does not know which. Memory beside the output
does not grow with the number of draws.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float

from .errors import ConfigError
from .progress import Progress
from .validation import positive_int

_CHUNK_PARTICLES = 1 << 11
_CHUNK_VALUES = 1 << 20


_devices: ContextVar[tuple[jax.Device, ...] | None] = ContextVar("devices", default=None)


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


def spread(one: Callable[[int], Batch], indices: range) -> Iterator[Batch]:
    """Batches on the host, in order, each made by ``one(index)`` on one of the devices in use, whole.

    So every batch is what it would be on one device of that kind. There is a thread per device, since a batch may be
    made in many steps; no device waits for another.
    """
    there = in_use()
    if len(there) < 2 or len(indices) < 2:
        yield from ahead(map(one, indices))
        return
    double = bool(jax.config.jax_enable_x64)  # type: ignore[attr-defined]

    def made(index: int, device: jax.Device) -> Batch:
        with jax.default_device(device), jax.enable_x64(double):  # both are a thread's own
            return jax.device_get(one(index))

    pools = [ThreadPoolExecutor(1, thread_name_prefix=str(device)) for device in there]
    waiting: deque[Future[Batch]] = deque()
    try:
        for index in indices:
            at = index % len(there)
            waiting.append(pools[at].submit(made, index, there[at]))
            if len(waiting) == 2 * len(there):
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for pool in pools:
            pool.shutdown(cancel_futures=True)


@contextmanager
def using(devices: int | Sequence[jax.Device] | None) -> Iterator[None]:
    """Draw on so many of this process's devices, or on these, for the time being; None: as around it."""
    token = _devices.set(_devices.get() if devices is None else chosen(devices))
    try:
        yield
    finally:
        _devices.reset(token)


def chosen(devices: int | Sequence[jax.Device]) -> tuple[jax.Device, ...]:
    """So many of this process's devices, or these."""
    local = jax.local_devices()
    if isinstance(devices, int):
        count = positive_int(devices, "devices")
        if count > len(local):
            raise ConfigError(
                f"there are {len(local)} devices of this process, not {count}; on a CPU, more are there with "
                f"XLA_FLAGS=--xla_force_host_platform_device_count={count} in the environment"
            )
        return tuple(local[:count])
    if not devices or not all(device in local for device in devices):
        raise ConfigError(f"devices must be some of this process's, {', '.join(map(str, local))}, not {devices!r}")
    return tuple(devices)


def doing(what: str) -> str:
    """What is being done, for a line of progress, and on how many devices where there are several."""
    count = len(in_use())
    return what if count == 1 else f"{what} on {count} devices"


def in_use() -> tuple[jax.Device, ...]:
    """The devices that draws are made on: those that were chosen, or the usual ones."""
    given = _devices.get()
    return usual(jax.local_devices()) if given is None else given


def usual(local: Sequence[Any]) -> tuple[Any, ...]:
    """All of a process's devices; but of CPUs one, which has all cores as it is."""
    return tuple(local[:1] if local[0].platform == "cpu" else local)


def filled(batches: Iterator[Batch], n: int, *, size: int, progress: bool | None = None) -> Columns:
    """Take rows of batches, in order, until there are n. Where one batch of ``size`` is enough, there is no bar."""
    position = logdensity = np.empty(0)
    stats: dict[str, np.ndarray] = {}
    traces: list[dict[str, Array]] = []
    have = made = 0
    with Progress(doing("sampling"), n, "draws", enabled=progress if size < n else False) as bar:
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
