"""What the studies add to `ergodic`, where they are installed: report, reproduce, bench, and the demo's figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import typer

from ergodic.cli.demo import ILLUSTRATORS, Run

from .groups import group
from .registry import BENCH, REPRODUCE
from .report import report


def register(app: typer.Typer) -> None:
    """Add the studies' commands; `ergodic.cli` calls this through the entry point ``ergodic.commands``."""
    ILLUSTRATORS.append(_illustrate)
    app.command()(report)
    app.add_typer(group("Regenerate the paper's tables and figures.", REPRODUCE), name="reproduce")
    summary = "Measure the library against its own claims and against its peers."
    app.add_typer(group(summary, BENCH), name="bench")


def _illustrate(out: Path, runs: Sequence[Run], seed: int) -> Mapping[str, Path]:
    from ..demo import illustrate

    return illustrate(out, runs, seed)
