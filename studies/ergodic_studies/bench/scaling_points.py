"""Points of `ergodic bench scaling`: each measured in a process of its own, whose peak memory is then the point's.

    python -m ergodic_studies.bench.scaling_points '{"kind": "dimension", "dim": 100, "form": "rotated"}'

says one line of JSON. No cache of compiled programs is read, so that compile seconds are those of a first call. Bare
gradients are as many evaluations of log π* with its gradient as the draws take, in chunks of the same shape, by one
compiled loop; the two are timed in turns.
"""

from __future__ import annotations

import json
import math
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ergodic import targets
from ergodic.methods import GEI, NUTS
from ergodic.runtime.drawing import default_chunk
from ergodic.runtime.programs import compiled
from ergodic.sampler import Sampler
from ergodic.target import Density, Target
from ergodic.targets.classics import _normal
from ergodic_studies.measures.bias import squared_bias

_CONDITION = 1000.0
"""Of covariances: the largest variance over the smallest."""


@dataclass(frozen=True)
class Point:
    """What is measured.

    Attributes:
      kind: ``"dimension"``, ``"certificate"``, ``"draws"``, ``"chunk"``, ``"gradients"`` or ``"nuts"``.
      form: of the Gaussian: ``"standard"``, ``"scaled"`` or ``"rotated"`` (both ill-conditioned); or a target's name.
      dim: its dimension.
      draws: how many are timed.
      chunk: draws at a time; None: the default.
      repeats: of what is timed.
      small: whether it is a smoke test: hardly any warm-up, few draws certified.
    """

    kind: str
    form: str
    dim: int = 10
    draws: int = 2_000
    chunk: int | None = None
    repeats: int = 3
    small: bool = False

    def target(self) -> Target:
        """What is sampled."""
        if self.form not in ("standard", "scaled", "rotated"):
            return targets.get(self.form)
        condition = 1.0 if self.form == "standard" else _CONDITION
        scales = np.geomspace(condition**-0.5, 1, self.dim)
        return _normal(f"{self.form} Gaussian", scales, self.form == "rotated").target(f"{self.form}-{self.dim}")

    def run(self) -> dict[str, Any]:
        """Measure, here and now."""
        target, measures = self.target(), {"nuts": against_nuts, "certificate": certified}
        sampler = GEI(certify=False).fit(target, jax.random.key(0), progress=False)
        measured = measures.get(self.kind, against_gradients)(sampler, self)
        return {
            **asdict(self),
            "dim": target.dim,
            "depth": sampler.depth,
            "fit_seconds": sampler.cost.run_seconds,
            "compile_seconds": sampler.cost.compile_seconds,
            "fit_depth": sampler.cost.depth,
            **measured,
            "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }

    def in_process(self) -> dict[str, Any]:
        """Measure in a new process."""
        environment = {name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"}
        environment["JAX_ENABLE_COMPILATION_CACHE"] = "false"
        command = [sys.executable, "-m", __name__, json.dumps(asdict(self))]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode:
            lines = done.stderr.strip().splitlines() or [f"stopped with code {done.returncode}"]
            return {**asdict(self), "error": lines[-1]}
        return json.loads(done.stdout.strip().splitlines()[-1])


def against_gradients(sampler: Sampler, point: Point) -> dict[str, Any]:
    """Seconds of sampling, and of bare gradients; b2 of the draws."""
    target, key = sampler.target, jax.random.key(1)
    size = min(point.chunk or default_chunk(target.dim), point.draws)
    chunks = math.ceil(point.draws / size)
    x = jnp.asarray(sampler.params.initial.sample_on_host(np.random.default_rng(0), size))
    args = (x, np.int32(sampler.depth))
    program = compiled(_bare, (target.density,), *args)

    def bare() -> None:
        for _ in range(chunks):
            jax.device_get(program(*args))

    def sample() -> Any:
        return sampler.sample(key, point.draws, chunk=size, progress=False)

    draws = sample()
    seconds = in_turns({"sample": sample, "bare": bare}, point.repeats)
    known = target.truth is not None or target.reference is not None
    return {
        "sample_seconds": seconds["sample"],
        "bare_seconds": seconds["bare"],
        "ratio": seconds["sample"] / seconds["bare"],
        "gradients": chunks * size * sampler.depth,
        "b2_max": squared_bias(target, draws.unconstrained).largest if known else None,
    }


def certified(sampler: Sampler, point: Point) -> dict[str, Any]:
    """What the default's certificate costs beside the fit, and its verdict."""
    found = sampler.certify(jax.random.key(1), draws=1_000 if point.small else 10_000)
    return {
        "certificate": found.verdict,
        "certificate_seconds": found.cost.run_seconds,
        "certificate_compile_seconds": found.cost.compile_seconds,
    }


def against_nuts(sampler: Sampler, point: Point) -> dict[str, Any]:
    """Seconds to so many independent draws, and NUTS's to as many effective ones, from a tenth as many of its draws."""
    key = jax.random.key(1)
    sampler.sample(key, point.draws, progress=False)
    draws = sampler.sample(key, point.draws, progress=False)
    nuts = NUTS(warmup=50 if point.small else 1000).fit(sampler.target, jax.random.key(2), progress=False)
    made = max(100, point.draws // 10)
    nuts.sample(key, made, progress=False)
    chain = nuts.sample(jax.random.key(3), made, progress=False)
    seconds = chain.cost.run_seconds * point.draws / chain.effective_size()
    return {
        "sample_seconds": draws.cost.run_seconds,
        "nuts_seconds": seconds,
        "ratio": draws.cost.run_seconds / seconds,
        "nuts_fit_seconds": nuts.cost.run_seconds,
        "nuts_compile_seconds": nuts.cost.compile_seconds,
        "nuts_effective": chain.effective_size() / made,
        "b2_max": squared_bias(sampler.target, draws.unconstrained).largest,
    }


def in_turns(candidates: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Median seconds of each, run in turns, so that a busy machine hits all alike; the first turn is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    for repeat in range(repeats + 1):
        for name, call in candidates.items():
            began = time.perf_counter()
            call()
            if repeat:
                seconds[name].append(time.perf_counter() - began)
    return {name: float(np.median(values)) for name, values in seconds.items()}


def _bare(density: Density, x: Array, count: Array) -> tuple[Array, Array]:
    def once(_: Any, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        value, gradient = density.batched(carry[0])
        return carry[0] + 1e-6 * gradient, carry[1] + value

    return jax.lax.fori_loop(0, count, once, (x, jnp.zeros_like(x[:, 0])))


if __name__ == "__main__":
    print(json.dumps(Point(**json.loads(sys.argv[1])).run()))
