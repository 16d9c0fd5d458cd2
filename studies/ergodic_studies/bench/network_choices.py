"""What training rows that are held out say of a network's chain; test rows are not touched.

Two splits of each table, a tenth of the training rows held out.

- How wide P0 of the long chain should be: the appendix's standard deviations times 0.1, 0.3 and 1. Chains are a quarter
  as long as the study's.
- Whether what the appendix leaves open (Adam's rates, the first step sizes, runs an iteration, where variational
  inference starts) decides how far its own chain of 50 transitions and 3 leapfrogs gets.

    python -m ergodic_studies.bench.network_choices --out results/network-choices
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ergodic.bnn.chain import NetworkChain, long_chain
from ergodic.bnn.start import MeanField
from ergodic_studies.posteriors.uci_tables import load_table

from ..harness.results import write_results
from ..paper.bnn import CLOSER, UCI
from ..paper.bnn_methods import finite, sampling
from ..paper.network_splits import Splits

SPREADS = (0.1, 0.3, 1.0)


def appendix() -> dict[str, NetworkChain]:
    """The study's choice, and others."""
    chain: NetworkChain = sampling(rows=1)["HEI, appendix"].method
    return {
        "the study's": chain,
        "steps first 0.01 to 0.025, as in section 4": replace(chain, step_size=(0.01, 0.025)),
        "steps first 0.0005 to 0.001": replace(chain, step_size=(0.0005, 0.001)),
        "tuning at rate 0.05": replace(chain, learning_rate=0.05),
        "tuning at rate 0.005": replace(chain, learning_rate=0.005),
        "16 runs an iteration": replace(chain, particles=16),
        "VI at rate 0.1": replace(chain, initial=MeanField(learning_rate=0.1)),
        "VI at rate 0.02": replace(chain, initial=MeanField(learning_rate=0.02)),
        "VI from standard deviations 0.01": replace(chain, initial=MeanField(first_scale=0.01)),
    }


def judged(name: str, choice: str, splits: Splits, method: NetworkChain) -> dict[str, Any]:
    """Tune, draw 100 networks a split, score the rows held out."""
    network, began = splits.network(), time.perf_counter()
    fitted = method.fit(network, splits.data, jax.random.key(0))
    positions, trace = method.sample(network, splits.data, fitted.params, jax.random.key(1), 100)
    seconds = time.perf_counter() - began
    held = np.mean([score["log_likelihood"] for score in splits.scores(network, finite(positions))])
    reached = np.mean(np.asarray(trace.expected_logdensity)[:, -1])
    point = {
        "table": name,
        "choice": choice,
        "held_out": float(held),
        "reached": float(reached),
        "acceptance": float(np.mean(trace.acceptance)),
        "seconds": seconds,
    }
    print(point, flush=True)
    return point


def shown(title: str, note: str, choice: str, points: list[dict[str, Any]]) -> dict[str, Any]:
    """A table of them."""
    columns = ["table", choice, "held-out log-likelihood", "E[log p] reached", "acceptance"]
    rows = [
        [p["table"], p["choice"], f"{p['held_out']:.3f}", f"{p['reached']:,.0f}", f"{p['acceptance']:.2f}"]
        for p in points
    ]
    return {"title": title, "note": note, "columns": columns, "rows": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/network-choices"))
    out = parser.parse_args().out
    widths, opened = [], []
    for name in UCI:
        splits = Splits.of(load_table(name), range(2), validation=True)
        long = long_chain(splits.data.rows, 0.25)
        for spread in SPREADS:
            widths.append(judged(name, f"{spread:g}", splits, replace(long, initial=MeanField(spread=spread))))
        for choice, method in appendix().items() if name in CLOSER else ():
            opened.append(judged(name, choice, splits, method))
    note = "Two splits of each table, a tenth of the training rows held out."
    tables = [
        shown("How wide P0 of the long chain is", f"{note} Chains a quarter as long as the study's.", "spread", widths),
        shown("What the appendix leaves open", f"{note} 50 transitions of 3 leapfrogs.", "choice", opened),
    ]
    write_results(
        out, "network-choices", "python -m ergodic_studies.bench.network_choices", {"spreads": SPREADS},
        {"widths": widths, "open": opened}, tables=tables,
    )  # fmt: skip


if __name__ == "__main__":
    main()
