"""What a method fitted: arrays and configuration, ready to draw and to be saved. No closures, no pickles."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from .chain import ChainParams, simulate
from .draws import Draws
from .errors import ConfigError
from .programs import Cost, Stopwatch, compiled
from .progress import Progress
from .target import Density, Target
from .validation import positive_int

_CHUNK_PARTICLES = 1 << 13
_CHUNK_VALUES = 1 << 20


@dataclass(frozen=True, eq=False)
class Sampler:
    """A fitted chain: ``sample(key, n)`` gives n independent draws of P_T.

    Attributes:
      target: what it samples.
      method: the frozen configuration that made it.
      params: the ergodic parameters (φ0, φ).
      record: the training record, one row an iteration.
      cost: what tuning cost.
      source: where the command line found the target: ``{"builtin": name}`` or ``{"file": ..., "object": ...}``.
    """

    target: Target
    method: Any
    params: ChainParams
    record: dict[str, np.ndarray] = field(default_factory=dict)
    cost: Cost = field(default_factory=Cost)
    source: dict[str, str] = field(default_factory=dict)

    def sample(self, key: Array, n: int, *, chunk: int | None = None, progress: bool | None = None) -> Draws:
        """Draw n times, each from a run of its own.

        Runs are simulated ``chunk`` at a time, so memory beside the output does not grow with n. Draw i depends on the
        key, on i and on ``chunk`` alone: asking for more draws does not change the first ones.
        """
        clock = Stopwatch()
        n = positive_int(n, "n, the number of draws")
        chunk = default_chunk(self.target.dim) if chunk is None else positive_int(chunk, "chunk")
        size = min(chunk, n)
        count = math.ceil(n / size)
        dim, dtype = self.target.dim, self.target.dtype
        program = compiled(_run, (self.target.density, self.method.kernel, size), self.params, key, 0)

        position = np.empty((n, dim), dtype)
        columns = {
            "logdensity": np.empty(n, dtype),
            "acceptance_rate": np.empty(n, dtype),
            "diverging": np.empty(n, bool),
            "energy_error": np.empty(n, dtype),
        }
        traces = []

        def keep(index: int, result: Any) -> None:
            end, stats, trace = jax.device_get(result)
            rows = slice(index * size, min((index + 1) * size, n))
            take = slice(0, rows.stop - rows.start)
            position[rows] = end.position[take]
            columns["logdensity"][rows] = end.logdensity[take]
            columns["acceptance_rate"][rows] = stats.acceptance[take]
            columns["diverging"][rows] = stats.divergences[take] > 0
            columns["energy_error"][rows] = stats.energy_error[take]
            traces.append(trace)

        with Progress("sampling", n, enabled=progress if count > 1 else False) as bar:
            running = None
            for index in range(count):  # one chunk computes while the last one is copied out
                result = program(self.params, key, index)
                if running is not None:
                    keep(index - 1, running)
                    bar.advance(by=size)
                running = result
            keep(count - 1, running)

        depth = self.params.depth(self.method.kernel)
        logdensity = columns.pop("logdensity")
        return Draws(
            target=self.target,
            unconstrained=position,
            logdensity=logdensity,
            stats=columns,
            trace={name: np.mean([getattr(t, name) for t in traces], axis=0) for name in traces[0]._fields},
            cost=clock.cost(count * size * depth, depth),
            attributes={"independent_draws": True, **self.method.attributes()},
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the sampler to one file, atomically; `ergodic.load` reads it back."""
        from .storage import save

        save(self, path)

    def __repr__(self) -> str:
        return (
            f"Sampler({self.method.name} on '{self.target.name}', dim={self.target.dim}, T={self.params.steps}, "
            f"tuned in {self.cost.run_seconds:.2f} s + {self.cost.compile_seconds:.2f} s compile)"
        )


def fit(target: Target, key: Array, method: Any = None, *, progress: bool | None = None) -> Sampler:
    """Tune a method to a target. The default method is `HEI` with the paper's settings."""
    if not isinstance(target, Target):
        raise ConfigError(
            f"fit needs a Target, not a {type(target).__name__}; wrap the log-density: eg.Target(f, like=...)"
        )
    if method is None:
        from .methods import HEI

        method = HEI()
    return method.fit(target, key, progress=progress)


def default_chunk(dim: int) -> int:
    """Runs simulated at a time: enough to fill vector units, few enough to stay in cache."""
    return max(1, min(_CHUNK_PARTICLES, _CHUNK_VALUES // dim))


def _run(density: Density, kernel: Any, particles: int, params: ChainParams, key: Array, index: Any) -> Any:
    return simulate(density.batched, kernel, params, jax.random.fold_in(key, index), particles)
