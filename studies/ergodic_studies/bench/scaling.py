"""`ergodic bench scaling`: what the default costs against dimension, particles and draws, beside bare gradients.

- dimension: Gaussians of 2 to 1,000 dimensions, standard, and with covariances of condition 1,000, rotated below 200:
  tuning, 2,000 draws, bare gradients, bias, peak memory; certificate: what it adds in some of these dimensions;
- draws: 100 to a million, in default chunks; chunk: as many particles at a time;
- two of the project's bars: German credit's 10,000 particles within 1.15 times their bare gradients, and 100,000 draws
  of targets in two dimensions in a fifth of the seconds that NUTS takes for as many effective ones.

Every point is a process of its own (scaling_points.py); a run that was stopped goes on where it was.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

from ..harness.processes import ProcessError
from ..harness.study import Report, Run, Study
from ..harness.tables import Figure, Table
from .scaling_points import Measured, Point

_BARS = {"gradients": 1.15, "nuts": 0.2}


@dataclass(frozen=True)
class Size:
    """How much is run."""

    dims: tuple[int, ...]
    certified: tuple[int, ...]
    draws: tuple[int, ...]
    chunks: tuple[int, ...]
    credit: tuple[str, int]
    nuts: tuple[tuple[str, ...], int]
    repeats: int
    small: bool = False


PRESETS = {
    "smoke": Size((2,), (2,), (100,), (50,), ("gaussian", 1_000), (("gaussian",), 1_000), 1, small=True),
    "cpu": Size(
        (2, 5, 10, 20, 50, 100, 200, 500, 1000),
        (2, 100, 1000),
        (100, 1_000, 10_000, 100_000, 1_000_000),
        (100, 1_000, 10_000, 100_000, 1_000_000),
        ("german-credit", 10_000),
        (("gaussian", "banana", "rosenbrock"), 100_000),
        5,
    ),
}


def points(size: Size) -> list[Point]:
    """All the points that a size asks for."""
    point = partial(Point, repeats=size.repeats, small=size.small)
    name, credit = size.credit
    flat, count = size.nuts
    return [
        *(point("dimension", "standard", dim) for dim in size.dims),
        *(point("dimension", "rotated" if dim < 200 else "scaled", dim) for dim in size.dims),
        *(point("certificate", "standard", dim) for dim in size.certified),
        *(point("draws", "rotated", 10, draws) for draws in size.draws),
        *(point("chunk", "rotated", 10, max(size.draws), chunk) for chunk in size.chunks),
        point("gradients", name, draws=credit),
        *(point("nuts", target, draws=count) for target in flat),
    ]


def scaling(run: Run[Size], *, process: bool = True) -> Report:
    """What the default costs against dimension, particles and draws, beside bare gradients; and peak memory.

    A run that was stopped goes on where it was.
    """
    done: list[Measured] = []
    for point in points(run.size):
        cell = point.cell(process=process)
        try:
            done.append(cell.result(run.cells))
        except ProcessError as error:
            done.append(cast(Measured, {**cast(dict[str, object], cell.settings), "error": str(error)}))
        run.say(_line(done[-1]))
    tables = [_dimensions(done), _certificates(done), _particles(done), _bars(done)]
    return Report({"points": done}, tables, [_figure(done, run.out)])


def _line(row: Measured) -> str:
    name = f"{row['kind']:10s} {row['form']:14s} d={row['dim']:<5d} n={row['draws']:<9,d}"
    if "error" in row:
        return f"{name} {row['error'][:70]}"
    if row["kind"] == "certificate":
        return (
            f"{name} {row['certificate']} in {row['certificate_seconds']:.2f} s  peak {row['peak_megabytes']:5.0f} MB"
        )
    return (
        f"{name} fit {row['fit_seconds']:6.2f} s  draws {row['sample_seconds']:7.3f} s  ratio {row['ratio']:5.2f}  "
        f"peak {row['peak_megabytes']:5.0f} MB"
    )


def _good(rows: list[Measured], kind: str) -> list[Measured]:
    return [row for row in rows if row["kind"] == kind and "error" not in row]


def _dimensions(rows: list[Measured]) -> Table:
    return Table.of(
        "Cost against dimension",
        ["Gaussian", "d", "compile s", "fit s", "depth", "draws s", "× bare", "b2_max", "peak MB"],
        [
            [
                row["form"],
                row["dim"],
                f"{row['compile_seconds']:.1f}",
                f"{row['fit_seconds']:.2f}",
                row["depth"],
                f"{row['sample_seconds']:.3f}",
                f"{row['ratio']:.2f}",
                f"{row['b2_max']:.1g}",
                f"{row['peak_megabytes']:.0f}",
            ]
            for row in _good(rows, "dimension")
        ],
        "Fit: the default without its certificate, running; draws: 2,000; × bare: over as many bare gradients in "
        "chunks of the same shape; depth: gradients per draw; peak: of the process. Gaussians: standard, or with a "
        "covariance of condition 1,000, rotated below 200 dimensions.",
    )


def _certificates(rows: list[Measured]) -> Table:
    return Table.of(
        "What the default's certificate adds",
        ["d", "compile s", "certificate s", "verdict", "peak MB"],
        [
            [
                row["dim"],
                f"{row['certificate_compile_seconds']:.1f}",
                f"{row['certificate_seconds']:.2f}",
                row["certificate"],
                f"{row['peak_megabytes']:.0f}",
            ]
            for row in _good(rows, "certificate")
        ],
        "On 10,000 fresh draws of a standard Gaussian; seconds without compiling; peak of the process.",
    )


def _particles(rows: list[Measured]) -> Table:
    return Table.of(
        "Cost against draws and chunks, d = 10",
        ["draws", "chunk", "seconds", "µs a draw", "× bare", "peak MB"],
        [
            [
                f"{row['draws']:,}",
                "default" if row["chunk"] is None else f"{row['chunk']:,}",
                f"{row['sample_seconds']:.3f}",
                f"{1e6 * row['sample_seconds'] / row['draws']:.2f}",
                f"{row['ratio']:.2f}",
                f"{row['peak_megabytes']:.0f}",
            ]
            for kind in ("draws", "chunk")
            for row in _good(rows, kind)
        ],
        "By default 2,048 particles are moved at a time.",
    )


def _bars(rows: list[Measured]) -> Table:
    def line(row: Measured, against: str, seconds: float) -> list[str]:
        level = _BARS[row["kind"]]
        shown = (f"{row['sample_seconds']:.3f}", f"{seconds:.3f}", f"{row['ratio']:.3f}")
        what = f"{row['form']}, {row['draws']:,} against {against}"
        return [what, *shown, f"{level:g}", "yes" if row["ratio"] < level else "no"]

    lines = [line(row, "bare gradients", row["bare_seconds"]) for row in _good(rows, "gradients")]
    lines += [line(row, "NUTS", row["nuts_seconds"]) for row in _good(rows, "nuts")]
    return Table.of(
        "Bars",
        ["what", "draws s", "against s", "ratio", "bar", "met"],
        lines,
        "Seconds to draw, compiling and tuning apart; NUTS: 4 chains, from its seconds per effective draw over a tenth "
        "as many draws.",
    )


def _figure(rows: list[Measured], out: Path) -> Figure:
    from ..report.scaling import Panel, panels
    from ..report.style import save_figure

    def line(points: Iterable[tuple[float, float]]) -> tuple[list[float], list[float]]:
        pairs = list(points)
        return [float(x) for x, _ in pairs], [y for _, y in pairs]

    rough = [row for row in _good(rows, "dimension") if row["form"] != "standard"]
    smooth = [row for row in _good(rows, "dimension") if row["form"] == "standard"]
    groups = {"standard": smooth, "ill-conditioned": rough}
    fits = {label: line((row["dim"], row["fit_seconds"]) for row in group) for label, group in groups.items()}
    peaks = {label: line((row["dim"], row["peak_megabytes"]) for row in group) for label, group in groups.items()}
    drawn = _good(rows, "draws")
    seconds = {
        "draws": line((row["draws"], row["sample_seconds"]) for row in drawn),
        "bare gradients": line((row["draws"], row["bare_seconds"]) for row in drawn),
    }
    figure = panels(
        [
            Panel("Fit", "dimension", "seconds", fits),
            Panel("Peak memory", "dimension", "MB", peaks, 2000.0),
            Panel("Drawing, d = 10", "draws", "seconds", seconds),
        ]
    )
    save_figure(figure, out / "scaling.png")
    return Figure(
        "scaling.png",
        "Cost against dimension and draws",
        "Seconds of the default fit, compiling and certificate apart; peak memory of its process (dotted: 2 GB); "
        "seconds of drawing beside those of as many bare gradients.",
    )


STUDY = Study("scaling", "bench", PRESETS, scaling)
