"""Commands that measure methods against their peers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from .console import Out, say
from .studies import show_tables


def posteriors(
    preset: Annotated[str, typer.Option(help="smoke, cpu (20 seconds a seed) or full (300).")] = "cpu",
    out: Out = Path("results/posteriors"),
    targets: Annotated[list[str] | None, typer.Option(help="Targets, instead of the preset's; repeatable.")] = None,
    methods: Annotated[list[str] | None, typer.Option(help="Methods, instead of all; repeatable.")] = None,
    seeds: Annotated[int | None, typer.Option(help="Seeds a cell, instead of the preset's.")] = None,
    limit: Annotated[float | None, typer.Option(help="Seconds a seed after which no more draws are made.")] = None,
    again: Annotated[list[str] | None, typer.Option(help="A method to run anew; repeatable.")] = None,
    share: Annotated[float, typer.Option(help="Run cells anew that had less than this share of a processor.")] = 0.0,
    core: Annotated[int | None, typer.Option(help="The processor to run on; all when left out.")] = None,
    collect: Annotated[bool, typer.Option("--collect", help="Run nothing; tables of what is there.")] = False,
) -> None:
    """GEI, HEI and their peers on targets and posteriors: bias, seconds, depth and gradients to 10,000 draws.

    One process a method and target, so that compile time is honest. A run that was stopped goes on where it was.
    """
    from ..experiments.posteriors import run
    from ..report.page import write_page
    from ..storage import require_writable

    require_writable(out / "results.json")
    results = run(
        out,
        preset,
        names=_split(targets),
        labels=_split(methods),
        seeds=seeds,
        limit=limit,
        again=_split(again) or (),
        share=share,
        core=core,
        collect=collect,
        say=say,
    )
    show_tables(results["tables"])
    say(f"\nreport   {write_page(out)}")


def scaling(
    preset: Annotated[str, typer.Option(help="smoke or cpu.")] = "cpu",
    out: Out = Path("results/scaling"),
) -> None:
    """What the default costs against dimension, particles and draws, beside bare gradients; and peak memory."""
    from ..experiments.scaling import run

    _study(run, preset, out)


def family(
    preset: Annotated[str, typer.Option(help="smoke or cpu.")] = "cpu",
    out: Out = Path("results/family"),
) -> None:
    """One schedule for many posteriors (fit_many) against fitting each alone."""
    from ..experiments.family import run

    _study(run, preset, out)


def refine(
    preset: Annotated[str, typer.Option(help="smoke or cpu.")] = "cpu",
    out: Out = Path("results/refine"),
) -> None:
    """How few of a greedy schedule's steps are enough, as they are and refined together."""
    from ..experiments.refinement import run

    _study(run, preset, out)


def _study(run: Callable[..., dict[str, Any]], preset: str, out: Path) -> None:
    """Run a benchmark; show its tables, and write its page."""
    from ..report.page import write_page
    from ..storage import require_writable

    require_writable(out / "results.json")
    show_tables(run(out, preset, say=say)["tables"])
    say(f"\nreport   {write_page(out)}")


def _split(words: list[str] | None) -> list[str] | None:
    """Options may be repeated, or hold several names between commas."""
    return [name.strip() for word in words for name in word.split(",") if name.strip()] if words else None
