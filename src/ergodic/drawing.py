"""How draws are made from what was fitted: independent runs in chunks, or parallel chains that go on.

A method names one of the two as its ``draw``:

- `independent`: the method has ``simulate(density, params, key, particles) -> Batch``, a pure function. Draw i comes
  from chunk i // chunk and the key folded with that index.
- `correlated`: the method has ``chains``, and ``advance(density, params, state, key) -> (state, Batch)``, one
  transition of all chains; ``params.state`` is where tuning left them, ``stats["gradients"]`` what each draw cost.
  Draws come step by step, chains side by side.

Either way the output is filled chunk by chunk on the host: memory beside it does not grow with n.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jaxtyping import Array

from .draws import Batch, Draws
from .programs import Stopwatch, compiled
from .progress import Progress
from .target import Density

if TYPE_CHECKING:
    from .sampler import Sampler

_CHUNK_PARTICLES = 1 << 13
_CHUNK_VALUES = 1 << 20


def default_chunk(dim: int) -> int:
    """Runs simulated at a time: enough to fill vector units, few enough to stay in cache."""
    return max(1, min(_CHUNK_PARTICLES, _CHUNK_VALUES // dim))


def independent(
    method: Any, sampler: Sampler, key: Array, n: int, *, chunk: int | None = None, progress: bool | None = None
) -> Draws:
    """n draws, each from a run of its own."""
    clock = Stopwatch()
    density = sampler.target.density
    size = min(chunk or default_chunk(sampler.target.dim), n)
    count = math.ceil(n / size)
    program = compiled(_run, (density, method, size), sampler.params, key, 0)
    batches = (program(sampler.params, key, index) for index in range(count))
    columns = _collect(sampler, n, batches, count, size, progress)
    return Draws(**columns, cost=clock.cost(count * size * method.depth, method.depth))


def correlated(
    method: Any, sampler: Sampler, key: Array, n: int, *, chunk: int | None = None, progress: bool | None = None
) -> Draws:
    """n draws from chains that go on where tuning left them: correlated along each chain, and marked so."""
    clock = Stopwatch()
    target, chains = sampler.target, method.chains
    steps = math.ceil(n / chains)
    size = max(1, min((chunk or default_chunk(target.dim)) // chains, steps))
    count = math.ceil(steps / size)
    program = compiled(_go_on, (target.density, method, size), sampler.params, sampler.params.state, key, 0)

    def batches() -> Iterator[Batch]:
        state = sampler.params.state
        for index in range(count):
            state, batch = program(sampler.params, state, key, index)
            yield batch

    columns = _collect(sampler, n, batches(), count, size * chains, progress)
    gradients = columns["stats"]["gradients"].astype(np.int64)
    deepest = np.pad(gradients, (0, steps * chains - n)).reshape(steps, chains).max(axis=1)
    return Draws(**columns, cost=clock.cost(int(gradients.sum()), int(deepest.sum())), chains=chains)


def _run(density: Density, method: Any, particles: int, params: Any, key: Array, index: Any) -> Batch:
    return method.simulate(density, params, jax.random.fold_in(key, index), particles)


def _go_on(
    density: Density, method: Any, steps: int, params: Any, state: Any, key: Array, index: Any
) -> tuple[Any, Batch]:
    keys = jax.random.split(jax.random.fold_in(key, index), steps)
    state, batch = jax.lax.scan(lambda state, key: method.advance(density, params, state, key), state, keys)
    return state, jax.tree_util.tree_map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), batch)


def _collect(
    sampler: Sampler, n: int, batches: Iterator[Batch], count: int, size: int, progress: bool | None
) -> dict[str, Any]:
    """Copy batches into host arrays; one batch computes while the last one is copied."""
    target = sampler.target
    position = np.empty((n, target.dim), target.dtype)
    logdensity = np.empty(n, target.dtype)
    stats: dict[str, np.ndarray] = {}
    traces: list[dict[str, Any]] = []

    def keep(index: int, batch: Batch) -> None:
        batch = jax.device_get(batch)
        rows = slice(index * size, min((index + 1) * size, n))
        take = slice(0, rows.stop - rows.start)
        position[rows], logdensity[rows] = batch.position[take], batch.logdensity[take]
        for name, column in batch.stats.items():
            stats.setdefault(name, np.empty(n, column.dtype))[rows] = column[take]
        traces.append(batch.trace)

    with Progress("sampling", n, enabled=progress if count > 1 else False) as bar:
        running: Batch | None = None
        for index, batch in enumerate(batches):
            if running is not None:
                keep(index - 1, running)
                bar.advance(by=size)
            running = batch
        if running is not None:
            keep(count - 1, running)
    return {
        "target": target,
        "unconstrained": position,
        "logdensity": logdensity,
        "stats": stats,
        "trace": {name: np.mean([trace[name] for trace in traces], axis=0) for name in traces[0]},
    }
