"""One seed of one method on one target, measured for `ergodic bench posteriors`.

A method is fitted and drawn from until it has made as many effective draws as are wanted, or until the time is up
(effective.py). Costs are then scaled to 1,000, 10,000 and 100,000 effective draws.
"""

from __future__ import annotations

import math
import time
import zlib
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array

from ergodic.draws import WeightedDraws
from ergodic.methods import GEI, HEI, LAPS, MEADS, NUTS, ChEES, Pathfinder
from ergodic.sampler import Sampler
from ergodic.statistics.wasserstein import sliced_wasserstein
from ergodic.target import Target

from ..measures.bias import SecondMoments, second_moments, squared_bias
from .effective import Spent, depth_of, draw_until
from .outside import NumPyroNUTS, NutpieNUTS

Rival = GEI | HEI | NUTS | ChEES | MEADS | LAPS | Pathfinder | NumPyroNUTS | NutpieNUTS
"""A method of the benchmark."""
SIZES = (1_000, 10_000, 100_000)


class Seed(Spent, total=False):
    """What was measured with one seed; ``seed`` and ``error`` alone where it raised."""

    b2_mean: float
    worst: str
    converged: bool
    sliced_wasserstein: float | None
    reached: bool
    sampling_seconds: dict[str, float]
    measured: float
    tuning_depth: int
    gradients: int
    certificate: str | None
    certificate_seconds: float | None
    certificate_compile_seconds: float | None


class Yardstick(NamedTuple):
    """What draws from a target are held against, made once for all seeds."""

    moments: SecondMoments
    exact: np.ndarray | None
    """Exact or reference draws, unconstrained; None where there are none."""

    @staticmethod
    def of(target: Target, draws: int) -> Yardstick:
        """From the target's truth, with so many exact draws, or from its reference."""
        exact = None
        if target.truth is not None and target.truth.draw is not None:
            exact = target.draw_exact(jax.random.key(20_000), draws)
        elif target.reference is not None and target.reference.unconstrained is not None:
            exact = target.reference.unconstrained
        return Yardstick(second_moments(target), exact)

    def distance(self, x: np.ndarray) -> float | None:
        """Sliced Wasserstein distance, coordinates divided by the exact draws' sd; of as many draws as both have."""
        if self.exact is None:
            return None
        size = min(len(x), len(self.exact))
        scale = self.exact.std(axis=0)
        mine, exact = (
            sample[np.linspace(0, len(sample) - 1, size).astype(int)].astype(np.float64) / scale
            for sample in (x, self.exact)
        )
        value = sliced_wasserstein(mine, exact)
        return value if math.isfinite(value) else None


def measure(
    target: Target, method: Rival, label: str, seed: int, yardstick: Yardstick, wanted: int, limit: float
) -> Seed:
    """Fit, draw and measure. Seconds of compiling are apart, so that a later seed, which has the programs, compares."""
    began, worked = time.perf_counter(), time.process_time()
    fit_key, sample_key, resample_key = keys_of(target, label, seed)
    sampler = method.fit(target, fit_key, progress=False)
    cost = sampler.cost
    worth = draw_until(sampler, sample_key, wanted, limit - cost.run_seconds, longer=SIZES[-1])
    draws = worth.draws
    weights = draws.weights if draws.kind == "weighted" else None
    x = draws.unconstrained if weights is not None else draws.unconstrained[: worth.for_effective(wanted)]
    bias = squared_bias(target, x, weights, yardstick.moments)
    shown = draws.resample(resample_key, wanted).unconstrained if isinstance(draws, WeightedDraws) else x
    certificate = sampler.certificate if isinstance(sampler, Sampler) else None
    return {
        "seed": seed,
        "kind": draws.kind,
        "b2_max": bias.largest,
        "b2_mean": bias.mean,
        "worst": bias.worst,
        "converged": bias.converged(),
        "sliced_wasserstein": yardstick.distance(_thin(shown, wanted)),
        "draws": len(draws),
        "effective": worth.effective,
        "reached": worth.effective >= wanted,
        "compile_seconds": cost.compile_seconds + worth.compile_seconds,
        "tuning_seconds": cost.run_seconds,
        "sampling_seconds": {str(size): worth.seconds(size) for size in SIZES},
        "measured": len(draws) if draws.independent else worth.effective,
        "depth": cost.depth + depth_of(draws, worth.part(wanted)),
        "tuning_depth": cost.depth,
        "gradients": cost.gradients + round(draws.cost.gradients * worth.part(wanted)),
        "tuning_gradients": cost.gradients,
        "certificate": None if certificate is None else certificate.verdict,
        "certificate_seconds": None if certificate is None else certificate.cost.run_seconds,
        "certificate_compile_seconds": None if certificate is None else certificate.cost.compile_seconds,
        "wall_seconds": (wall := time.perf_counter() - began),
        "cpu_share": (time.process_time() - worked) / wall,
    }


def keys_of(target: Target, label: str, seed: int) -> Array:
    """Keys to fit with, to draw with and to resample with, which no other method or target has."""
    key = jax.random.fold_in(jax.random.key(seed), zlib.crc32(f"{label}/{target.name}".encode()))
    return jax.random.split(key, 3)


def first_line(error: Exception) -> str:
    """What an exception says, for a record: its type and the first line of its message."""
    first = (str(error).strip().splitlines() or ["(no message)"])[0]
    return f"{type(error).__name__}: {first}"


def _thin(x: np.ndarray, size: int) -> np.ndarray:
    return x[np.linspace(0, len(x) - 1, min(size, len(x))).astype(int)]
