"""How wide P0 of a network's chain should be: E[log p] reached, and log-likelihood of held-out training rows.

The appendix's standard deviations times 0.1, 0.3 and 1, on two splits of each table, a tenth of the training rows held
out; test rows are not touched. Chains are a quarter as long as the study's.

    python -m benchmarks.network_start --out results/network-start
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np

from ergodic.bnn.chain import long_chain
from ergodic.bnn.splits import Splits
from ergodic.bnn.start import MeanField
from ergodic.datasets.tables import load_table
from ergodic.experiments.bnn import UCI
from ergodic.experiments.results import write_results

SPREADS = (0.1, 0.3, 1.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/network-start"))
    out = parser.parse_args().out
    rows, points = [], []
    for name in UCI:
        splits = Splits.of(load_table(name), range(2), validation=True)
        network = splits.network()
        for spread in SPREADS:
            method = replace(long_chain(splits.data.rows, 0.25), initial=MeanField(spread=spread))
            began = time.perf_counter()
            fitted = method.fit(network, splits.data, jax.random.key(0))
            positions, trace = method.sample(network, splits.data, fitted.params, jax.random.key(1), 100)
            seconds = time.perf_counter() - began
            held = float(np.mean([score["log_likelihood"] for score in splits.scores(network, positions)]))
            reached = float(np.mean(np.asarray(trace.expected_logdensity)[:, -1]))
            points.append({"table": name, "spread": spread, "held_out": held, "reached": reached, "seconds": seconds})
            rows.append([name, f"{spread:g}", f"{reached:.0f}", f"{held:.3f}", f"{seconds:.0f}"])
            print("  ".join(rows[-1]), flush=True)
    table = {
        "title": "How wide P0 is, on held-out training rows",
        "note": "Two splits of each table, chains a quarter as long as the study's.",
        "columns": ["table", "spread", "E[log p] reached", "held-out log-likelihood", "seconds"],
        "rows": rows,
    }
    write_results(
        out, "network-start", "python -m benchmarks.network_start", {"spreads": SPREADS}, {"points": points},
        tables=[table],
    )  # fmt: skip


if __name__ == "__main__":
    main()
