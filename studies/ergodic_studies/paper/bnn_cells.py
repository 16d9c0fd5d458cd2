"""One way of sampling networks on some splits of one table: sampled, kept on disk, then judged."""

from __future__ import annotations

import time
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypedDict

import jax
import numpy as np

from ergodic.bnn.prediction import predict, score
from ergodic.runtime.files import read_arrays, write_atomically

from ..harness.cells import Cell
from ..harness.results import commit
from ..posteriors.uci_tables import load_table
from .bnn_methods import FORMER, Way, finite, ran_away
from .network_nuts import LongRun, agreement
from .network_splits import Splits


class Judged(TypedDict, total=False):
    """Networks of every split of a table, and how well they predict its test rows."""

    table: str
    label: str
    settings: dict[str, object]
    commit: str | None
    seconds: float
    processor_seconds: float
    rows: int
    away: float
    """The part of the networks that ran away."""
    scores: list[dict[str, float]]
    """Per split."""
    sd: list[list[float]]
    """Predictive standard deviations of every split's test rows."""
    agreement: list[dict[str, float]]
    """How far the chains of a long run agree, per split."""
    curves: dict[str, list[float]]
    """Averages along the chain, over splits."""


@dataclass(frozen=True)
class Trial:
    """A way of sampling networks, by its label, on the first splits of a table."""

    table: str
    label: str
    way: Way
    splits: int
    networks: int
    hidden: tuple[int, ...]

    def cell(self) -> Cell[Judged]:
        """The trial as a cell. Networks are kept beside it, before they are judged."""
        settings = [asdict(self.way), self.splits, self.networks, self.hidden]
        return Cell((self.table, self.label), settings, self.run)

    def run(self, path: Path) -> Judged:
        """Sample, or read what was sampled, and judge."""
        splits = Splits.of(load_table(self.table), range(self.splits))
        network = splits.network(self.hidden)
        arrays = self._sampled(path.with_name(f"{path.name}.safetensors"), splits)
        seconds = np.atleast_1d(arrays["seconds"])
        scores, spreads, agreements = [], [], []
        for sampled, scaling, rows in zip(arrays["positions"], splits.scalings, splits.rows, strict=True):
            mixture = predict(network, finite(sampled.reshape(-1, network.dim)), scaling, rows.test_x)
            scores.append(score(mixture, rows.test_y))
            spreads.append(np.round(mixture.sd, 6).tolist())
            if sampled.ndim == 3:
                agreements.append(agreement(mixture, len(sampled))._asdict())
        curves = {name.removeprefix("curve/"): values for name, values in arrays.items() if name.startswith("curve/")}
        return {
            "table": self.table,
            "label": self.label,
            "settings": asdict(self.way),
            "commit": commit(),
            "seconds": float(seconds[0]),
            "processor_seconds": float(seconds[-1]),
            "rows": splits.data.rows,
            "away": float(np.mean(ran_away(arrays["positions"]))),
            "scores": scores,
            "sd": spreads,
            "agreement": agreements,
            "curves": {name: np.round(values.mean(axis=0), 3).tolist() for name, values in curves.items()},
        }

    def _sampled(self, file: Path, splits: Splits) -> dict[str, np.ndarray]:
        """Positions, splits first (then chains, of a long run); curves; seconds, wall and processor, compiling too."""
        from safetensors.numpy import save

        if not file.is_file():
            name = FORMER.get(self.label, self.label)  # a new name gives no new draws
            key = jax.random.fold_in(jax.random.key(0), zlib.crc32(f"{self.table}/{name}".encode()))
            began = np.array([time.perf_counter(), time.process_time()])
            network = splits.network(self.hidden)
            curves: dict[str, np.ndarray] = {}
            if isinstance(self.way, LongRun):
                positions = self.way.sample(network, splits.data, key)
            else:
                positions, curves = self.way.sample(network, splits.data, key, self.networks)
            seconds = np.array([time.perf_counter(), time.process_time()]) - began
            arrays = {"positions": np.ascontiguousarray(positions), "seconds": seconds}
            arrays |= {f"curve/{name}": np.ascontiguousarray(values) for name, values in curves.items()}
            write_atomically(file, save(arrays))
        return read_arrays(file, "sampled networks", "; delete it to sample them again")[1]
