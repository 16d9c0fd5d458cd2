"""How draws are made from what was fitted: independent runs in chunks, or parallel chains that go on.

A method names one of the two as its ``draw``:

- `independent`: the method has ``simulate(density, params, key, particles) -> Batch``, a pure function. Draw i comes
  from chunk i // chunk and the key folded with that index, so any part of the draws can be made by itself: `batches`.
- `correlated`: the method has ``chains``, and ``advance(density, params, state, key) -> (state, Batch)``, one
  transition of all chains; ``params.state`` is where tuning left them, ``stats["gradients"]`` what each draw cost.
  Draws come step by step, chains side by side.

Either way the output is filled chunk by chunk on the host, or streamed to a file (adapters/streaming.py): memory beside
it does not grow with n.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jaxtyping import Array

from ..draws import Batch, Draws
from ..target import Density
from .programs import Stopwatch, compiled
from .progress import Progress

if TYPE_CHECKING:
    from ..sampler import Sampler

_CHUNK_PARTICLES = 1 << 11
_CHUNK_VALUES = 1 << 20


def default_chunk(dim: int) -> int:
    """Runs simulated at a time: enough to fill vector units, few enough to stay in cache."""
    return max(1, min(_CHUNK_PARTICLES, _CHUNK_VALUES // dim))


def independent(
    method: Any, sampler: Sampler, key: Array, n: int, *, chunk: int | None = None, progress: bool | None = None
) -> Draws:
    """n draws, each from a run of its own."""
    clock = Stopwatch()
    size = min(chunk or default_chunk(sampler.target.dim), n)
    count = math.ceil(n / size)
    columns = _collect(sampler, n, batches(sampler, key, 0, count, size), count, size, progress)
    return Draws(**columns, cost=clock.cost(count * size * sampler.depth, sampler.depth))


def by_index(method: Any) -> bool:
    """Whether a method's draws follow from the key and their index alone, so that `batches` makes any part of them."""
    return getattr(type(method), "draw", None) is independent


def batches(sampler: Sampler, key: Array, start: int, count: int, size: int) -> Iterator[Batch]:
    """Chunks start, ..., start + count - 1 of ``size`` independent draws, on the host, made as they are taken."""
    if getattr(sampler.method, "starts_apart", False):
        return _ahead(_in_two(sampler, key, index, size) for index in range(start, start + count))
    program = compiled(_run, (sampler.target.density, sampler.method, size), sampler.params, key, 0)
    return _ahead(program(sampler.params, key, index) for index in range(start, start + count))


def chain_program(sampler: Sampler, positions: Array, key: Array) -> Batch:
    """The sampler's chain from given positions ``(particles, dim)``; one program for drawing and for certifying."""
    args = (sampler.params, positions, key)
    return compiled(_chain, (sampler.target.density, sampler.method), *args)(*args)


def prepare(sampler: Sampler) -> None:
    """Compile what draws by default need, for a sampler whose chain goes on from given positions."""
    key, size = jax.random.key(0), default_chunk(sampler.target.dim)
    compiled(_begin, (size,), sampler.params.initial, key, 0)
    position: Any = jax.ShapeDtypeStruct((size, sampler.target.dim), sampler.target.dtype)  # type: ignore[no-untyped-call]
    compiled(_chain, (sampler.target.density, sampler.method), sampler.params, position, key)


def _in_two(sampler: Sampler, key: Array, index: int, size: int) -> Batch:
    """P0, then the chain, which a certificate then need not compile again: the draws of `_run`."""
    args = (sampler.params.initial, key, index)
    return chain_program(sampler, *compiled(_begin, (size,), *args)(*args))


def _begin(particles: int, initial: Any, key: Array, index: Any) -> tuple[Array, Array]:
    start_key, chain_key = jax.random.split(jax.random.fold_in(key, index))
    return initial.sample(start_key, particles), chain_key


def _chain(density: Density, method: Any, params: Any, positions: Array, key: Array) -> Batch:
    return method.go_on(density, params, positions, key)


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

    def going() -> Iterator[Batch]:
        state = sampler.params.state
        for index in range(count):
            state, batch = program(sampler.params, state, key, index)
            yield batch

    columns = _collect(sampler, n, _ahead(going()), count, size * chains, progress)
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


def _ahead(running: Iterator[Batch]) -> Iterator[Batch]:
    """Batches on the host; one computes while the last one is copied and used."""
    last: Batch | None = None
    for batch in running:
        if last is not None:
            yield jax.device_get(last)
        last = batch
    if last is not None:
        yield jax.device_get(last)


def _collect(
    sampler: Sampler, n: int, made: Iterator[Batch], count: int, size: int, progress: bool | None
) -> dict[str, Any]:
    """Copy batches into arrays of n rows."""
    target = sampler.target
    position = np.empty((n, target.dim), target.dtype)
    logdensity = np.empty(n, target.dtype)
    stats: dict[str, np.ndarray] = {}
    traces: list[dict[str, Any]] = []
    with Progress("sampling", n, enabled=progress if count > 1 else False) as bar:
        for index, batch in enumerate(made):
            rows = slice(index * size, min((index + 1) * size, n))
            take = slice(0, rows.stop - rows.start)
            position[rows], logdensity[rows] = batch.position[take], batch.logdensity[take]
            for name, column in batch.stats.items():
                stats.setdefault(name, np.empty(n, column.dtype))[rows] = column[take]
            traces.append(batch.trace)
            bar.advance(by=size)
    return {
        "target": target,
        "unconstrained": position,
        "logdensity": logdensity,
        "stats": stats,
        "trace": {name: np.mean([trace[name] for trace in traces], axis=0) for name in traces[0]},
    }
