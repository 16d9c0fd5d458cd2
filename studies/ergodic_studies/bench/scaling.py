"""`ergodic bench scaling`: what the default costs against dimension, particles and draws, beside bare gradients.

- dimension: Gaussians of 2 to 1,000 dimensions, standard, and with covariances of condition 1,000, rotated below 200:
  tuning, 2,000 draws, bare gradients, bias, peak memory; certificate: what it adds in some of these dimensions;
- draws: 100 to a million, in default chunks; chunk: as many particles at a time;
- two of the project's bars: German credit's 10,000 particles within 1.15 times their bare gradients, and 100,000 draws
  of targets in two dimensions in a fifth of the seconds that NUTS takes for as many effective ones.

Every point is a process of its own (scaling_points.py).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from ergodic.runtime.validation import one_of

from ..harness.results import write_results
from .scaling_points import Point

_BARS = {"gradients": 1.15, "nuts": 0.2}


class Preset(NamedTuple):
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
    "smoke": Preset((2,), (2,), (100,), (50,), ("gaussian", 1_000), (("gaussian",), 1_000), 1, small=True),
    "cpu": Preset(
        (2, 5, 10, 20, 50, 100, 200, 500, 1000),
        (2, 100, 1000),
        (100, 1_000, 10_000, 100_000, 1_000_000),
        (100, 1_000, 10_000, 100_000, 1_000_000),
        ("german-credit", 10_000),
        (("gaussian", "banana", "rosenbrock"), 100_000),
        5,
    ),
}


def points(preset: Preset) -> list[Point]:
    """All that is measured."""
    common: dict[str, Any] = {"repeats": preset.repeats, "small": preset.small}
    name, credit = preset.credit
    flat, count = preset.nuts
    return [
        *(Point("dimension", "standard", dim, **common) for dim in preset.dims),
        *(Point("dimension", "rotated" if dim < 200 else "scaled", dim, **common) for dim in preset.dims),
        *(Point("certificate", "standard", dim, **common) for dim in preset.certified),
        *(Point("draws", "rotated", 10, draws, **common) for draws in preset.draws),
        *(Point("chunk", "rotated", 10, max(preset.draws), chunk, **common) for chunk in preset.chunks),
        Point("gradients", name, draws=credit, **common),
        *(Point("nuts", target, draws=count, **common) for target in flat),
    ]


def run(out: Path, preset: str = "cpu", *, process: bool = True, say: Callable[[str], None] = print) -> dict[str, Any]:
    """Measure all points; write a table, a figure and ``results.json`` under ``out``."""
    chosen = PRESETS[one_of(preset, tuple(PRESETS), "preset")]
    done = []
    for point in points(chosen):
        done.append(point.in_process() if process else point.run())
        say(_line(done[-1]))
    tables = [_dimensions(done), _certificates(done), _particles(done), _bars(done)]
    config = {"preset": preset, **chosen._asdict()}
    command = f"ergodic bench scaling --preset {preset}"
    write_results(out, "scaling", command, config, {"points": done}, tables=tables, figures=[_figure(done, out)])
    return {"tables": tables, "points": done}


def _line(row: dict[str, Any]) -> str:
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


def _good(rows: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [row for row in rows if row["kind"] == kind and "error" not in row]


def _dimensions(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "title": "Cost against dimension",
        "note": "Fit: the default without its certificate, running; draws: 2,000; × bare: over as many bare gradients "
        "in chunks of the same shape; depth: gradients a draw; peak: of the process. "
        "Gaussians: standard, or with a covariance of condition 1,000, rotated below 200 dimensions.",
        "columns": [
            *("Gaussian", "d", "compile s", "fit s", "depth", "draws s", "× bare", "b2_max", "peak MB"),
        ],
        "rows": [
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
    }


def _certificates(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "title": "What the default's certificate adds",
        "note": "On 10,000 fresh draws of a standard Gaussian; seconds without compiling; peak of the process.",
        "columns": ["d", "compile s", "certificate s", "verdict", "peak MB"],
        "rows": [
            [
                row["dim"],
                f"{row['certificate_compile_seconds']:.1f}",
                f"{row['certificate_seconds']:.2f}",
                row["certificate"],
                f"{row['peak_megabytes']:.0f}",
            ]
            for row in _good(rows, "certificate")
        ],
    }


def _particles(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "title": "Cost against draws and chunks, d = 10",
        "note": "By default 2,048 particles are moved at a time.",
        "columns": ["draws", "chunk", "seconds", "µs a draw", "× bare", "peak MB"],
        "rows": [
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
    }


def _bars(rows: list[dict[str, Any]]) -> dict[str, Any]:
    def line(row: dict[str, Any], what: str, other: str) -> list[Any]:
        level = _BARS[row["kind"]]
        met = "yes" if row["ratio"] < level else "no"
        seconds = (f"{row['sample_seconds']:.3f}", f"{row[other]:.3f}", f"{row['ratio']:.3f}")
        return [what, *seconds, f"{level:g}", met]

    return {
        "title": "Bars",
        "note": "Seconds to draw, compiling and tuning apart; NUTS: 4 chains, from its seconds an effective draw over "
        "a tenth as many draws.",
        "columns": ["what", "draws s", "against s", "ratio", "bar", "met"],
        "rows": [
            *(
                line(row, f"{row['form']}, {row['draws']:,} against bare gradients", "bare_seconds")
                for row in _good(rows, "gradients")
            ),
            *(
                line(row, f"{row['form']}, {row['draws']:,} against NUTS", "nuts_seconds")
                for row in _good(rows, "nuts")
            ),
        ],
    }


def _figure(rows: list[dict[str, Any]], out: Path) -> dict[str, str]:
    from ..report.scaling import Panel, panels
    from ..report.style import save_figure

    def lines(kind: str, x: str, **columns: str) -> dict[str, tuple[list[float], list[float]]]:
        return {
            label.replace("_", " "): (
                [float(row[x]) for row in _good(rows, kind)],
                [row[y] for row in _good(rows, kind)],
            )
            for label, y in columns.items()
        }

    def by_form(y: str) -> dict[str, tuple[list[float], list[float]]]:
        rough = [row for row in _good(rows, "dimension") if row["form"] != "standard"]
        smooth = [row for row in _good(rows, "dimension") if row["form"] == "standard"]
        groups = {"standard": smooth, "ill-conditioned": rough}
        return {
            label: ([float(row["dim"]) for row in group], [row[y] for row in group]) for label, group in groups.items()
        }

    figure = panels(
        [
            Panel("Fit", "dimension", "seconds", by_form("fit_seconds")),
            Panel("Peak memory", "dimension", "MB", by_form("peak_megabytes"), 2000.0),
            Panel(
                "Drawing, d = 10",
                "draws",
                "seconds",
                lines("draws", "draws", draws="sample_seconds", bare_gradients="bare_seconds"),
            ),
        ]
    )
    save_figure(figure, out / "scaling.png")
    return {
        "file": "scaling.png",
        "title": "Cost against dimension and draws",
        "caption": "Seconds of the default fit, compiling and certificate apart; peak memory of its process (dotted: "
        "2 GB); seconds of drawing beside those of as many bare gradients.",
    }
