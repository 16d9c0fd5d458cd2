"""The command that makes the page of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ergodic.cli.console import say


def report(
    run: Annotated[Path, typer.Argument(help="A run's directory, with its results.json.")],
    out: Annotated[Path | None, typer.Option("-o", "--out", help="The page; RUN/report.html when left out.")] = None,
) -> None:
    """Make one self-contained HTML page of a run."""
    from ..report.page import write_page

    say(f"report   {write_page(run, out)}")
