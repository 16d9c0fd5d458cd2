"""The appendix: Bayesian networks on UCI tables. Table 5, Figure 7, and how sure the comparison is.

Every way of sampling networks runs on all splits of a table as one computation; a split's test rows are scored by the
mixture over its networks. No choice is made on test rows: SGHMC's settings are chosen on a tenth of the training rows.
"""

from __future__ import annotations

import hashlib
import json
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ..bnn.splits import Splits
from ..bnn.stochastic_gradients import NetworkSGHMC
from ..datasets.locate import available
from ..datasets.tables import load_table
from ..errors import ConfigError, unknown
from ..storage import write_atomically
from ..validation import one_of
from .bnn_methods import StochasticGradients, finite, grid, sampling
from .bnn_tables import difference_table, score_table
from .results import write_results

UCI = ("boston", "yacht", "concrete", "wine")
BEST, TUNED = "SGHMC, best average", "SGHMC, tuned a table"


@dataclass(frozen=True)
class Preset:
    """How much is run."""

    splits: int
    networks: int
    scale: float
    hidden: tuple[int, ...]
    chosen_on: int
    """Splits whose held-out training rows choose SGHMC's settings."""


PRESETS = {
    "smoke": Preset(2, 10, 0.02, (5,), 1),
    "cpu": Preset(20, 100, 1.0, (50,), 4),
    "paper": Preset(20, 100, 1.0, (50,), 20),
}


def reproduce(
    preset: str,
    out: Path,
    say: Callable[[str], None] = print,
    *,
    tables: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Run what is missing, then write tables, the figure and ``results.json`` under ``out``.

    Args:
      tables: names of data sets; the four of the paper where they are at hand, else diabetes.
      methods: some ways of sampling only.
    """
    size = PRESETS[one_of(preset, tuple(PRESETS), "preset")]
    names = tuple(tables or (UCI if available("uci") else ("diabetes",)))
    ways = sampling(size.scale)
    for label in methods or ():
        if label not in (*ways, BEST, TUNED):
            raise ConfigError(unknown("way of sampling networks", label, (*ways, BEST, TUNED)))
    folder = out / "cells"
    if methods is None or {BEST, TUNED} & set(methods):
        ways |= _chosen(size, names, folder, say)
    wanted = [label for label in ways if methods is None or label in methods]
    cells = []
    for name in names:
        for label in wanted:
            way = ways[label].get(name) if isinstance(ways[label], dict) else ways[label]
            cell = _cell(size, name, label, way, folder)
            cells.append(cell)
            mean = np.mean([score["log_likelihood"] for score in cell["scores"]])
            say(f"{name:9s} {label:22s} log-likelihood {mean:7.3f}  {cell['seconds']:.0f} s")
    shown = [score_table(cells, names, wanted), difference_table(cells, names, wanted)]
    figures = _figure(cells, names, out)
    config = {"preset": preset, "tables": list(names), "splits": size.splits, "networks": size.networks}
    write_results(
        out, "bnn", f"ergodic reproduce bnn --preset {preset}", config, {"cells": cells}, tables=shown, figures=figures
    )
    return {"tables": shown, "cells": cells}


def _cell(size: Preset, name: str, label: str, way: Any, folder: Path) -> dict[str, Any]:
    """One way on all splits of one table; from disk where it is there."""
    marked = _hash([asdict(way), size.splits, size.networks, size.hidden])
    file = folder / f"{name}-{label.replace(' ', '_')}-{marked}.json"
    if file.is_file():
        return json.loads(file.read_text())
    splits = Splits.of(load_table(name), range(size.splits))
    network = splits.network(size.hidden)
    key = jax.random.fold_in(jax.random.key(0), zlib.crc32(f"{name}/{label}".encode()))
    began = time.perf_counter()
    positions, curves = way.sample(network, splits.data, key, size.networks)
    seconds = time.perf_counter() - began
    result = {
        "table": name,
        "label": label,
        "seconds": seconds,
        "settings": asdict(way),
        "scores": splits.scores(network, finite(positions)),
        "curves": {curve: np.round(np.mean(values, axis=0), 3).tolist() for curve, values in curves.items()},
    }
    write_atomically(file, json.dumps(result, indent=1).encode())
    return result


def _chosen(size: Preset, names: Sequence[str], folder: Path, say: Callable[[str], None]) -> dict[str, Any]:
    """SGHMC with the setting that is best on average over tables, and with the best of each, by held-out rows."""
    candidates = grid(size.scale)
    marked = [[asdict(update) for update in candidates], size.chosen_on, size.networks, size.hidden, list(names)]
    file = folder / f"choice-{_hash(marked)}.json"
    if file.is_file():
        found = json.loads(file.read_text())
    else:
        found = {}
        for name in names:
            splits = Splits.of(load_table(name), range(size.chosen_on), validation=True)
            network = splits.network(size.hidden)
            values = []
            for update in candidates:
                positions = NetworkSGHMC(update).sample(network, splits.data, jax.random.key(1), size.networks)
                scores = splits.scores(network, finite(positions))
                values.append(float(np.mean([score["log_likelihood"] for score in scores])))
            found[name] = values
            say(f"{name:9s} SGHMC's settings on held-out rows: {', '.join(f'{value:.2f}' for value in values)}")
        write_atomically(file, json.dumps(found).encode())
    average = int(np.argmax(np.mean([found[name] for name in names], axis=0)))
    best = {name: int(np.argmax(found[name])) for name in names}
    return {
        BEST: StochasticGradients(NetworkSGHMC(candidates[average])),
        TUNED: {name: StochasticGradients(NetworkSGHMC(candidates[best[name]])) for name in names},
    }


def _hash(settings: Any) -> str:
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:8]


def _figure(cells: list[dict[str, Any]], names: Sequence[str], out: Path) -> list[dict[str, str]]:
    """Figure 7."""
    from ..report.networks import along_the_chain
    from ..report.style import save_figure

    curves = {cell["table"]: cell["curves"] for cell in cells if cell["label"] == "HEI"}
    if not curves:
        return []
    save_figure(along_the_chain({name: curves[name] for name in names if name in curves}), out / "chain.png")
    return [
        {
            "file": "chain.png",
            "title": "Figure 7: E[log p(w, y)] along the chain",
            "caption": "Mean over splits; with the tuned parameters and with those that tuning began with.",
        }
    ]
