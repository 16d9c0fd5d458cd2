"""The commands that the studies add to `ergodic`, where they are installed: demo, report, reproduce and bench."""

from __future__ import annotations

import typer

from . import benches, studies


def register(app: typer.Typer) -> None:
    """Add the studies' commands; `ergodic.cli` calls this through the entry point ``ergodic.commands``."""
    app.command()(studies.demo)
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
