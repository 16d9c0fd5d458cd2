"""`ergodic bench family`: one schedule for many posteriors against fitting each alone, in one process.

The families are in `family_targets.py`. Each is fitted as `eg.fit_many` does it, and without a chart besides; some
members are fitted alone. Seconds per posterior: those of the whole family over the number of members, compiling
included; alone: the median over some members, each fitted as a target of its own by the same method.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

import jax
import numpy as np

from ergodic.family import Family
from ergodic.family_sampler import FamilyDraws
from ergodic.many import fit_many
from ergodic.methods import GEI

from ..harness.study import Report, Run, Study
from ..harness.tables import Table
from ..measures.bias import bias_of
from .family_targets import Problem, centred, folds, funnels, gaussians, simulated, windows


@dataclass(frozen=True)
class Size:
    """How much is run."""

    members: int
    alone: int
    """Members that are also fitted alone."""
    draws: int


PRESETS = {"smoke": Size(4, 1, 200), "short": Size(32, 1, 10_000), "cpu": Size(50, 10, 10_000)}
Figures = dict[str, int | float]
"""What was measured of a family, by name."""


def family(run: Run[Size]) -> Report:
    """One schedule for many posteriors (fit_many) against fitting each alone."""
    results: dict[str, Figures] = {}
    fit_many(gaussians(2).family, jax.random.key(0))  # what a process does once is nobody's
    for make in (windows, folds, simulated, gaussians, funnels, centred):
        problem, again = make(run.size.members), make(run.size.members)
        row = results[str(problem.family.name)] = measure(problem, run.size, again.family)
        run.say(
            f"{problem.family.name:10s} {row['seconds a posterior']:.3f} s per posterior, alone "
            f"{row['alone, seconds a posterior']:.2f} s ({row['times faster']:.0f} times)"
        )
    return Report(results, _tables(results))


def measure(problem: Problem, size: Size, again: Family) -> Figures:
    """Fit a family, draw, and hold both against what is known; ``again`` is the same family, fitted without a chart."""
    family = problem.family
    samplers = fit_many(family, jax.random.key(0))
    draws = samplers.sample(jax.random.key(1), size.draws)
    plain = fit_many(again, jax.random.key(0), replace(cast(GEI, samplers.method), chart=False))
    others = plain.sample(jax.random.key(1), size.draws)
    count, cost = len(family), samplers.cost
    alone = [GEI(certify=False).fit(family[i], jax.random.key(2 + i), progress=False) for i in range(size.alone)]
    whole = (cost.run_seconds + cost.compile_seconds) / count
    each = float(np.median([one.cost.run_seconds + one.cost.compile_seconds for one in alone]))
    return {
        "members": count,
        "dim": family.dim,
        "settled": int(samplers.settled.sum()),
        "depth": samplers.depth,
        "tuning depth": cost.depth,
        "gradients a posterior": cost.gradients // count,
        "seconds a posterior": whole,
        "of it running": cost.run_seconds / count,
        "seconds for all draws": draws.cost.run_seconds,
        "learned a chart": bool(samplers.params.coordinates.layers),
        "without, depth": plain.depth,
        "without, tuning depth": plain.cost.depth,
        "without, settled": int(plain.settled.sum()),
        "without, of it running": plain.cost.run_seconds / count,
        "without, seconds for all draws": others.cost.run_seconds,
        "without, seconds a posterior": (plain.cost.run_seconds + plain.cost.compile_seconds) / count,
        "alone, seconds a posterior": each,
        "alone, of it running": float(np.median([one.cost.run_seconds for one in alone])),
        "alone, depth": float(np.median([one.depth for one in alone])),
        "alone, gradients": float(np.median([one.cost.gradients for one in alone])),
        "times faster": each / whole,
        **_quality(problem, draws),
        **{f"without, {name}": value for name, value in _quality(problem, others).items()},
    }


def _quality(problem: Problem, draws: FamilyDraws) -> dict[str, int | float]:
    if isinstance(problem.known, np.ndarray):
        return {"ranks, smallest p": uniform_ranks(draws.unconstrained, problem.known)}
    second = (draws.unconstrained.astype(np.float64) ** 2).mean(axis=1)
    b2 = [bias_of(*each).largest for each in zip(second, problem.known, strict=True)]
    found = {"b2, median": float(np.median(b2)), "b2, largest": float(np.max(b2))}
    if problem.driver is None:
        return found
    of = problem.driver
    driver = [
        (mine[of] - known.expected[of]) ** 2 / known.variance[of]
        for mine, known in zip(second, problem.known, strict=True)
    ]
    return {**found, "b2 of the driver, median": float(np.median(driver)), "b2 of the driver, largest": max(driver)}


def uniform_ranks(draws: np.ndarray, behind: np.ndarray) -> float:
    """The p-value that ranks of ``behind``, ``(members, dim)``, among draws, ``(members, n, dim)``, are uniform.

    The smallest of Kolmogorov and Smirnov's, one per coordinate, multiplied by their number (Bonferroni).
    """
    from scipy.stats import kstest

    ranks = np.mean(draws < behind[:, None, :], axis=1)
    p_values = [kstest(ranks[:, i], "uniform").pvalue for i in range(ranks.shape[1])]
    return float(min(1.0, min(p_values) * len(p_values)))


def _tables(results: dict[str, Figures]) -> list[Table]:
    """What a family costs; and, of those that were fitted without a chart as well, what it gains."""
    compared = {name: row for name, row in results.items() if "without, depth" in row}
    return [_table(results), *([_compared(compared)] if compared else [])]


def _found(row: Figures, how: str = "") -> str:
    if f"{how}ranks, smallest p" in row:
        return f"ranks uniform: p = {row[how + 'ranks, smallest p']:.2f}"
    largest = row.get(how + "b2 of the driver, largest")
    driver = "" if largest is None else f"; driver {largest:.1g}"
    return f"b2 {row[how + 'b2, median']:.1g}, largest {row[how + 'b2, largest']:.1g}{driver}"


def _table(results: dict[str, Figures]) -> Table:
    rows = [
        [
            name,
            row["members"],
            row["dim"],
            row["settled"],
            row["depth"],
            f"{row['seconds a posterior']:.3f} ({row['of it running']:.3f})",
            f"{row['alone, seconds a posterior']:.2f} ({row['alone, of it running']:.2f})",
            f"{row['times faster']:.0f}",
            f"{row['seconds for all draws']:.1f}",
            _found(row),
        ]
        for name, row in results.items()
    ]
    columns = ["family", "members", "d", "settled", "depth", "s a posterior", "alone", "times", "s for all draws"]
    return Table.of(
        "One schedule for a family of posteriors",
        [*columns, "quality"],
        rows,
        "Seconds per posterior to fit, compiling included, and without it in brackets; alone: eg.GEI on a member by "
        "itself in this process, median. b2_max per member, median and largest over members; the driver's, largest.",
    )


def _compared(results: dict[str, Figures]) -> Table:
    rows = [
        [
            name,
            *(value for how in ("", "without, ") for value in _cost(row, how)),
            _found(row),
            _found(row, "without, "),
        ]
        for name, row in results.items()
    ]
    cost = ["depth", "tuning depth", "s a posterior", "s for all draws"]
    columns = ["family", *cost, *(f"without a chart: {each}" for each in cost), "quality", "without a chart: quality"]
    return Table.of("With a chart and without", columns, rows, "Seconds per posterior to fit, compiling included.")


def _cost(row: Figures, how: str) -> list[str | int | float]:
    seconds = f"{row[how + 'seconds a posterior']:.3f}", f"{row[how + 'seconds for all draws']:.1f}"
    return [row[how + "depth"], row[how + "tuning depth"], *seconds]


STUDY = Study("family", "bench", PRESETS, family)
