"""`ergodic bench refine`: how few of a greedy schedule's steps are enough, as they are and refined together.

For T' = T, ... down to 1: fresh particles of the sampler's own P0 go through T' of its T steps, evenly spread; through
the same with step sizes (and a dense metric) refined by the Rao-Blackwellised objective (`tuning/refine.py`). Memory is
the largest correlation with the start (`walking.remembered`), b2 that of 20,000 draws. Reported: the least depth whose
memory is below 0.1, before and after, and all that was measured on the way.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax

from ergodic import targets
from ergodic.methods import GEI
from ergodic.methods.refined import judge, shortened, tune
from ergodic.runtime.validation import one_of
from ergodic.sampler import Sampler
from ergodic_studies.measures.bias import second_moments, squared_bias

from ..harness.results import write_results

_LEVEL = 0.1


class Preset(NamedTuple):
    """How much is run."""

    targets: tuple[str, ...]
    draws: int
    iterations: int
    shares: tuple[float, ...] = (1.0, 0.75, 0.5, 0.375, 0.25)
    """T'/T."""


PRESETS = {
    "smoke": Preset(("gaussian",), 1_000, 5, (1.0, 0.5)),
    "cpu": Preset(
        ("gaussian", "rosenbrock", "banana", "student-t", "ill-conditioned-rotated", "german-credit", "eight-schools"),
        20_000,
        100,
    ),
}


def run(out: Path, preset: str = "cpu", *, say: Callable[[str], None] = print) -> dict[str, Any]:
    """Measure every target, and write ``results.json`` under ``out``."""
    chosen = PRESETS[one_of(preset, tuple(PRESETS), "preset")]
    results: dict[str, Any] = {}
    for name in chosen.targets:
        results[name] = row = measure(name, chosen)
        say(f"{name:24s} depth to memory < {_LEVEL}: {row['depth, greedy']} greedy, {row['depth, refined']} refined")
    tables = [_table(results)]
    command = f"ergodic bench refine --preset {preset}"
    write_results(out, "refine", command, {"preset": preset, **chosen._asdict()}, results, tables=tables)
    return {"tables": tables, "results": results}


def measure(name: str, preset: Preset) -> dict[str, Any]:
    """One target: memory and b2 against T', before and after."""
    target, key = targets.get(name), jax.random.key(0)
    moments = second_moments(target)
    whole = GEI(certify=False).fit(target, key, progress=False)
    steps = int(whole.params.schedule.step.shape[0])

    def seen(sampler: Sampler) -> dict[str, Any]:
        draws = sampler.sample(jax.random.key(1), preset.draws, progress=False)
        bias = squared_bias(target, draws.unconstrained, moments=moments).largest
        return {"depth": sampler.depth, "memory": judge(sampler, jax.random.key(2)).memory, "b2": bias}

    rows = []
    for count in sorted({max(1, round(share * steps)) for share in preset.shares}):
        short = shortened(whole, count)
        refined, record = tune(short, jax.random.key(3), preset.iterations, 256)
        gain = float(record["objective"][-5:].mean() - record["objective"][:5].mean())
        rows.append({"steps": count, "greedy": seen(short), "refined": seen(refined), "rise of R": gain})
    return {
        "steps": steps,
        "depth": whole.depth,
        **{f"depth, {kind}": _enough(rows, kind) for kind in ("greedy", "refined")},
        "rows": rows,
    }


def _enough(rows: list[dict[str, Any]], kind: str) -> int | None:
    """The least depth from which on memory is below the level."""
    for index, row in enumerate(rows):
        if all(later[kind]["memory"] < _LEVEL for later in rows[index:]):
            return int(row[kind]["depth"])
    return None


def _table(results: dict[str, Any]) -> dict[str, Any]:
    rows = []
    for name, row in results.items():
        half = min(row["rows"], key=lambda each: abs(each["steps"] - row["steps"] / 2))
        pairs = [half[kind] for kind in ("greedy", "refined")]
        rows.append(
            [
                name,
                row["depth"],
                *(row[f"depth, {kind}"] or f"> {row['depth']}" for kind in ("greedy", "refined")),
                half["steps"],
                " / ".join(f"{each['memory']:.2f}" for each in pairs),
                " / ".join(f"{each['b2']:.1g}" for each in pairs),
                f"{half['rise of R']:+.2f}",
            ]
        )
    return {
        "title": "Refining a greedy schedule by the Rao-Blackwellised objective: does it shorten it?",
        "note": f"Depth: gradients a draw; the least with memory below {_LEVEL} on 2,048 fresh particles. Then at half "
        "the steps: memory and b2, greedy / refined, and what Adam gained of R.",
        "columns": ["target", "depth", "enough, greedy", "refined", "T/2", "memory", "b2", "R"],
        "rows": rows,
    }
