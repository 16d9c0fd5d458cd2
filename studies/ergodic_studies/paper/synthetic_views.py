"""What the report page's interactive view shows: a target's contours, and an ensemble on its way from P0 to P_T."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TypedDict

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ergodic import targets
from ergodic.chain import ChainParams, Trace, path
from ergodic.kernels import HMC
from ergodic.kernels.affine import AffineHMC
from ergodic.runtime.files import write_atomically
from ergodic.runtime.programs import compiled
from ergodic.statistics.wasserstein import noise_floor, sliced_wasserstein
from ergodic.target import Density
from ergodic.targets.synthetic import SYNTHETIC

SHOWN = 400
MEASURED = 4000
_GRID = 100


class TargetView(TypedDict):
    """A target's contours: log π* on a grid over a box."""

    title: str
    box: list[list[float]]
    shape: list[int]
    logdensity: list[float]
    expected_logdensity: float


class PathView(TypedDict):
    """Some runs of a chain at every t, and averages over a larger ensemble."""

    target: str
    method: str
    steps: list[int]
    x: list[list[float]]
    y: list[list[float]]
    expected_logdensity: list[float]
    acceptance: list[float | None]
    """None at t = 0, before the first transition."""
    distance: list[float]
    noise_floor: float


def target_view(name: str) -> TargetView:
    """log π* on a grid over the part worth looking at."""
    entry, target = SYNTHETIC[name], targets.get(name)
    (x0, x1), (y0, y1) = entry.view
    grid = np.stack(np.meshgrid(np.linspace(x0, x1, _GRID), np.linspace(y0, y1, _GRID), indexing="ij"), axis=-1)
    values = jax.jit(jax.vmap(target.density))(jnp.asarray(grid.reshape(-1, 2), target.dtype))
    return {
        "title": f"({entry.letter}) {entry.title}" if entry.letter else entry.title,
        "box": [list(side) for side in entry.view],
        "shape": [_GRID, _GRID],
        "logdensity": np.round(np.asarray(values, np.float64), 3).tolist(),
        "expected_logdensity": target.require_truth().expected_logdensity,
    }


def chain_view(name: str, label: str, kernel: HMC | AffineHMC, params: ChainParams, key: Array) -> PathView:
    """Some runs of a chain, and at every t E[log π*], acceptance and a larger ensemble's distance to exact draws."""
    target = targets.get(name)
    run_key, exact_key, floor_key = jax.random.split(key, 3)
    program = compiled(_path, (target.density, kernel, MEASURED), params, run_key)
    positions, trace = jax.device_get(program(params, run_key))
    exact = target.draw_exact(exact_key, MEASURED)
    return {
        "target": name,
        "method": label,
        "steps": list(range(len(positions))),
        "x": np.round(positions[:, :SHOWN, 0].astype(np.float64), 3).tolist(),
        "y": np.round(positions[:, :SHOWN, 1].astype(np.float64), 3).tolist(),
        "expected_logdensity": [float(v) for v in trace.expected_logdensity],
        "acceptance": [None, *(float(v) for v in trace.acceptance)],
        "distance": [sliced_wasserstein(frame, exact) for frame in positions],
        "noise_floor": noise_floor(target.draw_exact, floor_key, MEASURED),
    }


def write_views(out: Path, paths: list[PathView]) -> Path:
    """Write ``out/views.json``: the paths, and the targets they are of."""
    names = list(dict.fromkeys(view["target"] for view in paths))
    document = {"targets": {name: target_view(name) for name in names}, "paths": paths}
    write_atomically(out / "views.json", json.dumps(document).encode())
    return out / "views.json"


def _path(
    density: Density, kernel: HMC | AffineHMC, particles: int, params: ChainParams, key: Array
) -> tuple[Array, Trace]:
    return path(density.batched, kernel, params, key, particles)
