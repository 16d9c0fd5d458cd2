"""Cells of a study: one method on one target with one seed, measured, kept on disk, never run twice.

A cell is written when it is done; a study that was killed reads what is there and goes on with the rest. Keys come from
the seed and the cell's names, so that a cell gives the same draws whatever ran before it.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ergodic import targets
from ergodic.runtime.files import write_atomically
from ergodic.statistics.wasserstein import sliced_wasserstein

COMPARED = 20_000
"""Draws that enter a sliced Wasserstein distance, the same number for every method."""


@dataclass(frozen=True)
class Cell:
    """What is measured: a label for the method, its settings, a target, a seed and a number of draws."""

    label: str
    method: Any
    target: str
    seed: int
    draws: int

    def path(self, folder: Path) -> Path:
        """Where its result is kept: the name holds a hash of the settings, so that a changed cell is run anew."""
        settings = json.dumps([self.method.name, asdict(self.method), self.draws], sort_keys=True)
        mark = hashlib.sha256(settings.encode()).hexdigest()[:8]
        return folder / f"{self.target}-{self.label.replace(' ', '_')}-{self.seed}-{mark}"

    def result(self, folder: Path) -> dict[str, Any]:
        """The measurements; from disk where they are there, else run now."""
        file = self.path(folder).with_suffix(".json")
        if file.is_file():
            return json.loads(file.read_text())
        result, arrays = self._run()
        with_arrays = self.path(folder).with_suffix(".npz")
        write_atomically(with_arrays, _npz(arrays))
        write_atomically(file, json.dumps(result, indent=1).encode())  # last: it says that the cell is complete
        return result

    def arrays(self, folder: Path) -> dict[str, np.ndarray]:
        """Some draws, the trace and the training record of a finished cell."""
        with np.load(self.path(folder).with_suffix(".npz")) as file:
            return {name: file[name] for name in file.files}

    def _run(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        target = targets.get(self.target)
        name = zlib.crc32(f"{self.label}/{self.target}".encode())
        key = jax.random.fold_in(jax.random.key(self.seed), name)
        fit_key, sample_key, exact_key, resample_key = jax.random.split(key, 4)
        sampler = self.method.fit(target, fit_key, progress=None)
        draws = sampler.sample(sample_key, self.draws, progress=None)
        size = min(COMPARED, self.draws)
        shown = draws.resample(resample_key, size) if draws.kind == "weighted" else draws
        thinned = shown.unconstrained[np.linspace(0, len(shown) - 1, size).astype(int)]
        result = {
            "label": self.label,
            "target": self.target,
            "seed": self.seed,
            "draws": self.draws,
            "kind": draws.kind,
            "estimate": -float(draws.mean(draws.logdensity)),
            "distance": sliced_wasserstein(thinned, target.draw_exact(exact_key, size)),
            "effective_size": draws.effective_size(),
            "log_z": list(draws.log_z()) if draws.kind == "weighted" else None,
            "compile_seconds": sampler.cost.compile_seconds + draws.cost.compile_seconds,
            "tuning_seconds": sampler.cost.run_seconds,
            "sampling_seconds": draws.cost.run_seconds,
            "tuning_gradients": sampler.cost.gradients,
            "sampling_gradients": draws.cost.gradients,
        }
        record = {f"record/{name}": sampler.record[name] for name in ("objective", "final") if name in sampler.record}
        trace = {f"trace/{name}": curve for name, curve in draws.trace.items()}
        return result, {"draws": thinned, **record, **trace}


def _npz(arrays: dict[str, np.ndarray]) -> bytes:
    import io

    buffer = io.BytesIO()
    np.savez_compressed(buffer, **{name: np.asarray(array) for name, array in arrays.items()})  # type: ignore[arg-type]
    return buffer.getvalue()
