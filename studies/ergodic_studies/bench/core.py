"""`ergodic bench core`: what the core costs.

Tuning against simulating, memory against L and T, sampling against bare gradients, and the time to import. Every ratio
is of two things measured in turns in this one run.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
import typer
from jaxtyping import Array

import ergodic as eg
from ergodic.chain import ChainParams, simulate
from ergodic.kernels import HMC
from ergodic.runtime.programs import compiled
from ergodic.target import Density
from ergodic.tuning.adam import Adam
from ergodic.tuning.ascent import ADAM, _step
from ergodic.tuning.emlbo import Emlbo

from ..harness.presets import changed
from ..harness.processes import run_python
from ..harness.study import Report, Run, Study
from ..harness.tables import Table
from ..harness.timing import in_turns
from .problems import logistic_regression

PARTICLES = 100
Figures = dict[str, int | float]
"""What was measured, by name."""


@dataclass(frozen=True)
class Size:
    """How much is run."""

    repeats: int
    draws: int = 1_000_000
    """Draws whose memory is measured."""
    particles: int = 10_000
    """Particles that sampling is timed with."""
    steps: tuple[int, ...] = (15, 30)
    """Lengths of the chains whose two gradients are compared."""


PRESETS = {"smoke": Size(1, 5_000, 200, (2,)), "cpu": Size(30)}


def tuning_programs(
    target: eg.Target, steps: int, leapfrogs: int, particles: int = PARTICLES
) -> tuple[dict[str, Callable[[], object]], dict[str, Callable[..., object]]]:
    """Compiled: plain simulation of the particles, a frozen-force iteration and a full-gradient iteration."""
    key = jax.random.key(0)
    method = eg.HEI(steps=steps, leapfrogs=leapfrogs, initial_scale=0.1)
    params = method.untuned(target, key).params
    numbers = (jnp.asarray(0, jnp.int32), jnp.asarray(0.07, target.dtype), jnp.asarray(-1e9, target.dtype))
    plain = compiled(_simulate, (target.density, method.kernel, particles), params, key)
    runs: dict[str, Callable[[], object]] = {"simulation": partial(plain, params, key)}
    programs = {"simulation": plain}
    for gradient in ("frozen-force", "full"):
        objective = Emlbo(method.kernel, particles, gradient, "keep", True)
        state = Adam(*ADAM).init(params)
        program = compiled(_step, (objective, target.density, ADAM, None), params, state, (), key, *numbers)
        runs[gradient] = partial(program, params, state, (), key, *numbers)
        programs[gradient] = program
    return runs, programs


def _simulate(density: Density, kernel: HMC, particles: int, params: ChainParams, key: Array) -> object:
    return simulate(density.batched, kernel, params, key, particles)


def tuning_cost(repeats: int) -> dict[str, Figures]:
    """Seconds of an iteration over seconds of the plain simulation, T=10, L=5, 100 particles."""
    out = {}
    for name, target in (("gaussian", eg.targets.get("gaussian")), ("logistic", logistic_regression())):
        runs, _ = tuning_programs(target, 10, 5)
        seconds = in_turns({k: runs[k] for k in ("simulation", "frozen-force")}, repeats)
        out[name] = {**seconds, "ratio": seconds["frozen-force"] / seconds["simulation"]}
    return out


def gradient_ratio(repeats: int, lengths: tuple[int, ...]) -> dict[str, Figures]:
    """Full gradient over frozen force where the target's gradient dominates (logistic regression)."""
    target = logistic_regression()
    out = {}
    for steps in lengths:
        runs, _ = tuning_programs(target, steps, 5)
        seconds = in_turns(runs, repeats)
        out[f"T={steps}"] = {**seconds, "ratio": seconds["full"] / seconds["frozen-force"]}
    return out


def tuning_memory() -> Figures:
    """XLA's temporary bytes of a frozen-force iteration, against L and T."""
    target = logistic_regression()

    def temporary(steps: int, leapfrogs: int, gradient: str = "frozen-force") -> int:
        _, programs = tuning_programs(target, steps, leapfrogs)
        program = programs[gradient]
        assert isinstance(program, jax.stages.Compiled)
        analysis = program.memory_analysis()
        assert analysis is not None
        return int(analysis.temp_size_in_bytes)

    short, long = temporary(10, 5), temporary(10, 50)
    few, many = temporary(10, 5), temporary(40, 5)
    array = PARTICLES * target.dim * np.dtype(target.dtype).itemsize
    return {
        "frozen-force L=5": short,
        "frozen-force L=50": long,
        "growth L=5 to 50": long / short - 1,
        "frozen-force T=40": many,
        "arrays (particles, dim) a step": (many - few) / 30 / array,
        "full L=5": temporary(10, 5, "full"),
        "full L=50": temporary(10, 50, "full"),
    }


