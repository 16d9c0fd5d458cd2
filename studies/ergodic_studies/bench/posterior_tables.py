"""Tables of `ergodic bench posteriors`: what was measured, who was faster, and the project's bars."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ..harness.tables import Table
from .posterior_cells import Measured
from .posterior_measure import Seed

EVERY_NUTS = ("NUTS", "NumPyro NUTS", "nutpie")
MANY_CHAINS = ("LAPS", "MEADS", "ChEES")
_FAR = 0.05
"""A b2_max above this must never be certified."""


class Row(NamedTuple):
    """A cell in medians over its seeds. Compile seconds are those of the first seed.

    Seconds are of a processor: wall-clock, times the share that the process had where others used its core too. On a
    core of one's own that is wall-clock.
    """

    target: str
    label: str
    seeds: int
    failed: int
    """Seeds that raised."""
    b2_max: float
    b2_mean: float
    bound: float
    """0.01, or thrice the reference's noise."""
    distance: float | None
    compile: float
    tuning: float
    sampling: tuple[float, ...]
    """Seconds to 1,000, 10,000 and 100,000."""
    reached: bool
    """Whether the wanted effective draws were made in the time; if not, seconds and depth are extrapolated."""
    depth: float
    gradients: float
    certificate: float | None
    """Seconds that a certificate took, compiling included, where fitting made one."""
    verdicts: tuple[str, ...]
    wrong: int
    """Seeds with b2_max > 0.05 and a certificate that passed."""
    share: float
    """Of a processor that the process had, at its least: 1 on an idle machine with one core."""

    @staticmethod
    def of(cell: Measured) -> Row | None:
        """None where every seed failed."""
        good = [row for row in cell["results"] if "error" not in row]
        if not good:
            return None

        def median(get: Callable[[Seed], float]) -> float:
            return float(np.median([get(row) for row in good]))

        def seconds(get: Callable[[Seed], float]) -> float:
            return median(lambda row: get(row) * _pace(row))

        first, certified = good[0], [row for row in good if row["certificate"] is not None]
        distances = [row["sliced_wasserstein"] for row in good if row["sliced_wasserstein"] is not None]
        return Row(
            cell["target"],
            cell["label"],
            len(cell["results"]),
            len(cell["results"]) - len(good),
            median(lambda row: row["b2_max"]),
            median(lambda row: row["b2_mean"]),
            max(0.01, 3 * cell["noise"]),
            float(np.median(distances)) if distances else None,
            first["compile_seconds"] * _pace(first),
            seconds(lambda row: row["tuning_seconds"]),
            tuple(seconds(_sampling(size)) for size in first["sampling_seconds"]),
            all(row["reached"] for row in good),
            median(lambda row: row["depth"]),
            median(lambda row: row["gradients"]),
            (first["certificate_compile_seconds"] or 0.0) * _pace(first)
            + seconds(lambda row: row["certificate_seconds"] or 0.0)
            if certified and first["certificate"]
            else None,
            tuple(str(row["certificate"]) for row in certified),
            sum(row["certificate"] == "passed" and row["b2_max"] > _FAR for row in good),
            min(row["cpu_share"] for row in good),
        )

    @property
    def converged(self) -> bool:
        """Whether the median b2_max is within its bound, with most seeds not failed."""
        return self.b2_max < self.bound and 2 * self.failed < self.seeds

    def total(self, size: int, certified: bool = False) -> float:
        """Seconds to 1,000, 10,000, 100,000 draws (size 0, 1, 2), compiling and tuning included."""
        extra = (self.certificate or 0.0) if certified else 0.0
        return self.compile + self.tuning + self.sampling[size] + extra


def _sampling(size: str) -> Callable[[Seed], float]:
    return lambda row: row["sampling_seconds"][size]


def _pace(row: Seed) -> float:
    return min(1.0, row["cpu_share"])


def all_tables(cells: list[Measured], bar: Sequence[str]) -> list[Table]:
    """Seconds, bias and depth by target and method; every cell; and the bars where GEI was run."""
    rows = {(row.target, row.label): row for row in map(Row.of, cells) if row is not None}
    names = list(dict.fromkeys(cell["target"] for cell in cells))
    labels = list(dict.fromkeys(cell["label"] for cell in cells))
    tried = {(cell["target"], cell["label"]) for cell in cells}
    tables = [
        _by_target(
            "Seconds to 10,000 draws at b2_max < 0.01, compiling and tuning included",
            "Independent or effective draws; medians over seeds. ×: b2_max is not below 0.01 (or thrice the "
            "reference's noise). ~: extrapolated, the draws were not made in the time given. *: the fastest.",
            rows,
            names,
            labels,
            _seconds,
            tried,
        ),
        _by_target(
            "b2_max of 10,000 draws", "Medians over seeds.", rows, names, labels, lambda r, _: f"{r.b2_max:.2g}", tried
        ),
        _by_target(
            "Sequential depth to 10,000 draws",
            "Gradients one after the other, tuning included; of one chain where there are chains. ×: not converged.",
            rows,
            names,
            labels,
            lambda row, _: f"{row.depth:,.0f}" + ("" if row.converged else " ×"),
            tried,
        ),
        _everything(rows),
    ]
    ours = [name for name in bar if (name, "GEI") in rows]
    return [bars_table(rows, ours, tried), *tables] if ours else tables


