"""What GEI's choices are worth: each changed alone, on targets where they matter.

    python -m ergodic_studies.bench.greedy

A pilot, a P0 and a schedule are made as `GEI.fit` does in its first round, without a certificate; b2 is that of 8,192
fresh draws. Depth is in gradients one after the other.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import jax
import numpy as np

import ergodic as eg
from ergodic.charts import fitting as ensemble_metric
from ergodic.initial.mixture import KernelMixture
from ergodic.methods.gei import params_of
from ergodic.runtime import programs
from ergodic.tuning import greedy, walking
from ergodic.tuning.tempering import gaussian_around
from ergodic_studies.measures.bias import squared_bias

from ..harness.results import write_results

TARGETS = ("laplace", "rosenbrock", "eight-schools", "kidiq", "sblrc", "diamonds", "german-credit", "brownian")
DRAWS = 8192


class StudentT(NamedTuple):
    """The note's refitted P0: Student-t with 8 degrees of freedom around a Gaussian of 1.25² the pilot's covariance."""

    gaussian: KernelMixture

    def sample(self, key: Any, particles: int) -> Any:
        normal_key, scale_key = jax.random.split(key)
        centre = self.gaussian.centres
        spread = jax.random.chisquare(scale_key, 8, (particles, 1), centre.dtype) / 8
        return centre + (self.gaussian.sample(normal_key, particles) - centre) / spread**0.5

    def sample_on_host(self, rng: np.random.Generator, particles: int) -> np.ndarray:
        centre = np.asarray(self.gaussian.centres)
        spread = rng.chisquare(8, size=(particles, 1)) / 8
        away = self.gaussian.sample_on_host(rng, particles) - centre
        return (centre + away / np.sqrt(spread)).astype(centre.dtype)


@contextmanager
def changed(module: Any, name: str, value: Any) -> Iterator[None]:
    """One constant changed, and nothing left of programs that were compiled with the other."""
    programs._programs.clear()
    with patch.object(module, name, value):
        yield
    programs._programs.clear()


VARIANTS: dict[str, tuple[Any, str, Any]] = {
    "as it is": (walking, "LEAST", walking.LEAST),
    "metric clipped to kappa 10": (ensemble_metric, "_KAPPA", 10.0),
    "step never doubled": (greedy, "_EASY", 2.0),
    "length searched at every step": (walking, "modes_of", lambda count, fine=False: [greedy.SEARCH] * count),
}
STARTS: dict[str, Callable[[np.ndarray, Any], Any]] = {
    "P0 Gaussian, 1.25 times as wide": lambda x, metric: gaussian_around(x),
    "P0 Student-t, 1.25 times as wide": lambda x, metric: StudentT(gaussian_around(x)),
}


def measure(name: str, seed: int, around: Callable[[np.ndarray, Any], Any]) -> dict[str, float]:
    """One fit without a certificate."""
    target, method, key = eg.targets.get(name), eg.GEI(), jax.random.key(seed)
    n, kernel = method.particles, method.kernel
    found = walking.pilot(target, kernel, method.starts(target), key, particles=n, most=method.pilot)
    initial = around(np.asarray(found.walk.ensemble.position), jax.device_get(found.metric))
    ways = (target.density, kernel, initial)
    tuned = walking.retune(
        *ways, found.metric, found.walk.step, jax.random.fold_in(key, 1), particles=n, most=method.steps
    )
    if tuned.settled:
        tuned = walking.prune(*ways, tuned, jax.random.fold_in(key, 2))
    if not len(tuned.chosen.step):
        return {"pilot": found.depth, "tuning": tuned.depth, "steps": 0, "draw": 0, "b2": float("inf")}
    params = params_of(KernelMixture.around(np.asarray(found.walk.ensemble.position), found.metric), tuned)
    sampler = eg.Sampler(target, method, params._replace(initial=initial))
    draws = sampler.sample(jax.random.fold_in(key, 3), DRAWS, progress=False)
    return {
        "pilot": found.depth,
        "tuning": tuned.depth,
        "steps": len(tuned.chosen.step),
        "draw": sampler.depth,
        "b2": squared_bias(target, draws.unconstrained).largest,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/greedy"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--targets", nargs="+", default=list(TARGETS))
    options = parser.parse_args()
    rows = []
    for label in (*VARIANTS, *STARTS):
        around = STARTS.get(label, KernelMixture.around)
        with changed(*VARIANTS.get(label, VARIANTS["as it is"])):
            for name in options.targets:
                seeds = [measure(name, seed, around) for seed in range(options.seeds)]
                row = {
                    "variant": label,
                    "target": name,
                    **{k: float(np.median([s[k] for s in seeds])) for k in seeds[0]},
                }
                rows.append({**row, "worst_b2": max(s["b2"] for s in seeds)})
                print({k: round(v, 5) if isinstance(v, float) else v for k, v in rows[-1].items()}, flush=True)
    command = "python -m ergodic_studies.bench.greedy"
    write_results(options.out, "greedy", command, {"seeds": options.seeds, "draws": DRAWS}, rows)


if __name__ == "__main__":
    main()
