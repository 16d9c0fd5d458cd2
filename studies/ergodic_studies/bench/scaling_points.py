"""Points of `ergodic bench scaling`: each measured in a process of its own, whose peak memory is then the point's.

No cache of compiled programs is read, so that compile seconds are those of a first call. Bare
gradients are as many evaluations of log π* with its gradient as the draws take, in chunks of the same shape, by one
compiled loop; the two are timed in turns.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypedDict, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ergodic import targets
from ergodic.draws import Draws
from ergodic.methods import GEI, NUTS
from ergodic.runtime.drawing import default_chunk
from ergodic.runtime.programs import compiled
from ergodic.sampler import Sampler
from ergodic.target import Density, Target
from ergodic.targets.classics import _normal

from ..harness.cells import Cell
from ..harness.processes import call, peak_megabytes
from ..harness.timing import in_turns
from ..measures.bias import squared_bias

_CONDITION = 1000.0
"""Of covariances: the largest variance over the smallest."""


class Measured(TypedDict, total=False):
    """A measured point: its settings, and of the rest what its kind has."""

    kind: str
    form: str
    dim: int
    draws: int
    chunk: int | None
    repeats: int
    small: bool
    depth: int
    fit_seconds: float
    compile_seconds: float
    fit_depth: int
    peak_megabytes: float
    sample_seconds: float
    bare_seconds: float
    ratio: float
    gradients: int
    b2_max: float | None
    certificate: str
    certificate_seconds: float
    certificate_compile_seconds: float
    nuts_seconds: float
    nuts_fit_seconds: float
    nuts_compile_seconds: float
    nuts_effective: float
    error: str
    """Why there is nothing of all this."""


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
        """The target that is sampled."""
        if self.form not in ("standard", "scaled", "rotated"):
            return targets.get(self.form)
        condition = 1.0 if self.form == "standard" else _CONDITION
        scales = np.geomspace(condition**-0.5, 1, self.dim)
        return _normal(f"{self.form} Gaussian", scales, self.form == "rotated").target(f"{self.form}-{self.dim}")

    def cell(self, *, process: bool = True) -> Cell[Measured]:
        """The point as a cell, measured in a process of its own unless that is not wanted."""
        words = (self.kind, self.form, self.dim, self.draws)

        def work(path: Path) -> Measured:
            settings = asdict(self)
            return cast(Measured, call(f"{__name__}:measure", [settings])) if process else measure(settings)

        return Cell(words, asdict(self), work)


def measure(settings: dict[str, int | str | bool | None]) -> Measured:
    """Measure the point of these settings, here and now."""
    point = Point(**settings)  # type: ignore[arg-type]
    target, measures = point.target(), {"nuts": against_nuts, "certificate": certified}
    sampler = GEI(certify=False).fit(target, jax.random.key(0), progress=False)
    measured = measures.get(point.kind, against_gradients)(sampler, point)
    costs: Measured = {
        "dim": target.dim,
        "depth": sampler.depth,
        "fit_seconds": sampler.cost.run_seconds,
        "compile_seconds": sampler.cost.compile_seconds,
        "fit_depth": sampler.cost.depth,
    }
    peak = peak_megabytes()
    return cast(Measured, {**settings, **costs, **measured, "peak_megabytes": peak})


def against_gradients(sampler: Sampler, point: Point) -> Measured:
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

    def sample() -> Draws:
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


def certified(sampler: Sampler, point: Point) -> Measured:
    """What the default's certificate costs beside the fit, and its verdict."""
    found = sampler.certify(jax.random.key(1), draws=1_000 if point.small else 10_000)
    return {
        "certificate": found.verdict,
        "certificate_seconds": found.cost.run_seconds,
        "certificate_compile_seconds": found.cost.compile_seconds,
    }


def against_nuts(sampler: Sampler, point: Point) -> Measured:
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


def _bare(density: Density, x: Array, count: Array) -> tuple[Array, Array]:
    def once(_: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        value, gradient = density.batched(carry[0])
        return carry[0] + 1e-6 * gradient, carry[1] + value

    return jax.lax.fori_loop(0, count, once, (x, jnp.zeros_like(x[:, 0])))
