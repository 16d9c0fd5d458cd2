"""One way of sampling networks on some splits of one table: sampled, kept on disk, then judged."""

from __future__ import annotations

import hashlib
import json
import time
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ergodic.bnn.prediction import predict, score
from ergodic.runtime.files import read_arrays, write_atomically
from ergodic_studies.posteriors.uci_tables import load_table

from ..harness.results import commit
from .bnn_methods import finite, ran_away
from .network_nuts import LongRun, agreement
from .network_splits import Splits


@dataclass(frozen=True)
class Cell:
    """What identifies it."""

    table: str
    label: str
    way: Any
    splits: int
    networks: int
    hidden: tuple[int, ...]

    @property
    def name(self) -> str:
        """Of its files: the settings' hash is part of it, so that another setting is another cell."""
        label = "".join(c if c.isalnum() else "_" for c in self.label)
        marked = settings_hash([asdict(self.way), self.splits, self.networks, self.hidden])
        return f"{self.table}-{label}-{marked}"

    def result(self, folder: Path) -> dict[str, Any]:
        """Its scores; networks from disk where they are there. Networks are kept before they are judged."""
        file = folder / f"{self.name}.json"
        if not file.is_file():
            write_atomically(file, json.dumps(self._judged(folder), indent=1).encode())
        return json.loads(file.read_text())

    def finished(self, folder: Path) -> bool:
        """Whether it is on disk."""
        return (folder / f"{self.name}.json").is_file()

    def _judged(self, folder: Path) -> dict[str, Any]:
        splits = Splits.of(load_table(self.table), range(self.splits))
        network = splits.network(self.hidden)
        arrays = self._sampled(folder / f"{self.name}.safetensors", splits)
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
            key = jax.random.fold_in(jax.random.key(0), zlib.crc32(f"{self.table}/{self.label}".encode()))
            began = np.array([time.perf_counter(), time.process_time()])
            network = splits.network(self.hidden)
            if isinstance(self.way, LongRun):
                positions, curves = self.way.sample(network, splits.data, key), {}
            else:
                positions, curves = self.way.sample(network, splits.data, key, self.networks)
            seconds = np.array([time.perf_counter(), time.process_time()]) - began
            arrays = {"positions": np.ascontiguousarray(positions), "seconds": seconds}
            arrays |= {f"curve/{name}": np.ascontiguousarray(values) for name, values in curves.items()}
            write_atomically(file, save(arrays))
        return read_arrays(file, "sampled networks", "; delete it to sample them again")[1]


def settings_hash(settings: Any) -> str:
    """Eight digits that change with the settings."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:8]
