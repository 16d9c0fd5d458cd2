"""`ergodic bench greedy`: what GEI's choices are worth, each changed alone, on targets where they matter.

A pilot, a P0 and a schedule are made as `GEI.fit` does in its first round, without a certificate; b2 is that of 8,192
fresh draws. Depth is in gradients one after the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from typing import Annotated, NamedTuple
from unittest.mock import patch

import jax
import jax.numpy as jnp
import numpy as np
import typer
from jax.scipy.special import digamma, gammaln
from jaxtyping import Array, Float

import ergodic as eg
from ergodic.charts import LinearChart
from ergodic.initial.mixture import KernelMixture
from ergodic.methods.schedule import params_of
from ergodic.tuning import greedy, stepping, walking
from ergodic.tuning.tempering import gaussian_around

from ..harness.presets import changed
from ..harness.study import Report, Run, Study
from ..harness.tables import Table
from ..measures.bias import squared_bias

TARGETS = ("laplace", "rosenbrock", "eight-schools", "kidiq", "sblrc", "diamonds", "german-credit", "brownian")
DRAWS = 8192


@dataclass(frozen=True)
class Size:
    """How much is run."""

    seeds: int = 3
    targets: tuple[str, ...] = TARGETS
    variants: int = 100
    """Changes that are tried, at most."""


PRESETS = {"smoke": Size(1, ("laplace",), 1), "cpu": Size()}


class StudentT(NamedTuple):
    """The note's refitted P0: Student-t with 8 degrees of freedom around a Gaussian of 1.25² the pilot's covariance."""

    gaussian: KernelMixture

    def sample(self, key: Array, particles: int) -> Float[Array, "particles dim"]:
        """Independent starting positions, by JAX."""
        normal_key, scale_key = jax.random.split(key)
        centre = self.gaussian.centres
        spread = jax.random.chisquare(scale_key, 8, (particles, 1), centre.dtype) / 8
        return centre + (self.gaussian.sample(normal_key, particles) - centre) / spread**0.5

    def sample_on_host(self, rng: np.random.Generator, particles: int) -> np.ndarray:
        """Independent starting positions, by NumPy."""
        centre = np.asarray(self.gaussian.centres)
        spread = rng.chisquare(8, size=(particles, 1)) / 8
        away = self.gaussian.sample_on_host(rng, particles) - centre
        return (centre + away / np.sqrt(spread)).astype(centre.dtype)

    def logdensity(self, x: Float[Array, "particles dim"]) -> Float[Array, "particles"]:
        """log p0(x), from the Gaussian's at x and at its centre."""
        top = self.gaussian.logdensity(self.gaussian.centres)
        squared = 2 * (top - self.gaussian.logdensity(x))
        return -self._log_normaliser() - 0.5 * (8 + x.shape[1]) * jnp.log1p(squared / 8)

    def entropy(self) -> Float[Array, ""]:
        """The entropy H(P0), in nats."""
        half = 0.5 * (8 + self.gaussian.centres.shape[1])
        return self._log_normaliser()[0] + half * (digamma(half) - digamma(4.0))

    def _log_normaliser(self) -> Float[Array, "1"]:
        dim = self.gaussian.centres.shape[1]
        log_det = -self.gaussian.logdensity(self.gaussian.centres) - 0.5 * dim * math.log(2 * math.pi)
        return log_det + 0.5 * dim * math.log(8 * math.pi) + gammaln(4.0) - gammaln(0.5 * (8 + dim))


Around = Callable[[np.ndarray, LinearChart], KernelMixture | StudentT]
"""P0 from the pilot's particles and the chart that was fitted to them."""


class Variant(NamedTuple):
    """GEI with one of its choices changed."""

    details: tuple[tuple[str, float], ...] = ()
    """Numbers of `GreedySettings`."""
    around: Around = KernelMixture.around
    searched: bool = False
    """Whether the length is searched at every step."""


VARIANTS = {
    "as it is": Variant(),
    "chart stretched by 10 at most": Variant((("chart_reach", 10.0),)),
    "step never doubled": Variant((("easy", 2.0),)),
    "length searched at every step": Variant(searched=True),
    "P0 Gaussian, 1.25 times as wide": Variant(around=lambda x, chart: gaussian_around(x, 1.25)),
    "P0 Student-t, 1.25 times as wide": Variant(around=lambda x, chart: StudentT(gaussian_around(x, 1.25))),
}


def _searched(count: int, fine: bool = False) -> list[int]:
    return [greedy.SEARCH] * count


def measure(name: str, seed: int, variant: Variant) -> dict[str, int | float]:
    """One fit without a certificate."""
    target, key = eg.targets.get(name), jax.random.key(seed)
    method = eg.GEI()
    method = replace(method, details=replace(method.details, **dict(variant.details)))  # type: ignore[arg-type]
    way, n = stepping.Way.on(target, method.kernel, method.details), method.particles
    with patch.object(walking, "modes_of", _searched) if variant.searched else nullcontext():
        found = walking.pilot(way, method.starts(target), key, particles=n, most=method.pilot)
        seen, chart = found.particles()[0].position, found.charts[0]
        initial = variant.around(seen, chart)
        walk_key, prune_key, draw_key = (jax.random.fold_in(key, part) for part in (1, 2, 3))
        tuned = walking.retune(way, [initial], found.charts, found.walk.step, walk_key, particles=n, most=method.steps)
        if tuned.settled[0]:
            tuned = walking.prune(way, [initial], tuned, prune_key)
    if not len(tuned.chosen.step):
        return {"pilot": found.depth, "tuning": tuned.depth, "steps": 0, "draw": 0, "b2": float("inf")}
    params = params_of(KernelMixture.around(seen, chart), tuned, ())
    sampler = eg.Sampler(target, method, params._replace(initial=initial))  # type: ignore[arg-type]
    draws = sampler.sample(draw_key, DRAWS, progress=False)
    return {
        "pilot": found.depth,
        "tuning": tuned.depth,
        "steps": len(tuned.chosen.step),
        "draw": sampler.depth,
        "b2": squared_bias(target, draws.unconstrained).largest,
    }


def greedy_choices(
    run: Run[Size],
    *,
    seeds: Annotated[int | None, typer.Option(help="Seeds, instead of the preset's.")] = None,
    targets: Annotated[list[str] | None, typer.Option(help="Targets, instead of the preset's; repeatable.")] = None,
) -> Report:
    """What GEI's choices are worth: each changed alone, on targets where they matter."""
    size = changed(run.size, seeds=seeds, targets=None if targets is None else tuple(targets))
    rows = []
    for label, variant in list(VARIANTS.items())[: size.variants]:
        for name in size.targets:
            fits = [measure(name, seed, variant) for seed in range(size.seeds)]
            median = {figure: float(np.median([fit[figure] for fit in fits])) for figure in fits[0]}
            row: dict[str, object] = {"variant": label, "target": name, **median}
            rows.append({**row, "worst_b2": max(fit["b2"] for fit in fits)})
            run.say("  ".join(_shown(value) for value in rows[-1].values()))
    table = Table.of("GEI's choices", rows[0], [[_shown(value) for value in row.values()] for row in rows])
    return Report(rows, [table], config={"preset": run.preset.name, **asdict(size), "draws": DRAWS})


def _shown(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


STUDY = Study("greedy", "bench", PRESETS, greedy_choices)
