"""`ergodic bench network-choices`: what held-out training rows say of a network's chain; test rows are not touched.

Two splits of each table, a tenth of the training rows held out.

- How wide P0 of the long chain should be: the appendix's standard deviations times 0.1, 0.3 and 1. Chains are a quarter
  as long as the study's.
- Whether what the appendix leaves open (Adam's rates, the first step sizes, runs per iteration, where variational
  inference starts) decides how far its own chain of 50 transitions and 3 leapfrogs gets.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import NamedTuple

import jax
import numpy as np

from ergodic.bnn.chain import long_chain

from ..harness.study import Report, Run, Study
from ..harness.tables import Table
from ..paper.bnn import CLOSER, UCI
from ..paper.bnn_methods import ALL_ROWS, Chain, finite, sampling
from ..paper.network_splits import Splits
from ..posteriors.uci_tables import load_table

SPREADS = (0.1, 0.3, 1.0)


@dataclass(frozen=True)
class Size:
    """How much is run."""

    tables: tuple[str, ...] = UCI
    closer: tuple[str, ...] = CLOSER
    """Tables on which what the appendix leaves open is looked at."""
    scale: float = 0.25
    """The long chain's length, as a part of the study's."""
    networks: int = 100
    hidden: tuple[int, ...] = (50,)


PRESETS = {"smoke": Size(("diabetes",), (), 0.01, 10, (5,)), "cpu": Size()}


def appendix() -> dict[str, Chain]:
    """The appendix's chain as the study sets it, and with other choices."""
    way = sampling(rows=1)[ALL_ROWS]
    assert isinstance(way, Chain)
    chain = way.method
    choices = {
        "the study's": chain,
        "steps first 0.01 to 0.025, as in section 4": replace(chain, step_size=(0.01, 0.025)),
        "steps first 0.0005 to 0.001": replace(chain, step_size=(0.0005, 0.001)),
        "tuning at rate 0.05": replace(chain, learning_rate=0.05),
        "tuning at rate 0.005": replace(chain, learning_rate=0.005),
        "16 runs an iteration": replace(chain, particles=16),
        "VI at rate 0.1": replace(chain, vi_learning_rate=0.1),
        "VI at rate 0.02": replace(chain, vi_learning_rate=0.02),
        "VI from standard deviations 0.01": replace(chain, vi_scale=0.01),
    }
    return {choice: replace(way, method=method) for choice, method in choices.items()}


class Judged(NamedTuple):
    """One choice on one table."""

    table: str
    choice: str
    held_out: float
    """Log-likelihood of the rows that were held out."""
    reached: float
    """E[log p] at the end of the chain."""
    acceptance: float
    seconds: float


def judged(name: str, choice: str, splits: Splits, way: Chain, size: Size) -> Judged:
    """Tune, draw networks on every split, and score the rows held out."""
    network, began = splits.network(size.hidden), time.perf_counter()
    positions, curves = way.sample(network, splits.data, jax.random.key(0), size.networks)
    seconds = time.perf_counter() - began
    held = np.mean([score["log_likelihood"] for score in splits.scores(network, finite(positions))])
    reached = np.mean(curves["tuned"][:, -1])
    return Judged(name, choice, float(held), float(reached), float(np.mean(curves["acceptance"])), seconds)


def network_choices(run: Run[Size]) -> Report:
    """How wide the long chain's P0 should be, and what the appendix leaves open, judged on held-out training rows."""
    size = run.size
    widths, opened = [], []
    for name in size.tables:
        splits = Splits.of(load_table(name), range(2), validation=True)
        long = long_chain(splits.data.rows, size.scale)
        chosen = {f"{spread:g}": Chain(long, spread) for spread in SPREADS}
        for choice, way in chosen.items():
            widths.append(judged(name, choice, splits, way, size))
            run.say(_line(widths[-1]))
        for choice, way in appendix().items() if name in size.closer else ():
            opened.append(judged(name, choice, splits, way, size))
            run.say(_line(opened[-1]))
    note = "Two splits of each table, a tenth of the training rows held out."
    tables = [
        _table(
            "How wide P0 of the long chain is", f"{note} Chains a quarter as long as the study's.", "spread", widths
        ),
        _table("What the appendix leaves open", f"{note} 50 transitions of 3 leapfrogs.", "choice", opened),
    ]
    results = {"widths": [point._asdict() for point in widths], "open": [point._asdict() for point in opened]}
    return Report(results, tables, config={"preset": run.preset.name, "spreads": SPREADS})


def _line(point: Judged) -> str:
    return f"{point.table:9s} {point.choice:45s} held-out log-likelihood {point.held_out:.3f}  {point.seconds:.0f} s"


def _table(title: str, note: str, choice: str, points: list[Judged]) -> Table:
    rows = [[p.table, p.choice, f"{p.held_out:.3f}", f"{p.reached:,.0f}", f"{p.acceptance:.2f}"] for p in points]
    columns = ["table", choice, "held-out log-likelihood", "E[log p] reached", "acceptance"]
    return Table.of(title, columns, rows, note)


STUDY = Study("network-choices", "bench", PRESETS, network_choices)
