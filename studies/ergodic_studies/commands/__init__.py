"""What the studies add to `ergodic`, where they are installed: report, reproduce, bench, and the demo's figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import typer

from ergodic.cli.demo import ILLUSTRATORS, Run

from . import benches, studies


def register(app: typer.Typer) -> None:
    """Add the studies' commands; `ergodic.cli` calls this through the entry point ``ergodic.commands``."""
    ILLUSTRATORS.append(_illustrate)
    app.command()(studies.report)
    reproduce = typer.Typer(no_args_is_help=True, help="Regenerate the paper's tables and figures.")
    for command in (
        studies.entropy,
        studies.synthetic,
        studies.floor,
        studies.safeguards,
        studies.generative,
        studies.bnn,
    ):
        reproduce.command()(command)
    app.add_typer(reproduce, name="reproduce")
    bench = typer.Typer(no_args_is_help=True, help="Measure the library against its own claims and against its peers.")
    bench.command("certificate")(benches.calibrate)
    for command in (benches.posteriors, benches.scaling, benches.family, benches.refine):
        bench.command()(command)
    app.add_typer(bench, name="bench")


def _illustrate(out: Path, runs: Sequence[Run], seed: int) -> Mapping[str, Path]:
    from ..demo import illustrate

    return illustrate(out, runs, seed)
