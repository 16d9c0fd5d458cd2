"""The appendix: Bayesian networks on UCI tables. Table 5, Figure 7, an ablation, and long runs of NUTS to judge by.

Every way of sampling networks runs on all splits of a table as one computation; a split's test rows are scored by the
mixture over its networks. No choice is made on test rows: settings of SGHMC and of the ensemble are chosen on a tenth
of the training rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ergodic.runtime.data_files import available
from ergodic.runtime.errors import ConfigError, unknown
from ergodic.runtime.files import write_atomically
from ergodic.runtime.validation import one_of
from ergodic_studies.posteriors.uci_tables import load_table

from ..harness.results import write_results
from .bnn_cells import Cell, settings_hash
from .bnn_methods import ablations, ensemble_grid, finite, sampling, shortened, stochastic_grid
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
class Preset:
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
    "smoke": Preset(2, 10, 0.02, (5,), 1, 1, 1, candidates=2),
    "cpu": Preset(20, 100, 1.0, (50,), 4, 3, 2),
    "paper": Preset(20, 100, 1.0, (50,), 20, 20, 20),
}


def reproduce(
    preset: str,
    out: Path,
    say: Callable[[str], None] = print,
    *,
    tables: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    collect: bool = False,
) -> dict[str, Any]:
    """Run what is missing, then write tables, the figure and ``results.json`` under ``out``.

    Args:
      tables: names of data sets; the four of the paper where they are at hand, else diabetes.
      methods: some ways of sampling only, so that several processes may share the work; results are then not written.
      collect: sample nothing; tables of what is there.
    """
    size = PRESETS[one_of(preset, tuple(PRESETS), "preset")]
    names = tuple(tables or (UCI if available("uci") else ("diabetes",)))
    folder = out / "cells"
    known = {name: _ways(size, name) for name in names}
    labels = list(dict.fromkeys(label for ways in known.values() for label in ways))
    every = (*labels, BEST, TUNED, ENSEMBLE)
    for label in methods or ():
        if label not in every:
            raise ConfigError(unknown("way of sampling networks", label, every))
    wanted = [label for label in every if methods is None or label in methods]
    if {BEST, TUNED, ENSEMBLE} & set(wanted) and (not collect or _all_chosen(size, names, folder)):
        for name, ways in _chosen(size, names, folder, say).items():
            known[name] |= ways
    results = []
    for name in names:
        for label in (label for label in wanted if label in known[name]):
            cell = _cell(size, name, label, known[name][label])
            if collect and not cell.finished(folder):
                say(f"{name:9s} {label:30s} not finished, so not in the tables")
                continue
            results.append(cell.result(folder))
            mean = np.mean([score["log_likelihood"] for score in results[-1]["scores"]])
            say(f"{name:9s} {label:30s} log-likelihood {mean:7.3f}  {results[-1]['seconds']:.0f} s")
    if not results:
        raise ConfigError(f"nothing under {folder} is finished yet")
    there = {result["label"] for result in results} - {EXACT, *_ablated(size, 1)}
    main = sorted((label for label in wanted if label in there), key=_kind)
    shown = [score_table(results, names, main), difference_table(results, names, main)]
    shown += [exact_table(results, EXACT), ablation_table(results, list(_ablated(size, 1)))]
    shown = [table for table in shown if table["rows"]]
    if preset == "smoke":
        shown = [{**table, "note": f"A smoke test: these numbers mean nothing. {table['note']}"} for table in shown]
    shown.append(data_table([load_table(name) for name in names]))
    if methods is not None:
        return {"tables": shown, "cells": results}
    figures = _figure(results, names, out)
    config = {"preset": preset, "tables": list(names), **asdict(size)}
    command = f"ergodic reproduce bnn --preset {preset}" + (" --collect" if collect else "")
    command += "".join(f" --dataset {name}" for name in tables or ())
    short = [{key: value for key, value in cell.items() if key != "sd"} for cell in results]
    write_results(out, "Bayesian networks", command, config, {"cells": short}, tables=shown, figures=figures)
    return {"tables": shown, "cells": results}


def _ways(size: Preset, name: str) -> dict[str, Any]:
    """Of one table, by label; all but those with chosen settings."""
    rows = load_table(name).train_index.shape[1]
    ways = sampling(rows, size.scale)
    if name in CLOSER:
        ways |= _ablated(size, rows)
        ways[EXACT] = _long_run(name, size.scale)
    return ways


def _long_run(name: str, scale: float) -> LongRun:
    long = LongRun(thin=_THIN.get(name, 1))
    if scale == 1:
        return long
    nuts = replace(long.nuts, warmup=shortened(long.nuts.warmup, scale), max_doublings=2)
    return replace(long, nuts=nuts, draws=shortened(long.draws, scale), iterations=shortened(long.iterations, scale))


def _kind(label: str) -> int:
    """Where a way's row stands: ergodic chains, SGHMC, the others."""
    return next(place for place, kind in enumerate(("HEI", "SGHMC", "")) if label.startswith(kind))


