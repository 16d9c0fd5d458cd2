"""`ergodic bench certificate-hard`: the certificate on samplers that GEI tuned, sound ones and some with a hard fault.

Every case (`hard_faults.py`) is tuned with a few keys and certified with many, at the default budget. A row says how
often it failed, passed or could not tell, which tests failed it, and how far the fault moves the draws: rows in which
b2 of every coordinate is at most 0.01 are limits. Rows are kept as they are finished.
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

from ergodic.diagnostics.gathering import Gathered
from ergodic.runtime.validation import positive_int
from ergodic.sampler import Sampler

from ..harness.cells import Cell
from ..harness.presets import Preset, changed
from ..harness.study import Report, Run, Study
from ..harness.tables import Table
from .hard_faults import CASES, Case

_WORTH = 0.01
"""b2 that counts as a bias."""
_LAW = 32_768
"""Draws by which b2 is told."""


@dataclass(frozen=True)
class Size:
    """How much to run."""

    targets: tuple[tuple[str, int], ...] | None
    """With their dimensions; None: all of them."""
    seeds: int
    fits: int
    draws: int | None
    """That each certificate looks at; None: as many as its default budget affords."""


PRESETS = {
    "smoke": Size((("funnel", 2),), 1, 1, 1024),
    "cpu": Size(None, 8, 2, None),
    "full": Size(None, 48, 6, None),
}

Row = TypedDict(
    "Row",
    {
        "fault": str,
        "kind": str,
        "target": str,
        "dim": int,
        "seeds": int,
        "b2": float,
        "failed": float,
        "inconclusive": float,
        "passed": float,
        "tests that failed": dict[str, int],
        "tests that could not tell": dict[str, int],
        "failed by one alone": dict[str, int],
        "draws": int,
        "gradients, certificate / drawing": float,
        "share of lines": float,
        "seconds, certificate": float,
        "seconds, fit": float,
    },
)
"""One case: parts of the seeds by verdict, which tests decided, and what it cost."""


def hard(
    run: Run[Size],
    *,
    seeds: Annotated[int | None, typer.Option(help="Seeds per case, instead of the preset's.")] = None,
) -> Report:
    """How often the certificate finds hard faults in what GEI tuned, and fails sound samplers."""
    size = changed(run.size, seeds=None if seeds is None else positive_int(seeds, "seeds"))
    cells = [
        Cell(
            (case.fault or "sound", case.name, case.dim), [size.seeds, size.fits, size.draws], partial(_row, case, size)
        )
        for case in CASES
        if size.targets is None or (case.name, case.dim) in size.targets
    ]
    run.share(cells)
    rows: list[Row] = []
    for cell in cells:
        run.status(f"{len(rows) + 1} of {len(cells)}: {cell.words[0]}, {cell.words[1]} {cell.words[2]}")
        rows.append(cell.result(run.cells))
    return Report(rows, [table(rows)], config=Preset(run.preset.name, size).config())


def _row(case: Case, size: Size, path: Path) -> Row:
    """Certify a case with every seed, on as many fits."""
    fits = _fits(case, min(size.fits, size.seeds))
    verdicts: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    unsure: Counter[str] = Counter()
    alone: Counter[str] = Counter()
    ratios, seconds, looked, shares = [], [], [], []
    for seed in range(size.seeds):
        sampler = replace(fits[seed % len(fits)], gathered=None)
        certificate = sampler.certify(jax.random.key(1000 + seed), draws=size.draws)
        verdicts[certificate.verdict] += 1
        by = [f.name for f in certificate.findings if f.verdict == "failed"]
        failed.update(by)
        alone.update(by if len(by) == 1 else [])
        unsure.update({f.name for f in certificate.findings if f.verdict == "inconclusive"})
        looked.append(certificate.draws)
        ratios.append(certificate.cost.gradients / certificate.drawing)
        seconds.append(certificate.cost.run_seconds)
        seen = sampler.gathered
        assert isinstance(seen, Gathered)
        if seen.beyond.done:
            shares.append(seen.beyond.gradients / certificate.cost.gradients)
    law = [each.sample(jax.random.key(7), _LAW // len(fits), progress=False).unconstrained for each in fits]
    bias = case.posed().bias(np.concatenate(law))
    count = size.seeds
    return {
        "fault": case.fault or "none",
        "kind": "sound" if not case.fault and bias <= _WORTH else "fault" if bias > _WORTH else "limit",
        "target": case.name,
        "dim": case.dim,
        "seeds": count,
        "b2": float(f"{bias:.3g}"),
        "failed": verdicts["failed"] / count,
        "inconclusive": verdicts["inconclusive"] / count,
        "passed": verdicts["passed"] / count,
        "tests that failed": dict(failed.most_common()),
        "tests that could not tell": dict(unsure.most_common()),
        "failed by one alone": dict(alone.most_common()),
        "draws": int(np.median(looked)),
        "gradients, certificate / drawing": round(float(np.median(ratios)), 2),
        "share of lines": round(float(np.median(shares)), 3) if shares else 0.0,
        "seconds, certificate": round(float(np.median(seconds)), 3),
        "seconds, fit": round(float(np.median([each.cost.run_seconds for each in fits])), 3),
    }


def _fits(case: Case, count: int) -> list[Sampler]:
    """Tuned with several keys; all cost as if they had been compiled, which is what a default budget goes by."""
    fits = [case.sampler(jax.random.key(100 + index)) for index in range(count)]
    compiling = max(each.cost.compile_seconds for each in fits)
    return [replace(each, cost=replace(each.cost, compile_seconds=compiling)) for each in fits]


def table(rows: list[Row]) -> Table:
    """Faults that matter first, and of these those that are found least often."""
    order = sorted(rows, key=lambda row: (("fault", "sound", "limit").index(row["kind"]), row["failed"]))
    body = [
        [
            row["kind"],
            row["fault"],
            row["target"],
            row["dim"],
            f"{row['b2']:.2g}",
            row["seeds"],
            f"{row['failed']:.0%}",
            f"{row['inconclusive']:.0%}",
            f"{row['passed']:.0%}",
            ", ".join(f"{name} {count}" for name, count in row["tests that failed"].items()) or "-",
            row["draws"],
            row["gradients, certificate / drawing"],
            f"{row['share of lines']:.0%}",
            row["seconds, certificate"],
        ]
        for row in order
    ]
    columns = ["", "fault", "target", "dim", "b2", "seeds", "failed", "inconclusive", "passed", "failed by", "draws"]
    return Table.of(
        "The certificate on hard faults in what GEI tuned",
        [*columns, "gradients x", "of lines", "seconds"],
        body,
        "A row is a fault where b2 of some coordinate is above 0.01, however the sampler was made, and a limit where "
        "a fault moves less. 'failed by' counts the seeds in which a test failed; gradients of the certificate over "
        "those of drawing as many samples, the share of them that points on lines took, and median seconds.",
    )


STUDY = Study("certificate-hard", "bench", PRESETS, hard, shared=True)