def _by_target(
    title: str,
    note: str,
    rows: dict[tuple[str, str], Row],
    names: Sequence[str],
    labels: Sequence[str],
    show: Callable[[Row, Sequence[Row]], str],
    tried: set[tuple[str, str]],
) -> Table:
    def missing(name: str, label: str) -> str:
        return "failed" if (name, label) in tried else "not run"

    lines = []
    for name in names:
        here = [rows[name, label] for label in labels if (name, label) in rows]
        lines.append(
            [
                name,
                *(show(rows[name, label], here) if (name, label) in rows else missing(name, label) for label in labels),
            ]
        )
    return Table.of(title, ["target", *labels], lines, note)


def _seconds(row: Row, here: Sequence[Row]) -> str:
    if not row.converged:
        return f"× ({row.total(1):.1f})"
    best = min(other.total(1) for other in here if other.converged)
    return ("" if row.reached else "~") + f"{row.total(1):.1f}" + (" *" if row.total(1) == best else "")


def _everything(rows: dict[tuple[str, str], Row]) -> Table:
    columns = [
        "target",
        "method",
        "b2 max",
        "b2 mean",
        "SW",
        "compile s",
        "tuning s",
        "1,000 s",
        "10,000 s",
        "100,000 s",
    ]
    columns += ["depth", "gradients", "certificate", "processor", "seeds"]
    lines = [
        [
            row.target,
            row.label,
            f"{row.b2_max:.2g}",
            f"{row.b2_mean:.2g}",
            "" if row.distance is None else f"{row.distance:.3f}",
            f"{row.compile:.1f}",
            f"{row.tuning:.2f}",
            *(f"{seconds:.3g}" for seconds in row.sampling),
            f"{row.depth:,.0f}",
            f"{row.gradients:,.0f}",
            ", ".join(f"{row.verdicts.count(verdict)} {verdict}" for verdict in dict.fromkeys(row.verdicts)),
            f"{row.share:.2f}",
            str(row.seeds) + (f" ({row.failed} failed)" if row.failed else ""),
        ]
        for row in rows.values()
    ]
    note = (
        "Medians over seeds; compiling of the first seed. SW: sliced Wasserstein distance of 10,000 unconstrained "
        "draws, in units of each coordinate's sd, to exact or reference draws. Seconds to 1,000, 10,000 and 100,000 "
        "draws are of sampling alone. Processor: the least share that a seed had of its core; where it is below 1, "
        "others used the core too, and seconds are wall-clock times the share."
    )
    return Table.of("Every cell", columns, lines, note)


def bars_table(
    rows: dict[tuple[str, str], Row], names: Sequence[str], tried: set[tuple[str, str]] | None = None
) -> Table:
    """GEI against the bars of the project, on those of the twenty targets that were run with all the peers of a bar."""
    tried = set(rows) if tried is None else tried
    ours = {name: rows[name, "GEI"] for name in names}

    def peers(name: str, labels: Sequence[str]) -> list[Row]:
        return [rows[name, label] for label in labels if (name, label) in rows]

    def best(name: str, labels: Sequence[str], certified: bool = False) -> float:
        """The fastest converged peer's seconds over ours; infinite where no peer converged, 0 where we did not."""
        if not ours[name].converged:
            return 0.0
        times = [row.total(1) for row in peers(name, labels) if row.converged]
        return min(times, default=math.inf) / ours[name].total(1, certified)

    def shallower(labels: Sequence[str]) -> list[str]:
        return [name for name in names if all(ours[name].depth < row.depth for row in peers(name, labels))]

    def count(wins: Sequence[str], labels: Sequence[str] = ()) -> str:
        ran = [name for name in names if all((name, label) in tried for label in labels)]
        missing = [name for name in ran if name not in wins]
        won = f"{len(ran) - len(missing)} of {len(ran)}"
        return won + (f" (not {', '.join(missing)})" if 0 < len(missing) <= 8 else "")

    faster = [name for name in names if best(name, EVERY_NUTS) > 1]
    thrice = [name for name in names if best(name, EVERY_NUTS) >= 3]
    quick = [
        name for name in names if all(ours[name].compile <= 0.5 * row.compile for row in peers(name, EVERY_NUTS[:1]))
    ]
    wrong = sum(row.wrong for (_, label), row in rows.items() if label == "GEI")
    lines = [
        ["b2_max < 0.01 with 10,000 draws", count([n for n in names if ours[n].converged]), "17 of 20"],
        ["certificates passed at b2_max > 0.05, any seed, any target", str(wrong), "0"],
        ["faster than every NUTS", count(faster, EVERY_NUTS), "16 of 20"],
        [
            "the same, certificate's time included",
            count([n for n in names if best(n, EVERY_NUTS, True) > 1], EVERY_NUTS),
            "",
        ],
        ["at least 3 times faster than every NUTS", count(thrice, EVERY_NUTS), "10 of 20"],
        [
            "faster than LAPS, MEADS and ChEES",
            count([n for n in names if best(n, MANY_CHAINS) > 1], MANY_CHAINS),
            "16 of 20",
        ],
        [
            "the same, certificate's time included",
            count([n for n in names if best(n, MANY_CHAINS, True) > 1], MANY_CHAINS),
            "",
        ],
        ["depth below every NUTS", count(shallower(EVERY_NUTS), EVERY_NUTS), "20 of 20"],
        ["depth below LAPS", count(shallower(("LAPS",)), ("LAPS",)), "12 of 20"],
        ["compile time at most half of BlackJAX's NUTS", count(quick, EVERY_NUTS[:1]), "20 of 20"],
    ]
    note = "A peer that does not converge has no time. Where no peer converges and GEI does, GEI is faster."
    return Table.of("GEI against the bars", ["bar", "measured", "wanted"], lines, note)
