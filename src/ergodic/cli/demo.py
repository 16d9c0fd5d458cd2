"""The demo: fit the default to the paper's six targets, draw, and hold the draws against exact ones.

It needs the core alone: it prints a table and writes ``results.json``. The studies, where they are installed, add a
function to `ILLUSTRATORS` that makes a figure and a page of the same runs.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, NamedTuple

import jax
import numpy as np
import typer
from jaxtyping import Float
from rich.table import Table

from .. import targets
from .._version import __version__
from ..api import fit
from ..methods import GEI
from ..runtime.files import require_writable, write_atomically
from ..runtime.validation import positive_int
from ..sampler import Sampler
from ..statistics.wasserstein import noise_floor, sliced_wasserstein
from ..targets.synthetic import PAPER_SIX, SYNTHETIC
from .console import Out, Seed, console, say


class Row(NamedTuple):
    """One target's line in the table: -E[log π*] of our draws and exactly, and the sliced Wasserstein distance.

    The distance is that from our draws to exact ones, beside its floor, that between two exact samples of that size.
    """

    target: str
    letter: str
    estimate: float
    exact: float
    distance: float
    floor: float
    verdict: str
    kind: str
    depth: int
    compile_seconds: float
    tuning_seconds: float
    sampling_seconds: float
    draws_per_second: float


class Run(NamedTuple):
    """What was measured on one target."""

    row: Row
    sampler: Sampler
    ours: Float[np.ndarray, "n 2"]
    """Our draws."""
    exact: Float[np.ndarray, "n 2"]
    """As many exact draws."""


Illustrator = Callable[[Path, Sequence[Run], int], Mapping[str, Path]]
"""Maps the folder, the runs and the seed to the files that it wrote there, by what they are."""
ILLUSTRATORS: list[Illustrator] = []


def measure(method: GEI, draws: int, seed: int, names: Sequence[str] = PAPER_SIX) -> Iterator[Run]:
    """Fit a method to each target in turn, draw, and compare with exact draws."""
    for name in names:
        target = targets.get(name)
        fit_key, sample_key, exact_key, floor_key = jax.random.split(jax.random.key(seed), 4)
        sampler = fit(target, fit_key, method, progress=False)
        ours = sampler.sample(sample_key, draws, progress=False)
        exact = target.draw_exact(exact_key, draws)
        row = Row(
            target=name,
            letter=SYNTHETIC[name].letter,
            estimate=-float(ours.mean(ours.logdensity)),
            exact=-target.require_truth().expected_logdensity,
            distance=sliced_wasserstein(ours.unconstrained, exact),
            floor=noise_floor(target.draw_exact, floor_key, draws),
            verdict="none" if sampler.certificate is None else sampler.certificate.verdict,
            kind=str(ours.kind),
            depth=sampler.depth,
            compile_seconds=sampler.cost.compile_seconds + ours.cost.compile_seconds,
            tuning_seconds=sampler.cost.run_seconds,
            sampling_seconds=ours.cost.run_seconds,
            draws_per_second=draws / ours.cost.run_seconds,
        )
        yield Run(row, sampler, ours.unconstrained, exact)


def demo(
    out: Out = Path("runs/demo"),
    draws: Annotated[int, typer.Option("-n", "--draws", help="Draws per target.")] = 100_000,
    seed: Seed = 0,
) -> None:
    """Fit the default to the paper's six targets, draw, and hold the draws against exact ones."""
    positive_int(draws, "draws")
    require_writable(out / "results.json")
    method = GEI()
    say(f"The default, {method.name}, on the paper's six targets, {draws:,} draws each (seed {seed})\n")
    runs: list[Run] = []
    with console.status("compiling and tuning"):
        for run in measure(method, draws, seed):
            runs.append(run)
            row = run.row
            say(
                f"  ({row.letter}) {row.target:9s}  compile {row.compile_seconds:4.1f} s  "
                f"tune {row.tuning_seconds:4.2f} s  draw {row.sampling_seconds:4.2f} s  -E log π* {row.estimate:.3f}"
            )
    say()
    console.print(_table([run.row for run in runs]))
    say(
        "SW: sliced Wasserstein distance to exact draws; floor: between two exact samples.\n"
        "Depth: gradients per draw, one after the other. Resampled draws were annealed: modes are separate there.\n"
    )
    files = {"results": _write(out, method, draws, seed, [run.row for run in runs])}
    for illustrate in ILLUSTRATORS:
        files |= illustrate(out, runs, seed)
    for what, path in files.items():
        say(f"{what:8s} {path}")
    if not ILLUSTRATORS:
        say("A figure and a page of this run come with a checkout of the repository, where `make demo` makes them.")


def _write(out: Path, method: GEI, draws: int, seed: int, rows: Sequence[Row]) -> Path:
    """Write ``results.json``: the configuration, the versions and the rows of the table."""
    document = {
        "experiment": "demo",
        "command": "ergodic demo",
        "config": {"method": method.name, **asdict(method), "draws": draws, "seed": seed},
        "versions": {"ergodic": __version__, "python": platform.python_version()}
        | {package: version(package) for package in ("jax", "jaxlib", "numpy")},
        "results": [row._asdict() for row in rows],
    }
    path = out / "results.json"
    write_atomically(path, (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode())
    return path


def _table(rows: Sequence[Row]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("", "target"):
        table.add_column(column, no_wrap=True)
    columns: dict[str, Callable[[Row], str]] = {
        "-E log π*": lambda row: f"{row.estimate:.3f}",
        "exact": lambda row: f"{row.exact:.3f}",
        "SW": lambda row: f"{row.distance:.3f}",
        "floor": lambda row: f"{row.floor:.3f}",
        "draws": lambda row: row.kind,
        "certificate": lambda row: row.verdict,
        "depth": lambda row: f"{row.depth:,}",
        "tune s": lambda row: f"{row.tuning_seconds:.2f}",
        "draw s": lambda row: f"{row.sampling_seconds:.2f}",
        "draws/s": lambda row: f"{row.draws_per_second:,.0f}",
    }
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(row.letter, row.target, *(cell(row) for cell in columns.values()))
    return table
