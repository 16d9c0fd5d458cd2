"""`ergodic bench bounds`: how small the bound of `Certificate.bound` is, what it costs, and whether it holds.

    reached     bounds of chains of one, two and three passes, on the paper's six targets, posteriors and Gaussians
    held        bounds of many seeds against the total variation where it is known (bound_targets.py)
    asked       `eg.fit(..., distance=0.05)` on the models that people write (bound_models.py)

Cells are kept as they are finished (bound_cells.py, bound_models.py); tables are in bound_tables.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Annotated

import typer

from ergodic import targets
from ergodic.runtime.validation import positive_int
from ergodic.targets.synthetic import PAPER_SIX, SYNTHETIC

from ..harness.cells import Cell, Result
from ..harness.options import checked, split
from ..harness.presets import changed
from ..harness.study import Report, Run, Study
from ..harness.tables import Figure
from ..models.registry import MODELS
from .bound_cells import CHAINS, Held, Reached, hold, reach
from .bound_models import Asked, asked
from .bound_tables import WANTED, all_tables
from .bound_targets import KNOWN, POSED

_VERSION = 1
"""The version of what is measured: a change makes every cell anew."""
PARTS = ("reached", "held", "asked")


@dataclass(frozen=True)
class Size:
    """How much is run."""

    targets: tuple[str, ...]
    known: tuple[str, ...]
    models: tuple[str, ...]
    fits: int
    """Keys with which every target is fitted; those whose bounds are held against the truth with two at most."""
    pairs: int
    """Of chains, for every bound that shall be small."""
    seeds: int
    """Bounds that are held against the truth, of ``few`` pairs each."""
    few: int = 256
    distance: float = 0.05
    limit: float = 200.0
    """Seconds that a model may take."""


PRESETS = {
    "smoke": Size(("gaussian",), ("student-1",), (), 1, 512, 2),
    "cpu": Size(POSED, KNOWN, tuple(MODELS), 3, 2048, 50),
}


def bounds(
    run: Run[Size],
    *,
    seeds: Annotated[int | None, typer.Option(help="Bounds held against the truth, instead of the preset's.")] = None,
    parts: Annotated[list[str] | None, typer.Option(help="reached, held or asked, instead of all; repeatable.")] = None,
) -> Report:
    """Bounds of the total variation: how small, how dear, and whether they hold.

    A run that was stopped goes on where it was. With ``--parts`` only a part is run, and nothing is recorded.
    """
    size = changed(run.size, seeds=None if seeds is None else positive_int(seeds, "seeds"))
    wanted = checked(split(parts) or PARTS, PARTS, "part of the study")
    near = _done(run, _reached(size)) if "reached" in wanted else []
    kept = [row for rows in _done(run, _held(size)) for row in rows] if "held" in wanted else []
    answers = _done(run, _asked(size)) if "asked" in wanted else []
    figures = [_drawn(run, near)] if any(row["target"] in PAPER_SIX for row in near) else []
    results = {"reached": near, "held": kept, "asked": answers}
    config = {"preset": run.preset.name, **asdict(size)}
    tables = all_tables(near, kept, answers)
    return Report(results, tables, figures, config, whole=set(wanted) == set(PARTS))


def _reached(size: Size) -> list[Cell[Reached]]:
    return [
        Cell(
            ("reached", name, seed),
            [_VERSION, size.pairs],
            partial(reach, name, seed, size.pairs, name in PAPER_SIX and not seed),
        )
        for name in size.targets
        for seed in range(size.fits)
    ]


def _held(size: Size) -> list[Cell[list[Held]]]:
    how = (min(2, size.fits), size.seeds, size.few)
    return [
        Cell(("held", name, chain), [_VERSION, *how], partial(hold, name, chain, *how))
        for name in size.known
        for chain in CHAINS
    ]


def _asked(size: Size) -> list[Cell[Asked]]:
    how = (size.distance, 0, size.limit)
    return [Cell(("asked", name), [_VERSION, *how], partial(asked, name, *how)) for name in size.models]


def _done(run: Run[Size], cells: Sequence[Cell[Result]]) -> list[Result]:
    """The results of cells, from disk where they are there."""
    found = []
    for index, cell in enumerate(cells):
        run.status(f"{index + 1} of {len(cells)}: {' '.join(map(str, cell.words))}")
        found.append(cell.result(run.cells))
    return found


def _drawn(run: Run[Size], rows: list[Reached]) -> Figure:
    """The paper's six: E[log π*] along the chain, as in its Figure 6a, and bounds below."""
    from ..report.bounds import BoundPanel, bound_curves
    from ..report.style import save_figure

    panels = [
        BoundPanel(
            f"({SYNTHETIC[row['target']].letter}) {row['target']}",
            targets.get(row["target"]).require_truth().expected_logdensity,
            row["trace"],
            row["transitions"],
            row["curve"],
            row["means"],
        )
        for row in rows
        if row["target"] in PAPER_SIX and not row["seed"]
    ]
    save_figure(bound_curves(panels, WANTED), run.out / "bounds.png")
    caption = (
        "Above, as in Figure 6a: E[log π*] along the chain, gone through three times, and the exact value. "
        "Below: total variation from the target after one, two and three passes, at most. Seed 0."
    )
    return Figure("bounds.png", "Bounds against T, beside Figure 6a", caption)


STUDY = Study("bounds", "bench", PRESETS, bounds)
