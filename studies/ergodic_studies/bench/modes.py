"""Weights of separate modes by default, and log Z against its truth. `python -m ergodic_studies.bench.modes`."""

from __future__ import annotations

import argparse
from pathlib import Path

import jax
import numpy as np

import ergodic as eg
from ergodic.diagnostics.evidence import evidence
from ergodic.targets.classics import MODE_CENTRES

from ..harness.results import write_results

DRAWS = 50_000
KNOWN = (
    *("gaussian", "laplace", "dual-moon", "ring", "wave1", "wave2", "wave3", "rosenbrock", "banana", "unequal-modes"),
    *("student-t", "ill-conditioned", "ill-conditioned-rotated"),
)


def mode_of(name: str, x: np.ndarray) -> np.ndarray:
    """Which mode each draw is nearest to."""
    if name == "ring":
        return np.round(np.arctan2(x[:, 1], x[:, 0]) / (2 * np.pi / 7)).astype(int) % 7
    return np.argmin(np.linalg.norm(x[:, None] - np.asarray(MODE_CENTRES)[None], axis=-1), axis=1)


def weights(name: str, truth: np.ndarray, seeds: int) -> dict:
    """The largest relative error of a mode's weight, seed by seed."""
    target, rows = eg.targets.get(name), []
    for seed in range(seeds):
        sampler = eg.fit(target, jax.random.key(seed))
        draws = sampler.sample(jax.random.key(100 + seed), DRAWS, progress=False)
        mode = mode_of(name, draws.unconstrained)
        found = np.sort([draws.weights[mode == k].sum() for k in range(len(truth))])[::-1]
        error = np.max(np.abs(found / np.sort(truth)[::-1] - 1))
        verdict = sampler.certificate.verdict
        rows.append(
            {"weights": np.round(found, 4).tolist(), "error": float(error), "kind": draws.kind, "verdict": verdict}
        )
        print(name, rows[-1], flush=True)
    return {"target": name, "largest_error": max(row["error"] for row in rows), "seeds": rows}


def log_z(name: str, seed: int) -> dict:
    """log Z, its error, and how many errors it is off."""
    target = eg.targets.get(name)
    found = evidence(eg.GEI(certify=False).fit(target, jax.random.key(seed)), jax.random.key(50 + seed), 10_000)
    truth = target.require_truth().log_z
    row = {"target": name, "seed": seed, "log_z": found.log_z, "error": found.error, "truth": truth}
    row["errors_off"] = (found.log_z - truth) / found.error
    print({key: round(value, 4) if isinstance(value, float) else value for key, value in row.items()}, flush=True)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/modes"))
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    results = {
        "weights": [
            weights("unequal-modes", np.array([0.6, 0.3, 0.1]), options.seeds),
            weights("ring", np.full(7, 1 / 7), options.seeds),
        ],
        "log_z": [log_z(name, seed) for name in KNOWN for seed in range(2)],
    }
    write_results(
        options.out, "modes", "python -m ergodic_studies.bench.modes", {"seeds": options.seeds, "draws": DRAWS}, results
    )


if __name__ == "__main__":
    main()
