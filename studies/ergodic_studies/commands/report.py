"""The command that makes the page of a run, or of a fitted sampler."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ergodic.cli.console import Dim, say
from ergodic.cli.sampling import open_sampler


def report(
    run: Annotated[Path, typer.Argument(help="A run's directory with its results.json, or a file of `ergodic fit`.")],
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", help="The page; when left out RUN/report.html, or FILE with .html."),
    ] = None,
    model: Annotated[str | None, typer.Option(help="The target of a sampler's file, when its file has moved.")] = None,
    dim: Dim = None,
) -> None:
    """Make one self-contained HTML page of a run, or of a fitted sampler: its certificate, its cost, its chart."""
    from ..report.fitted import write_fitted_page
    from ..report.page import write_page

    if run.is_file():
        page, command = run.with_suffix(".html") if out is None else out, f"ergodic report {run.name}"
        page = write_fitted_page(open_sampler(run, model, dim), run.stem, command, page)
    else:
        page = write_page(run, out)
    say(f"report   {page}")
