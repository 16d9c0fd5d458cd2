"""How HEI's settings were chosen: P0's scale, learning rate, constraint, gradient and iterations on the six targets.

    python -m ergodic_studies.bench.hei_settings --out results/settings

For each setting and target: the median over seeds of the signed error of -E[log π*], its largest size, and the median
sliced Wasserstein distance to exact draws. One setting serves all six targets; the choice is made from this table.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict, replace
from pathlib import Path

import jax
import numpy as np

import ergodic as eg
from ergodic.statistics.wasserstein import noise_floor, sliced_wasserstein
from ergodic.targets.synthetic import PAPER_SIX

from ..harness.results import write_results

DRAWS = 20_000
BASE = eg.HEI()


def variants(seeds: int) -> list[tuple[str, eg.HEI, int]]:
    """(label, method, seeds), the default first and with more seeds than the rest."""
    rows = [("default", BASE, 4 * seeds)]
    for constraint in ("keep", "project"):
        for scale in (1.0, 3**0.5, 2.0, 3.0):
            for rate in (0.05, 0.07, 0.1):
                method = replace(BASE, constraint=constraint, initial_scale=scale, learning_rate=rate)
                rows.append((f"{constraint}, scale {scale:.3g}, rate {rate:g}", method, seeds))
    rows.append(("full gradient", replace(BASE, gradient="full"), seeds))
    rows.append(("P0 not tuned", replace(BASE, tune_initial=False), seeds))
    rows.append(("unadjusted", replace(BASE, adjusted=False), seeds))
    rows += [(f"{n} iterations", replace(BASE, iterations=n), seeds) for n in (100, 300, 1000)]
    rows += [(f"T={n}", replace(BASE, steps=n), seeds) for n in (5, 20, 40)]
    return rows


def measure(method: eg.HEI, name: str, seeds: int) -> dict[str, float]:
    target = eg.targets.get(name)
    exact = -target.require_truth().expected_logdensity
    errors, distances, seconds = [], [], []
    for seed in range(seeds):
        fit_key, sample_key, exact_key = jax.random.split(jax.random.key(seed), 3)
        sampler = eg.fit(target, fit_key, method, progress=False)
        draws = sampler.sample(sample_key, DRAWS, progress=False)
        errors.append(-float(np.mean(draws.logdensity, dtype=np.float64)) - exact)
        distances.append(sliced_wasserstein(draws.unconstrained, target.draw_exact(exact_key, DRAWS)))
        seconds.append(sampler.cost.run_seconds)
    return {
        "error": round(float(np.median(errors)), 4),
        "largest error": round(float(np.max(np.abs(errors))), 4),
        "distance": round(float(np.median(distances)), 4),
        "tuning seconds": round(float(np.median(seconds)), 3),
        "seeds": seeds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    args = parser.parse_args()
    floors = {n: round(noise_floor(eg.targets.get(n).draw_exact, jax.random.key(99), DRAWS), 4) for n in PAPER_SIX}
    results = {"noise floor": floors, "rows": {}}
    print(f"{'setting':36s}" + "".join(f"{name:>22s}" for name in PAPER_SIX))
    print(f"{'(noise floor)':36s}" + "".join(f"{floors[name]:>22.3f}" for name in PAPER_SIX))
    for label, method, seeds in variants(args.seeds):
        row = results["rows"][label] = {name: measure(method, name, seeds) for name in PAPER_SIX}
        cells = (f"{c['error']:+.3f} ({c['largest error']:.2f}) {c['distance']:.3f}" for c in row.values())
        print(f"{label:36s}" + "".join(f"{cell:>22s}" for cell in cells), flush=True)
    config = {"draws": DRAWS, "seeds": args.seeds, "default": asdict(BASE)}
    write_results(args.out, "settings", "python -m ergodic_studies.bench.hei_settings", config, results)


if __name__ == "__main__":
    main()
