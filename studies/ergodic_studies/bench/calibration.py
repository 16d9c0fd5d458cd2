"""`ergodic bench certificate`: how far a certificate can be trusted, on planted faults and on sound samplers.

Every case (`planted.py`) is certified with many seeds in several dimensions. A row says how often it failed, passed or
could not tell, and which tests failed it. Rows are kept as they are finished: a killed run goes on where it was.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, TypedDict

import jax
import numpy as np
import typer

from ergodic.runtime.validation import positive_int

from ..harness.cells import Cell
from ..harness.presets import Preset
from ..harness.study import Report, Run, Study
from ..harness.tables import Table
from .planted import CASES, Case


@dataclass(frozen=True)
class Size:
    """How much to run."""

    dims: tuple[int, ...]
    seeds: tuple[int, ...]
    """One number per dimension."""
    draws: int | None
    """That each certificate looks at; None: as many as its default budget affords."""


PRESETS = {
    "smoke": Size((2,), (2,), 2_000),
    "cpu": Size((2, 10, 100), (50, 50, 20), None),
    "full": Size((2, 10, 30, 100), (50, 50, 50, 50), 10_240),
}
_TIMED = 5  # seeds in which drawing is timed as well


Row = TypedDict(
    "Row",
    {
        "case": str,
        "kind": str,
        "dim": int,
        "seeds": int,
        "failed": float,
        "inconclusive": float,
        "passed": float,
        "tests that failed": dict[str, int],
        "tests that could not tell": dict[str, int],
        "draws": int,
        "gradients, certificate / drawing": float,
        "seconds, certificate": float,
        "seconds, drawing": float,
    },
)
"""One case in one dimension: parts of the seeds by verdict, which tests decided, and what it cost."""


def certificate(
    run: Run[Size],
    *,
    seeds: Annotated[int | None, typer.Option(help="Seeds per case, instead of the preset's.")] = None,
) -> Report:
    """How often the certificate fails sound samplers, and how often it finds planted faults."""
    size = run.size
    if seeds is not None:
        size = replace(size, seeds=(positive_int(seeds, "seeds"),) * len(size.dims))
    cells = [
        Cell((case.name, dim), [count, size.draws], partial(_row, case, dim, count, size.draws))
        for case in CASES
        for dim, count in zip(size.dims, size.seeds, strict=True)
    ]
    run.share(cells)
    rows: list[Row] = []
    for cell in cells:
        run.status(f"{len(rows) + 1} of {len(cells)}: {cell.words[0]}")
        rows.append(cell.result(run.cells))
    return Report(rows, [_table(rows)], config=Preset(run.preset.name, size).config())


def _row(case: Case, dim: int, seeds: int, draws: int | None, path: Path) -> Row:
    """Certify a case with every seed."""
    sampler = case.sampler(dim)
    verdicts: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    unsure: Counter[str] = Counter()
    ratios, seconds, drawing, looked = [], [], [], []
    for seed in range(seeds):
        certificate = replace(sampler, gathered=None).certify(jax.random.key(seed), draws=draws)
        looked.append(certificate.draws)
        verdicts[certificate.verdict] += 1
        failed.update({_short(f.name) for f in certificate.findings if f.verdict == "failed"})
        unsure.update({_short(f.name) for f in certificate.findings if f.verdict == "inconclusive"})
        ratios.append(certificate.cost.gradients / certificate.drawing)
        seconds.append(certificate.cost.run_seconds)
        if seed < _TIMED:
            drawn = sampler.sample(jax.random.fold_in(jax.random.key(seed), 1), certificate.draws, progress=False)
            drawing.append(drawn.cost.run_seconds)
    return {
        "case": case.name,
        "kind": case.kind,
        "dim": dim,
        "seeds": seeds,
        "failed": verdicts["failed"] / seeds,
        "inconclusive": verdicts["inconclusive"] / seeds,
        "passed": verdicts["passed"] / seeds,
        "tests that failed": dict(failed.most_common()),
        "tests that could not tell": dict(unsure.most_common()),
        "draws": int(np.median(looked)),
        "gradients, certificate / drawing": round(float(np.median(ratios)), 2),
        "seconds, certificate": round(float(np.median(seconds)), 3),
        "seconds, drawing": round(float(np.median(drawing)), 3),
    }


def _short(name: str) -> str:
    """The three starts are counted as one."""
    return name.partition(":")[0]


def _table(rows: list[Row]) -> Table:
    columns = ["", "case", "dim", "seeds", "failed", "inconclusive", "passed", "failed by", "gradients x", "seconds"]
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
    return Table.of(
        "The certificate on planted faults and on sound samplers",
        [*columns, "drawing"],
        body,
        "'failed by' counts the seeds in which a test failed; cost of the certificate over that of drawing as many "
        "samples, in gradients, and median seconds of each without compiling.",
    )


STUDY = Study("certificate", "bench", PRESETS, certificate, shared=True)
