"""One seed of one method on one target, measured for `ergodic bench posteriors`.

A method is fitted and drawn from until it has made as many effective draws as are wanted, or until the time is up:
n draws of an independent method are n effective ones; weighted draws are worth (Σw)²/Σw²; of chains, ArviZ's bulk
estimate is taken, the smallest over coordinates x_i and their squares. Costs are then scaled, linearly, to 1,000,
10,000 and 100,000 effective draws. The first draws of k chains that run side by side are k independent ones, and cost
one transition.
"""

from __future__ import annotations

import math
import time
import zlib
from typing import NamedTuple, TypedDict

import jax
import numpy as np
from jaxtyping import Array

from ergodic.draws import Draws, WeightedDraws
from ergodic.methods import GEI, HEI, LAPS, MEADS, NUTS, ChEES, Pathfinder
from ergodic.protocols import Correlated
from ergodic.runtime.arviz import ess
from ergodic.sampler import Sampler
from ergodic.statistics.wasserstein import sliced_wasserstein
from ergodic.target import Target

from ..measures.bias import SecondMoments, second_moments, squared_bias
from .outside import NumPyroNUTS, NutpieNUTS, Running

Rival = GEI | HEI | NUTS | ChEES | MEADS | LAPS | Pathfinder | NumPyroNUTS | NutpieNUTS
"""A method of the benchmark."""
SIZES = (1_000, 10_000, 100_000)
_PROBE = 2_000
"""Draws of a first look at how fast chains mix."""
_PROBE_STEPS = 8
"""Transitions of that look at least."""
_VALUES = 50_000_000
"""Numbers that draws may hold."""


class Seed(TypedDict, total=False):
    """What was measured with one seed; ``seed`` and ``error`` alone where it raised."""

    seed: int
    error: str
    kind: str
    b2_max: float
    b2_mean: float
    worst: str
    converged: bool
    sliced_wasserstein: float | None
    draws: int
    effective: float
    reached: bool
    compile_seconds: float
    tuning_seconds: float
    sampling_seconds: dict[str, float]
    measured: float
    depth: int
    tuning_depth: int
    gradients: int
    tuning_gradients: int
    certificate: str | None
    certificate_seconds: float | None
    certificate_compile_seconds: float | None
    wall_seconds: float
    cpu_share: float


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
    key = jax.random.fold_in(jax.random.key(seed), zlib.crc32(f"{label}/{target.name}".encode()))
    fit_key, sample_key, resample_key = jax.random.split(key, 3)
    sampler = method.fit(target, fit_key, progress=False)
    cost = sampler.cost
    worth = _draw(sampler, sample_key, wanted, limit - cost.run_seconds)
    draws = worth.draws
    weights = draws.weights if draws.kind == "weighted" else None
    x = draws.unconstrained if weights is not None else draws.unconstrained[: worth.for_effective(wanted)]
    bias = squared_bias(target, x, weights, yardstick.moments)
    shown = draws.resample(resample_key, wanted).unconstrained if isinstance(draws, WeightedDraws) else x
    part = worth.for_effective(wanted) / len(draws)
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
        "depth": cost.depth + _depth(draws, part),
        "tuning_depth": cost.depth,
        "gradients": cost.gradients + round(draws.cost.gradients * part),
        "tuning_gradients": cost.gradients,
        "certificate": None if certificate is None else certificate.verdict,
        "certificate_seconds": None if certificate is None else certificate.cost.run_seconds,
        "certificate_compile_seconds": None if certificate is None else certificate.cost.compile_seconds,
        "wall_seconds": (wall := time.perf_counter() - began),
        "cpu_share": (time.process_time() - worked) / wall,
    }


class Worth(NamedTuple):
    """Draws, and how many effective ones they are worth."""

    draws: Draws
    effective: float
    compile_seconds: float
    long_run: tuple[int, float] | None = None
    """Another run of an independent method: draws and seconds."""

    def for_effective(self, size: int) -> int:
        """How many draws are worth ``size`` effective ones: whole transitions of all chains."""
        chains, n = self.draws.chains, len(self.draws)
        if self.draws.independent:
            return size
        if self.draws.kind == "correlated" and size <= chains:
            return chains
        return max(chains, math.ceil(size * n / max(self.effective, 1e-9) / chains) * chains)

    def seconds(self, size: int) -> float:
        """Of sampling, without compiling, for ``size`` effective draws."""
        n, seconds = len(self.draws), self.draws.cost.run_seconds
        if self.long_run is not None and size > n:
            n, seconds = self.long_run
        return seconds * self.for_effective(size) / n


def _draw(sampler: Sampler | Running, key: Array, wanted: int, seconds: float) -> Worth:
    """Draw until ``wanted`` effective ones are there, or the seconds are up; at least one probe is made."""
    method = sampler.method
    chains = method.chains if isinstance(method, Correlated | NumPyroNUTS | NutpieNUTS) else None
    block = wanted if chains is None else max(_PROBE, _PROBE_STEPS * chains)
    chunk = None if chains is None else block
    draws = _sample(sampler, key, block, chunk)
    compiling, spent = draws.cost.compile_seconds, draws.cost.run_seconds
    most = max(block, _VALUES // sampler.target.dim)
    if draws.independent:
        longer = min(SIZES[-1], most)
        if spent * longer / block > seconds or longer <= block:
            return Worth(draws, float(len(draws)), compiling)
        long = _sample(sampler, key, longer, chunk).cost
        return Worth(draws, float(len(draws)), compiling + long.compile_seconds, (longer, long.run_seconds))
    effective = _effective(draws)
    while effective < wanted:
        rate = draws.cost.run_seconds / len(draws)
        n = int(min(1.15 * len(draws) * wanted / max(effective, 1.0), 32 * len(draws), seconds / rate, most))
        if n < 1.1 * len(draws):
            break
        draws = _sample(sampler, key, n, chunk)
        compiling += draws.cost.compile_seconds
        effective = _effective(draws)
    return Worth(draws, effective, compiling)


def _sample(sampler: Sampler | Running, key: Array, n: int, chunk: int | None) -> Draws:
    """Draws as the sampler makes them, with weights where it gives them: effective draws are counted here."""
    if isinstance(sampler, Sampler) and sampler.kind == "weighted":
        return sampler.sample(key, n, weighted=True, chunk=chunk, progress=False)
    return sampler.sample(key, n, chunk=chunk, progress=False)


def _effective(draws: Draws) -> float:
    """Over coordinates and their squares, the smallest; at most the number of draws.

    (Thousands of chains of a few steps make the estimate many times that.)
    """
    if draws.kind == "weighted":
        return draws.effective_size()
    x = draws.by_chain(draws.unconstrained)
    if x.shape[1] < 4:
        return float(min(draws.chains, len(draws)))
    sizes = [ess(f(x[:, :, i].astype(np.float64))) for i in range(x.shape[2]) for f in (_same, np.square)]
    return min([float(len(draws)), *(size for size in sizes if math.isfinite(size))])


def _same(x: np.ndarray) -> np.ndarray:
    return x


def _depth(draws: Draws, part: float) -> int:
    """Gradients one after the other for that part of the draws; of chains, of the one that took the most."""
    if draws.kind != "correlated":
        return draws.cost.depth
    return round(float(draws.by_chain(draws.stats["gradients"].astype(np.int64)).sum(axis=1).max()) * part)


def _thin(x: np.ndarray, size: int) -> np.ndarray:
    return x[np.linspace(0, len(x) - 1, min(size, len(x))).astype(int)]
