"""How far a certificate can be trusted: its verdicts on planted faults and on sound samplers.

Every case (`planted.py`) is certified with many seeds in several dimensions. A row says how often it failed, passed or
could not tell, and which tests failed it. Rows are kept as they are finished: a killed run goes on where it was.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from ergodic.runtime.files import require_writable, write_atomically
from ergodic.runtime.progress import Progress
from ergodic.runtime.validation import one_of, positive_int

from ..harness.results import write_results
from .planted import CASES, Case


class Preset(NamedTuple):
    """How much to run."""

    dims: tuple[int, ...]
    seeds: tuple[int, ...]
    """One number a dimension."""
    draws: int


PRESETS = {
    "smoke": Preset((2,), (2,), 2_000),
    "cpu": Preset((2, 10, 100), (50, 50, 20), 10_000),
    "full": Preset((2, 10, 30, 100), (50, 50, 50, 50), 10_000),
}
_TIMED = 5  # seeds in which drawing is timed as well


def run(out: Path, preset: str = "cpu", seeds: int | None = None) -> str:
    """Certify every case; returns the table as text."""
    chosen = PRESETS[one_of(preset, tuple(PRESETS), "preset")]
    if seeds is not None:
        chosen = chosen._replace(seeds=(positive_int(seeds, "seeds"),) * len(chosen.dims))
    require_writable(out / "results.json")
    rows = []
    with Progress("certifying", len(CASES) * len(chosen.dims)) as bar:
        for dim, count in zip(chosen.dims, chosen.seeds, strict=True):
            for case in CASES:
                rows.append(_row(case, dim, count, chosen.draws, out / "cells"))
                bar.advance(case.name)
    rows.sort(key=lambda row: [case.name for case in CASES].index(row["case"]))
    table = _table(rows)
    command = f"ergodic bench certificate --preset {preset}" + ("" if seeds is None else f" --seeds {seeds}")
    write_results(out, "certificate", command, {"preset": preset, **chosen._asdict()}, rows, tables=[table])
    return _text(table)


def _row(case: Case, dim: int, seeds: int, draws: int, folder: Path) -> dict[str, Any]:
    name = "".join(letter if letter.isalnum() else "-" for letter in case.name)
    file = folder / f"{name}-{dim}-{seeds}-{draws}.json"
    if file.is_file():
        return json.loads(file.read_text())
    sampler = case.sampler(dim)
    verdicts: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    unsure: Counter[str] = Counter()
    ratios, seconds, drawing = [], [], []
    for seed in range(seeds):
        certificate = sampler.certify(jax.random.key(seed), draws=draws)
        verdicts[certificate.verdict] += 1
        failed.update({_short(f.name) for f in certificate.findings if f.verdict == "failed"})
        unsure.update({_short(f.name) for f in certificate.findings if f.verdict == "inconclusive"})
        ratios.append(certificate.cost.gradients / certificate.drawing)
        seconds.append(certificate.cost.run_seconds)
        if seed < _TIMED:
            drawn = sampler.sample(jax.random.fold_in(jax.random.key(seed), 1), draws, progress=False)
            drawing.append(drawn.cost.run_seconds)
    row = {
        "case": case.name,
        "kind": case.kind,
        "dim": dim,
        "seeds": seeds,
        "failed": verdicts["failed"] / seeds,
        "inconclusive": verdicts["inconclusive"] / seeds,
        "passed": verdicts["passed"] / seeds,
        "tests that failed": dict(failed.most_common()),
        "tests that could not tell": dict(unsure.most_common()),
        "gradients, certificate / drawing": round(float(np.median(ratios)), 2),
        "seconds, certificate": round(float(np.median(seconds)), 3),
        "seconds, drawing": round(float(np.median(drawing)), 3),
    }
    write_atomically(file, json.dumps(row, indent=1, ensure_ascii=False).encode())
    return row


def _short(name: str) -> str:
    """The three starts are counted as one."""
    return name.partition(":")[0]


def _table(rows: list[dict[str, Any]]) -> dict[str, Any]:
    columns = [
        "",
        "case",
        "dim",
        "seeds",
        "failed",
        "inconclusive",
        "passed",
        "failed by",
        "gradients x",
        "seconds",
        "drawing",
    ]
    body = [
        [
            row["kind"],
            row["case"],
            row["dim"],
            row["seeds"],
            f"{row['failed']:.0%}",
            f"{row['inconclusive']:.0%}",
            f"{row['passed']:.0%}",
            ", ".join(f"{name} {count}" for name, count in row["tests that failed"].items()) or "-",
            row["gradients, certificate / drawing"],
            row["seconds, certificate"],
            row["seconds, drawing"],
        ]
        for row in rows
    ]
    return {
        "title": "The certificate on planted faults and on sound samplers",
        "note": "'failed by' counts the seeds in which a test failed; cost of the certificate "
        "over that of drawing as many samples, in gradients, and median seconds of each without compiling.",
        "columns": columns,
        "rows": body,
    }


def _text(table: dict[str, Any]) -> str:
    rows = [table["columns"], *table["rows"]]
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    return "\n".join([*lines, table["note"]])
