"""Cells of the synthetic study: one method on one target with one seed, measured against exact draws.

Keys come from the seed and the cell's names, so that a cell gives the same draws whatever ran before it.
"""

from __future__ import annotations

import zlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypedDict

import jax
import numpy as np

from ergodic import targets
from ergodic.draws import WeightedDraws
from ergodic.methods import GHMC, HAIS, HEI, HVI, LAPS, NUTS, MeanField, Rejection
from ergodic.statistics.wasserstein import sliced_wasserstein

from ..harness.cells import Cell, read_arrays, write_arrays

COMPARED = 20_000
"""Draws that enter a sliced Wasserstein distance, the same number for every method."""
Compared = HVI | HEI | GHMC | HAIS | Rejection | MeanField | NUTS | LAPS
"""A method of the study."""


class Measured(TypedDict):
    """What was measured of one method on one target with one seed."""

    label: str
    target: str
    seed: int
    draws: int
    kind: str
    estimate: float
    """-E[log π*] over the draws."""
    distance: float
    """Sliced Wasserstein distance to exact draws."""
    effective_size: float
    log_z: list[float] | None
    compile_seconds: float
    tuning_seconds: float
    sampling_seconds: float
    tuning_gradients: int
    sampling_gradients: int


@dataclass(frozen=True)
class Trial:
    """What is measured: a label for the method, the method, a target, a seed and a number of draws."""

    label: str
    method: Compared
    target: str
    seed: int
    draws: int

    def cell(self) -> Cell[Measured]:
        """The trial as a cell; some draws, the trace and the training record are kept beside it."""
        settings = [self.method.name, asdict(self.method), self.draws]
        return Cell((self.target, self.label, self.seed), settings, self.run)

    def arrays(self, folder: Path) -> dict[str, np.ndarray]:
        """Some draws, the trace and the training record of a finished trial."""
        return read_arrays(folder / self.cell().name)

    def run(self, path: Path) -> Measured:
        """Fit, draw and measure; arrays are written before the cell is."""
        target = targets.get(self.target)
        name = zlib.crc32(f"{self.label}/{self.target}".encode())
        key = jax.random.fold_in(jax.random.key(self.seed), name)
        fit_key, sample_key, exact_key, resample_key = jax.random.split(key, 4)
        sampler = self.method.fit(target, fit_key, progress=None)
        draws = sampler.sample(sample_key, self.draws, weighted=sampler.kind == "weighted", progress=None)
        size = min(COMPARED, self.draws)
        shown = draws.resample(resample_key, size) if isinstance(draws, WeightedDraws) else draws
        thinned = shown.unconstrained[np.linspace(0, len(shown) - 1, size).astype(int)]
        record = {f"record/{name}": sampler.record[name] for name in ("objective", "final") if name in sampler.record}
        trace = {f"trace/{name}": curve for name, curve in draws.trace.items()}
        write_arrays(path, {"draws": thinned, **record, **trace})
        return {
            "label": self.label,
            "target": self.target,
            "seed": self.seed,
            "draws": self.draws,
            "kind": str(draws.kind),
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
