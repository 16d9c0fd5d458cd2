"""`ergodic bench chart-chains`: the paper's own chain in the target's coordinates, and in the chart that GEI learned.

HEI with T = 10 and L = 5 and the paper's settings, with and without the chart, on targets that bend or have a neck. The
chart is given: what learning it cost is GEI's, and stands beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, TypedDict

import jax
import numpy as np
import typer

import ergodic as eg

from ..harness.presets import Preset, changed
from ..harness.study import Report, Run, Study
from ..harness.tables import Table
from ..measures.bias import SecondMoments, second_moments, squared_bias

TARGETS = ("funnel", "eight-schools-centred", "rosenbrock")
_COLUMNS = ("target", "seed", "method", "b1_max", "of", "b2_max", "of", "E[log π]", "truth")
_NOTE = (
    "b1 and b2 are squared errors of E[x] and E[x²] in units of Var[x] and Var[x²], the largest over coordinates. The "
    "truth of a posterior's E[log π] is that of its reference draws, with their standard error."
)


@dataclass(frozen=True)
class Size:
    """How much is run."""

    seeds: int
    iterations: int = 50
    """Of Adam; the paper's are 50."""
    draws: int = 20_000
    targets: tuple[str, ...] = TARGETS


PRESETS = {"smoke": Size(1, 5, 500, ("rosenbrock",)), "cpu": Size(2)}


class Chain(TypedDict):
    """One chain of one seed, and how far its draws are off."""

    target: str
    seed: int
    method: str
    b1_max: float
    b1_worst: str
    b2_max: float
    b2_worst: str
    expected_logdensity: float
    truth: float
    truth_error: float
    depth: int
    chart_depth: int
    """What learning the chart cost, one gradient after the other, before; 0 without one."""


def measure(target: eg.Target, seed: int, size: Size) -> list[Chain]:
    """The paper's chain without the chart and with it."""
    learned = eg.GEI(certify=False).fit(target, jax.random.key(seed), progress=False)
    method, (truth, error) = eg.HEI(steps=10, leapfrogs=5, iterations=size.iterations), _expected(target)
    found: list[Chain] = []
    for chart in (None, learned.chart):
        sampler = eg.fit(target, jax.random.key(100 + seed), method, chart=chart, progress=False)
        draws = sampler.sample(jax.random.key(200 + seed), size.draws, progress=False)
        first, second = (squared_bias(target, draws.unconstrained, moments=held) for held in _moments(target))
        found.append(
            {
                "target": target.name,
                "seed": seed,
                "method": sampler.method.name,
                "b1_max": first.largest,
                "b1_worst": first.worst,
                "b2_max": second.largest,
                "b2_worst": second.worst,
                "expected_logdensity": float(draws.logdensity.mean(dtype=np.float64)),
                "truth": truth,
                "truth_error": error,
                "depth": sampler.depth,
                "chart_depth": 0 if chart is None else learned.cost.depth,
            }
        )
    return found


def _expected(target: eg.Target) -> tuple[float, float]:
    """E[log π*] as it is known, and its standard error."""
    if target.truth is None and target.reference is not None:
        return target.reference.expected_logdensity(target.density)
    return target.require_truth().expected_logdensity, 0.0


def _moments(target: eg.Target) -> tuple[SecondMoments, SecondMoments]:
    """What means and what mean squares are held against."""
    second = second_moments(target)
    if target.truth is None and (known := target.reference) is not None:
        noise = float(np.max((known.mcse_mean / known.sd) ** 2))
        return SecondMoments(known.names, known.mean, known.sd**2, noise, 1), second
    truth = target.require_truth()
    return SecondMoments(target.names, truth.mean, np.diag(truth.covariance), 0.0, 1), second


def chart_chains(
    run: Run[Size],
    *,
    seeds: Annotated[int | None, typer.Option(help="Fits of each, instead of the preset's.")] = None,
    iterations: Annotated[int | None, typer.Option(help="Of HEI's tuning, instead of the paper's 50.")] = None,
) -> Report:
    """The paper's own chain with and without the chart that GEI learned."""
    size, found = changed(run.size, seeds=seeds, iterations=iterations), list[Chain]()
    for name in size.targets:
        target = eg.targets.get(name)
        for seed in range(size.seeds):
            found += measure(target, seed, size)
            for chain in found[-2:]:
                run.say(f"{name}, seed {seed}: {chain['method']}, b2 {chain['b2_max']:.2g} ({chain['b2_worst']})")
    return Report(found, [_table(found)], config=Preset(run.preset.name, size).config())


def _table(found: list[Chain]) -> Table:
    rows = [
        [
            *(chain["target"], chain["seed"], chain["method"]),
            *(f"{chain['b1_max']:.2g}", chain["b1_worst"], f"{chain['b2_max']:.2g}", chain["b2_worst"]),
            f"{chain['expected_logdensity']:.2f}",
            f"{chain['truth']:.2f}" + (f" ± {chain['truth_error']:.2f}" if chain["truth_error"] else ""),
        ]
        for chain in found
    ]
    return Table.of("The paper's chain with and without a chart", _COLUMNS, rows, _NOTE)


STUDY = Study("chart-chains", "bench", PRESETS, chart_chains)
