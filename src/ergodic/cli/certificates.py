"""The command that certifies a saved sampler."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..runtime.files import require_writable
from ..runtime.writing import sole_writer
from .console import Dim, Seed, key_of, say
from .sampling import open_sampler


def certify(
    file: Annotated[Path, typer.Argument(help="A sampler written by `ergodic fit`.")],
    draws: Annotated[int, typer.Option("-n", "--draws", help="Fresh draws to look at.")] = 10_240,
    level: Annotated[float, typer.Option(help="Probability, at most, of failing a sound sampler.")] = 0.02,
    budget: Annotated[float | None, typer.Option(help="Seconds that it may take; none: as long as it takes.")] = None,
    evidence: Annotated[bool, typer.Option(help="Also estimate log Z and the target's entropy.")] = False,
    all_findings: Annotated[bool, typer.Option("--all", help="Show what is noted without weight, too.")] = False,
    model: Annotated[str | None, typer.Option(help="The target, when its file has moved.")] = None,
    dim: Dim = None,
    seed: Seed = 2,
) -> None:
    """Look for evidence against a saved sampler on fresh draws; the verdict is kept in FILE.

    Exit code 0 when it passed, 3 when it failed, 4 when it is inconclusive.
    """
    require_writable(file)
    with sole_writer(file):
        sampler = open_sampler(file, model, dim)
        certificate = sampler.certify(key_of(seed), draws=draws, level=level, evidence=evidence, budget=budget)
        sampler.save(file)
    say(certificate.summary(all=all_findings))
    cost = certificate.cost
    say(
        f"{cost.run_seconds:.2f} s (+ {cost.compile_seconds:.1f} s compile), "
        f"{cost.gradients / max(1, certificate.drawing):.1f} times the gradients of the draws; kept in {file}"
    )
    code = {"passed": 0, "failed": 3, "inconclusive": 4}[certificate.verdict]
    if code:
        raise typer.Exit(code)
