"""What the core costs: tuning against simulating, memory against L and T, sampling against bare gradients, import time.

    python -m ergodic_studies.bench.core --out results/core

Every ratio is of two things measured alternately in this one run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax

import ergodic as eg
from ergodic.chain import ChainParams, simulate
from ergodic.runtime.programs import compiled
from ergodic.tuning.ascent import ADAM, _step
from ergodic.tuning.emlbo import Emlbo

from ..harness.results import write_results
from .problems import logistic_regression
from .timing import alternate

PARTICLES = 100


def tuning_programs(target: eg.Target, steps: int, leapfrogs: int, particles: int = PARTICLES):
    """Compiled: plain simulation of the particles, a frozen-force iteration and a full-gradient iteration."""
    key = jax.random.key(0)
    method = eg.HEI(steps=steps, leapfrogs=leapfrogs, initial_scale=0.1)
    params = method.untuned(target, key).params
    numbers = (jnp.asarray(0, jnp.int32), jnp.asarray(0.07, target.dtype), jnp.asarray(-1e9, target.dtype))
    plain = compiled(_simulate, (target.density, method.kernel, particles), params, key)
    runs = {"simulation": partial(plain, params, key)}
    programs = {"simulation": plain}
    for gradient in ("frozen-force", "full"):
        objective = Emlbo(method.kernel, particles, gradient, "keep", True)
        state = optax.scale_by_adam(*ADAM).init(params)
        program = compiled(_step, (objective, target.density, ADAM), params, state, (), key, *numbers)
        runs[gradient] = partial(program, params, state, (), key, *numbers)
        programs[gradient] = program
    return runs, programs


def _simulate(density, kernel, particles: int, params: ChainParams, key):
    return simulate(density.batched, kernel, params, key, particles)


def tuning_cost(repeats: int) -> dict:
    """Seconds of an iteration over seconds of the plain simulation, T=10, L=5, 100 particles."""
    out = {}
    for name, target in (("gaussian", eg.targets.get("gaussian")), ("logistic", logistic_regression())):
        runs, _ = tuning_programs(target, 10, 5)
        seconds = alternate({k: runs[k] for k in ("simulation", "frozen-force")}, repeats)
        out[name] = {**seconds, "ratio": seconds["frozen-force"] / seconds["simulation"]}
    return out


def gradient_ratio(repeats: int) -> dict:
    """Full gradient over frozen force where the target's gradient dominates (logistic regression)."""
    target = logistic_regression()
    out = {}
    for steps in (15, 30):
        runs, _ = tuning_programs(target, steps, 5)
        seconds = alternate(runs, repeats)
        out[f"T={steps}"] = {**seconds, "ratio": seconds["full"] / seconds["frozen-force"]}
    return out


def tuning_memory() -> dict:
    """XLA's temporary bytes of a frozen-force iteration, against L and T."""
    target = logistic_regression()

    def temporary(steps: int, leapfrogs: int, gradient: str = "frozen-force") -> int:
        _, programs = tuning_programs(target, steps, leapfrogs)
        return programs[gradient].memory_analysis().temp_size_in_bytes

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


def sampling_cost(repeats: int) -> dict:
    """sample() against T L + 1 bare batched gradients of the same target and batch."""
    target, particles = logistic_regression(), 10_000
    key = jax.random.key(0)
    method = eg.HEI(steps=10, leapfrogs=5, initial_scale=0.1)
    sampler = method.untuned(target, key)
    depth = method.depth
    gradient = jax.jit(jax.vmap(jax.grad(target.density)))
    x = jax.random.normal(key, (particles, target.dim), target.dtype)

    def bare():
        for _ in range(depth):
            out = gradient(x)
        return out

    def sample():
        return sampler.sample(key, particles, chunk=particles, progress=False).unconstrained

    seconds = alternate({"bare gradients": bare, "sample": sample}, repeats)
    return {**seconds, "gradients": depth, "ratio": seconds["sample"] / seconds["bare gradients"]}


def memory_of_sampling() -> dict:
    """Peak resident memory beside the output, one million draws, each in a process of its own."""
    script = (
        "import re, jax, jax.numpy as jnp, ergodic as eg, sys\n"
        "dim = int(sys.argv[1])\n"
        "t = eg.Target(lambda x: -0.5 * jnp.sum(x**2), like=jnp.zeros(dim))\n"
        "d = eg.HEI(iterations=5).fit(t, jax.random.key(0)).sample(jax.random.key(1), 1_000_000)\n"
        "output = d.unconstrained.nbytes + d.logdensity.nbytes + sum(c.nbytes for c in d.stats.values())\n"
        "peak = 1024 * int(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1])\n"
        "print(peak, output, d.cost.run_seconds)\n"
    )
    out = {}
    for dim in (2, 100):
        run = subprocess.run([sys.executable, "-c", script, str(dim)], capture_output=True, text=True, check=True)
        peak, output, seconds = map(float, run.stdout.split())
        out[f"d={dim}"] = {
            "peak MB": peak / 1e6,
            "output MB": output / 1e6,
            "beside output MB": (peak - output) / 1e6,
            "seconds": seconds,
        }
    return out


def import_time(repeats: int = 7) -> dict:
    """Seconds to import, each in a fresh process, alternating."""

    def once(module: str) -> float:
        script = f"import time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"
        return float(subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout)

    times: dict[str, list[float]] = {"jax": [], "ergodic": []}
    for _ in range(repeats):
        for module, values in times.items():
            values.append(once(module))
    median = {module: float(np.median(values)) for module, values in times.items()}
    return {**median, "ratio": median["ergodic"] / median["jax"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--repeats", type=int, default=30)
    args = parser.parse_args()
    results = {}
    for name, measure in (
        ("import", import_time),
        ("tuning iteration / simulation", partial(tuning_cost, args.repeats * 10)),
        ("full / frozen-force", partial(gradient_ratio, args.repeats)),
        ("tuning memory, bytes", tuning_memory),
        ("sampling / bare gradients", partial(sampling_cost, 5)),
        ("one million draws", memory_of_sampling),
    ):
        results[name] = measure()
        print(name, json.dumps(results[name], indent=1), flush=True)
    config = {"repeats": args.repeats, "cores": os.cpu_count()}
    write_results(args.out, "core", "python -m ergodic_studies.bench.core", config, results)


if __name__ == "__main__":
    main()
