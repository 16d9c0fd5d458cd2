"""Commands that measure methods against their peers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ergodic.cli.console import Out, say

from .studies import run_study


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
    from ..bench.posteriors import run

    run_study(
        out,
        lambda: run(
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
        ),
    )


def scaling(
    preset: Annotated[str, typer.Option(help="smoke or cpu.")] = "cpu",
    out: Out = Path("results/scaling"),
) -> None:
    """What the default costs against dimension, particles and draws, beside bare gradients; and peak memory."""
    from ..bench.scaling import run

    run_study(out, lambda: run(out, preset, say=say))


def family(
    preset: Annotated[str, typer.Option(help="smoke or cpu.")] = "cpu",
    out: Out = Path("results/family"),
) -> None:
    """One schedule for many posteriors (fit_many) against fitting each alone."""
    from ..bench.family import run

    run_study(out, lambda: run(out, preset, say=say))


def refine(
    preset: Annotated[str, typer.Option(help="smoke or cpu.")] = "cpu",
    out: Out = Path("results/refine"),
) -> None:
    """How few of a greedy schedule's steps are enough, as they are and refined together."""
    from ..bench.refinement import run

    run_study(out, lambda: run(out, preset, say=say))


def _split(words: list[str] | None) -> list[str] | None:
    """Options may be repeated, or hold several names between commas."""
    return [name.strip() for word in words for name in word.split(",") if name.strip()] if words else None


def calibrate(
    preset: Annotated[str, typer.Option(help="smoke, cpu (50 seeds, 20 in 100 dimensions) or full (50).")] = "cpu",
    out: Out = Path("results/certificate"),
    seeds: Annotated[int | None, typer.Option(help="Seeds a case, instead of the preset's.")] = None,
) -> None:
    """How often the certificate fails sound samplers, and how often it finds planted faults."""
    from ergodic_studies.bench.calibration import run

    say(run(out, preset=preset, seeds=seeds))