def _ablated(size: Preset, rows: int) -> dict[str, Any]:
    return {f"HEI, {change}": way for change, way in ablations(rows, size.scale).items()}


def _cell(size: Preset, name: str, label: str, way: Any) -> Cell:
    splits = size.closer if label == EXACT else size.changed if label in _ablated(size, 1) else size.splits
    return Cell(name, label, way, splits, size.networks, size.hidden)


def _chosen(size: Preset, names: Sequence[str], folder: Path, say: Callable[[str], None]) -> dict[str, dict[str, Any]]:
    """What held-out rows choose: SGHMC's setting, best on average over tables and best of each; the ensemble's."""
    updates, members = _grids(size)
    found = {name: _held_out(size, name, "SGHMC", updates, folder, say) for name in names}
    average = int(np.argmax(np.mean([found[name] for name in names], axis=0)))
    return {
        name: {
            BEST: updates[average],
            TUNED: updates[int(np.argmax(found[name]))],
            ENSEMBLE: members[int(np.argmax(_held_out(size, name, ENSEMBLE, members, folder, say)))],
        }
        for name in names
    }


def _choice(size: Preset, name: str, what: str, candidates: list[Any], folder: Path) -> Path:
    marked = [[asdict(way) for way in candidates], size.chosen_on, size.networks, size.hidden]
    return folder / f"choice-{name}-{what.replace(' ', '_')}-{settings_hash(marked)}.json"


def _all_chosen(size: Preset, names: Sequence[str], folder: Path) -> bool:
    """Whether every choice is on disk."""
    grids = list(zip(("SGHMC", ENSEMBLE), _grids(size), strict=True))
    return all(_choice(size, name, what, grid, folder).is_file() for name in names for what, grid in grids)


def _grids(size: Preset) -> tuple[list[Any], list[Any]]:
    """SGHMC's settings and the ensemble's."""
    return stochastic_grid(size.scale)[: size.candidates], ensemble_grid(size.scale)[: size.candidates]


def _held_out(
    size: Preset, name: str, what: str, candidates: list[Any], folder: Path, say: Callable[[str], None]
) -> list[float]:
    """Log-likelihood of held-out training rows by every candidate; from disk where it is there."""
    file = _choice(size, name, what, candidates, folder)
    if file.is_file():
        return json.loads(file.read_text())
    splits = Splits.of(load_table(name), range(size.chosen_on), validation=True)
    network = splits.network(size.hidden)
    values = []
    for way in candidates:
        positions, _ = way.sample(network, splits.data, jax.random.key(1), size.networks)
        scores = splits.scores(network, finite(positions))
        values.append(float(np.mean([score["log_likelihood"] for score in scores])))
    say(f"{name:9s} {what} on held-out rows: {', '.join(f'{value:.2f}' for value in values)}")
    write_atomically(file, json.dumps(values).encode())
    return values


def _figure(cells: list[dict[str, Any]], names: Sequence[str], out: Path) -> list[dict[str, str]]:
    """Figure 7."""
    from ..report.networks import along_the_chain
    from ..report.style import save_figure

    figures = []
    for label, file, which in (
        ("HEI, appendix", "appendix.png", "the appendix's chain"),
        ("HEI", "chain.png", "the long chain"),
    ):
        curves = {cell["table"]: cell["curves"] for cell in cells if cell["label"] == label}
        if not curves:
            continue
        save_figure(along_the_chain({name: curves[name] for name in names if name in curves}), out / file)
        caption = "Mean over splits; with the tuned parameters and with those that tuning began with."
        figures.append({"file": file, "title": f"Figure 7: E[log p(w, y)] along {which}", "caption": caption})
    return figures
