"""`ergodic bench refine`: how few of a greedy schedule's steps are enough, as they are and refined together.

For T' = T, ... down to 1: fresh particles of the sampler's own P0 go through T' of its T steps, evenly spread; through
the same with step sizes (and a dense metric) refined by the Rao-Blackwellised objective (`tuning/refine.py`). Memory is
the largest correlation with the start (`walking.remembered`), b2 that of 20,000 draws. Reported: the least depth whose
memory is below 0.1, before and after, and all that was measured on the way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

import jax

from ergodic import targets
from ergodic.methods import GEI
from ergodic.methods.refined import judge, shortened, tune
from ergodic.sampler import Sampler

from ..harness.study import Report, Run, Study
from ..harness.tables import Table
from ..measures.bias import second_moments, squared_bias

_LEVEL = 0.1


@dataclass(frozen=True)
class Size:
    """How much is run."""

    targets: tuple[str, ...]
    draws: int
    iterations: int
    shares: tuple[float, ...] = (1.0, 0.75, 0.5, 0.375, 0.25)
    """T'/T."""


PRESETS = {
    "smoke": Size(("gaussian",), 1_000, 5, (1.0, 0.5)),
    "cpu": Size(
        ("gaussian", "rosenbrock", "banana", "student-t", "ill-conditioned-rotated", "german-credit", "eight-schools"),
        20_000,
        100,
    ),
}


class Seen(TypedDict):
    """One schedule: its depth, the largest correlation with the start, and the bias of its draws."""

    depth: int
    memory: float
    b2: float


Shortened = TypedDict("Shortened", {"steps": int, "greedy": Seen, "refined": Seen, "rise of R": float})
"""So many of the steps, as they are and refined, and what Adam gained of R."""
Measured = TypedDict(
    "Measured",
    {
        "steps": int,
        "depth": int,
        "depth, greedy": int | None,
        "depth, refined": int | None,
        "rows": list[Shortened],
    },
)
"""One target: the whole schedule, the least depth that is enough before and after, and all that was measured."""


def refine(run: Run[Size]) -> Report:
    """How few of a greedy schedule's steps are enough, as they are and refined together."""
    results: dict[str, Measured] = {}
    for name in run.size.targets:
        results[name] = row = measure(name, run.size)
        run.say(
            f"{name:24s} depth to memory < {_LEVEL}: {row['depth, greedy']} greedy, {row['depth, refined']} refined"
        )
    return Report(results, [_table(results)])


def measure(name: str, size: Size) -> Measured:
    """One target: memory and b2 against T', before and after."""
    target, key = targets.get(name), jax.random.key(0)
    moments = second_moments(target)
    whole = GEI(certify=False).fit(target, key, progress=False)
    steps = int(whole.params.schedule.step.shape[0])

    def seen(sampler: Sampler) -> Seen:
        draws = sampler.sample(jax.random.key(1), size.draws, progress=False)
        bias = squared_bias(target, draws.unconstrained, moments=moments).largest
        return {"depth": sampler.depth, "memory": judge(sampler, jax.random.key(2)).memory, "b2": bias}

    rows: list[Shortened] = []
    for count in sorted({max(1, round(share * steps)) for share in size.shares}):
        short = shortened(whole, count)
        refined, record = tune(short, jax.random.key(3), size.iterations, 256)
        gain = float(record["objective"][-5:].mean() - record["objective"][:5].mean())
        rows.append({"steps": count, "greedy": seen(short), "refined": seen(refined), "rise of R": gain})
    return {
        "steps": steps,
        "depth": whole.depth,
        "depth, greedy": _enough([row["greedy"] for row in rows]),
        "depth, refined": _enough([row["refined"] for row in rows]),
        "rows": rows,
    }


def _enough(rows: list[Seen]) -> int | None:
    """The least depth from which on memory is below the level."""
    for index, row in enumerate(rows):
        if all(later["memory"] < _LEVEL for later in rows[index:]):
            return row["depth"]
    return None


def _table(results: dict[str, Measured]) -> Table:
    rows = []
    for name, row in results.items():
        half = min(row["rows"], key=lambda each: abs(each["steps"] - row["steps"] / 2))
        pairs = (half["greedy"], half["refined"])
        rows.append(
            [
                name,
                row["depth"],
                *(depth or f"> {row['depth']}" for depth in (row["depth, greedy"], row["depth, refined"])),
                half["steps"],
                " / ".join(f"{each['memory']:.2f}" for each in pairs),
                " / ".join(f"{each['b2']:.1g}" for each in pairs),
                f"{half['rise of R']:+.2f}",
            ]
        )
    return Table.of(
        "Refining a greedy schedule by the Rao-Blackwellised objective: does it shorten it?",
        ["target", "depth", "enough, greedy", "refined", "T/2", "memory", "b2", "R"],
        rows,
        f"Depth: gradients per draw; the least with memory below {_LEVEL} on 2,048 fresh particles. Then at half "
        "the steps: memory and b2, greedy / refined, and what Adam gained of R.",
    )


STUDY = Study("refine", "bench", PRESETS, refine)