def sampling_cost(repeats: int, particles: int) -> Figures:
    """sample() against T L + 1 bare batched gradients of the same target and batch."""
    target = logistic_regression()
    key = jax.random.key(0)
    method = eg.HEI(steps=10, leapfrogs=5, initial_scale=0.1)
    sampler = method.untuned(target, key)
    depth = sampler.depth
    gradient = jax.jit(jax.vmap(jax.grad(target.density)))
    x = jax.random.normal(key, (particles, target.dim), target.dtype)

    def bare() -> Array:
        for _ in range(depth):
            out = gradient(x)
        return out

    def sample() -> np.ndarray:
        return sampler.sample(key, particles, chunk=particles, progress=False).unconstrained

    seconds = in_turns({"bare gradients": bare, "sample": sample}, repeats)
    return {**seconds, "gradients": depth, "ratio": seconds["sample"] / seconds["bare gradients"]}


def memory_of_sampling(draws: int) -> dict[str, Figures]:
    """Peak resident memory beside the output of so many draws, each in a process of its own."""
    script = (
        "import re, jax, jax.numpy as jnp, ergodic as eg, sys\n"
        "dim = int(sys.argv[1])\n"
        "t = eg.Target(lambda x: -0.5 * jnp.sum(x**2), like=jnp.zeros(dim))\n"
        "d = eg.HEI(iterations=5).fit(t, jax.random.key(0)).sample(jax.random.key(1), int(sys.argv[2]))\n"
        "output = d.unconstrained.nbytes + d.logdensity.nbytes + sum(c.nbytes for c in d.stats.values())\n"
        "peak = 1024 * int(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1])\n"
        "print(peak, output, d.cost.run_seconds)\n"
    )
    out = {}
    for dim in (2, 100):
        peak, output, seconds = map(float, run_python("-c", script, str(dim), str(draws)).output.split())
        out[f"d={dim}"] = {
            "peak MB": peak / 1e6,
            "output MB": output / 1e6,
            "beside output MB": (peak - output) / 1e6,
            "seconds": seconds,
        }
    return out


def import_time(repeats: int = 7) -> Figures:
    """Seconds to import, each in a fresh process, alternating."""

    def once(module: str) -> float:
        script = f"import time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"
        return float(run_python("-c", script).output)

    times: dict[str, list[float]] = {"jax": [], "ergodic": []}
    for _ in range(repeats):
        for module, values in times.items():
            values.append(once(module))
    median = {module: float(np.median(values)) for module, values in times.items()}
    return {**median, "ratio": median["ergodic"] / median["jax"]}


def core(
    run: Run[Size], *, repeats: Annotated[int | None, typer.Option(help="Turns, instead of the preset's.")] = None
) -> Report:
    """What the core costs: importing, tuning, sampling and memory, each beside what it is compared with."""
    size = changed(run.size, repeats=repeats)
    measures: dict[str, Callable[[], object]] = {
        "import": import_time,
        "tuning iteration / simulation": partial(tuning_cost, size.repeats * 10),
        "full / frozen-force": partial(gradient_ratio, size.repeats, size.steps),
        "tuning memory, bytes": tuning_memory,
        "sampling / bare gradients": partial(sampling_cost, 5, size.particles),
        "one million draws": partial(memory_of_sampling, size.draws),
    }
    results = {}
    for name, measure in measures.items():
        results[name] = measure()
        run.say(f"{name} {json.dumps(results[name], indent=1)}")
    table = Table.of("What the core costs", ["", "measured"], _lines(results))
    config = {"preset": run.preset.name, **asdict(size), "cores": os.cpu_count()}
    return Report(results, [table], config=config)


def _lines(value: object, name: str = "") -> list[list[object]]:
    """Nested figures as rows of a name and a number."""
    if not isinstance(value, dict):
        return [[name, f"{value:.4g}" if isinstance(value, float) else value]]
    return [line for key, inner in value.items() for line in _lines(inner, f"{name}, {key}" if name else str(key))]


STUDY = Study("core", "bench", PRESETS, core)
