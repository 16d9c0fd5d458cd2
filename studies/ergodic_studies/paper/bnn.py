"""The appendix: Bayesian networks on UCI tables. Table 5, Figure 7, an ablation, and long runs of NUTS to judge by.

Every way of sampling networks runs on all splits of a table as one computation; a split's test rows are scored by the
mixture over its networks. No choice is made on test rows: settings of SGHMC and of the ensemble are chosen on a tenth
of the training rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated

import jax
import numpy as np
import typer

from ergodic.runtime.data_files import available
from ergodic.runtime.errors import ConfigError, unknown

from ..harness.cells import Cell
from ..harness.study import Report, Run, Say, Study
from ..harness.tables import Figure
from ..posteriors.uci_tables import load_table
from .bnn_cells import Judged, Trial
from .bnn_methods import (
    ALL_ROWS,
    FORMER,
    LONG,
    Members,
    StochasticGradients,
    Way,
    ablations,
    ensemble_grid,
    finite,
    sampling,
    shortened,
    stochastic_grid,
)
from .bnn_tables import ablation_table, data_table, difference_table, exact_table, score_table
from .network_nuts import LongRun
from .network_splits import Splits

UCI = ("boston", "yacht", "concrete", "wine")
CLOSER = ("boston", "yacht")
"""Tables that are also looked at by long runs and by the ablation."""
BEST, TUNED, ENSEMBLE = "SGHMC, best average", "SGHMC, tuned a table", "deep ensemble"
"""Ways with settings chosen on held-out training rows."""
EXACT = "NUTS, long"
_THIN = {"yacht": 4}
"""Tables whose long runs are longer: with every transition kept, their chains did not agree."""


@dataclass(frozen=True)
class Size:
    """How much is run."""

    splits: int
    networks: int
    scale: float
    hidden: tuple[int, ...]
    chosen_on: int
    """Splits whose held-out training rows choose settings."""
    closer: int
    """Splits of long runs."""
    changed: int
    """Splits of the ablation."""
    candidates: int = 100
    """Settings to choose from, at most."""


PRESETS = {
    "smoke": Size(2, 10, 0.02, (5,), 1, 1, 1, candidates=2),
    "cpu": Size(20, 100, 1.0, (50,), 4, 3, 2),
    "paper": Size(20, 100, 1.0, (50,), 20, 20, 20),
}


def bnn(
    run: Run[Size],
    *,
    dataset: Annotated[
        list[str] | None, typer.Option(help="boston, yacht, concrete, wine or diabetes; repeatable.")
    ] = None,
    methods: Annotated[
        list[str] | None, typer.Option(help="Some ways of sampling only, as 'long chain'; repeatable.")
    ] = None,
    collect: Annotated[bool, typer.Option("--collect", help="Sample nothing; tables of what is there.")] = False,
) -> Report:
    """The appendix: Bayesian networks on the UCI tables, ergodic chains against SGHMC and others, 20 splits.

    Without UCI data (`ergodic data fetch uci`) it is the diabetes table. A run that was stopped goes on where it was.
    With --methods the work can be shared between processes; then --collect.
    """
    size, folder, say = run.size, run.cells, run.say
    names = tuple(dataset or (UCI if available("uci") else ("diabetes",)))
    known = {name: _ways(size, name) for name in names}
    every = (*dict.fromkeys(label for ways in known.values() for label in ways), BEST, TUNED, ENSEMBLE)
    wanted = _wanted(methods, every)
    if {BEST, TUNED, ENSEMBLE} & set(wanted) and (not collect or _all_chosen(size, names, folder)):
        if not collect:
            updates, members = _grids(size)
            run.share([_choice(size, name, "SGHMC", updates, say) for name in names])
            run.share([_choice(size, name, ENSEMBLE, members, say) for name in names])
        for name, ways in _chosen(size, names, folder, say).items():
            known[name] |= ways
    if not collect:
        labels = {name: [label for label in wanted if label in known[name]] for name in names}
        run.share([_trial(size, name, label, known[name][label]).cell() for name in names for label in labels[name]])
    results: list[Judged] = []
    for name in names:
        for label in (label for label in wanted if label in known[name]):
            cell = _trial(size, name, label, known[name][label]).cell()
            if collect and not cell.finished(folder):
                say(f"{name:9s} {label:30s} not finished, so not in the tables")
                continue
            results.append(cell.result(folder))
            mean = np.mean([score["log_likelihood"] for score in results[-1]["scores"]])
            say(f"{name:9s} {label:30s} log-likelihood {mean:7.3f}  {results[-1]['seconds']:.0f} s")
    if not results:
        raise ConfigError(f"nothing under {folder} is finished yet")
    changes = list(ablations(1, size.scale))
    there = {result["label"] for result in results} - {EXACT, *changes}
    main = sorted((label for label in wanted if label in there), key=_kind)
    shown = [score_table(results, names, main), difference_table(results, names, main)]
    shown += [exact_table(results, EXACT), ablation_table(results, changes)]
    shown = [table for table in shown if table.rows]
    if run.preset.name == "smoke":
        shown = [replace(table, note=f"A smoke test: these numbers mean nothing. {table.note}") for table in shown]
    shown.append(data_table([load_table(name) for name in names]))
    if methods is not None:
        return Report({"cells": results}, shown, whole=False)
    config = {**run.preset.config(), "tables": list(names)}
    short = [{key: value for key, value in cell.items() if key != "sd"} for cell in results]
    return Report({"cells": short}, shown, _figure(results, names, run.out), config)


def _wanted(methods: Sequence[str] | None, every: Sequence[str]) -> list[str]:
    """Those ways that are asked for, in their order; a former label is understood."""
    now = {former: label for label, former in FORMER.items()}
    asked = None if methods is None else [now.get(label, label) for label in methods]
    for label in asked or ():
        if label not in every:
            raise ConfigError(unknown("way of sampling networks", label, every))
    return [label for label in every if asked is None or label in asked]


def _ways(size: Size, name: str) -> dict[str, Way]:
    """The ways of sampling networks of one table, by label; all but those with chosen settings."""
    rows = load_table(name).train_index.shape[1]
    ways = sampling(rows, size.scale)
    if name in CLOSER:
        ways |= ablations(rows, size.scale)
        ways[EXACT] = _long_run(name, size.scale)
    return ways


def _long_run(name: str, scale: float) -> LongRun:
    long = LongRun(thin=_THIN.get(name, 1))
    if scale == 1:
        return long
    nuts = replace(long.nuts, warmup=shortened(long.nuts.warmup, scale), max_doublings=2)
    return replace(long, nuts=nuts, draws=shortened(long.draws, scale), iterations=shortened(long.iterations, scale))


def _kind(label: str) -> int:
    """Where a way's row stands: the long chain, the paper's, SGHMC, the others."""
    return next(place for place, kind in enumerate((LONG, "HEI", "SGHMC", "")) if label.startswith(kind))


def _trial(size: Size, name: str, label: str, way: Way) -> Trial:
    splits = size.closer if label == EXACT else size.changed if label in ablations(1, size.scale) else size.splits
    return Trial(name, label, way, splits, size.networks, size.hidden)


def _chosen(size: Size, names: Sequence[str], folder: Path, say: Say) -> dict[str, dict[str, Way]]:
    """What held-out rows choose: SGHMC's setting, best on average over tables and best of each; the ensemble's."""
    updates, members = _grids(size)
    found = {name: _choice(size, name, "SGHMC", updates, say).result(folder) for name in names}
    average = int(np.argmax(np.mean([found[name] for name in names], axis=0)))
    ensembles = {name: _choice(size, name, ENSEMBLE, members, say).result(folder) for name in names}
    return {
        name: {
            BEST: updates[average],
            TUNED: updates[int(np.argmax(found[name]))],
            ENSEMBLE: members[int(np.argmax(ensembles[name]))],
        }
        for name in names
    }


Candidate = StochasticGradients | Members


def _choice(size: Size, name: str, what: str, candidates: Sequence[Candidate], say: Say) -> Cell[list[float]]:
    """The log-likelihoods of held-out training rows by every candidate, as a cell."""
    settings = [[asdict(way) for way in candidates], size.chosen_on, size.networks, size.hidden]
    return Cell(("choice", name, what), settings, partial(_held_out, size, name, what, candidates, say))


def _all_chosen(size: Size, names: Sequence[str], folder: Path) -> bool:
    """Whether every choice is on disk."""
    updates, members = _grids(size)
    cells = [_choice(size, name, "SGHMC", updates, print) for name in names]
    cells += [_choice(size, name, ENSEMBLE, members, print) for name in names]
    return all(cell.finished(folder) for cell in cells)


def _grids(size: Size) -> tuple[list[StochasticGradients], list[Members]]:
    """The settings of SGHMC and those of the ensemble that are chosen from."""
    return stochastic_grid(size.scale)[: size.candidates], ensemble_grid(size.scale)[: size.candidates]


def _held_out(size: Size, name: str, what: str, candidates: Sequence[Candidate], say: Say, path: Path) -> list[float]:
    """Sample networks with every candidate, and score the training rows that are held out."""
    splits = Splits.of(load_table(name), range(size.chosen_on), validation=True)
    network = splits.network(size.hidden)
    values = []
    for way in candidates:
        positions, _ = way.sample(network, splits.data, jax.random.key(1), size.networks)
        scores = splits.scores(network, finite(positions))
        values.append(float(np.mean([score["log_likelihood"] for score in scores])))
    say(f"{name:9s} {what} on held-out rows: {', '.join(f'{value:.2f}' for value in values)}")
    return values


def _figure(cells: list[Judged], names: Sequence[str], out: Path) -> list[Figure]:
    """Figure 7, of the appendix's chain and of the long one."""
    from ..report.networks import along_the_chain
    from ..report.style import save_figure

    figures = []
    for label, file, which in (
        (ALL_ROWS, "appendix.png", "the appendix's chain"),
        (LONG, "chain.png", "the long chain"),
    ):
        curves = {cell["table"]: cell["curves"] for cell in cells if cell["label"] == label}
        if not curves:
            continue
        save_figure(along_the_chain({name: curves[name] for name in names if name in curves}), out / file)
        caption = "Mean over splits; with the tuned parameters and with those that tuning began with."
        figures.append(Figure(file, f"Figure 7: E[log p(w, y)] along {which}", caption))
    return figures


STUDY = Study("bnn", "reproduce", PRESETS, bnn, title="Bayesian networks", shared=True)
