"""Tables of `ergodic bench bounds`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np

from ..harness.tables import Table
from .bound_cells import LENGTHS, Held, Reached
from .bound_models import Asked

WANTED = 0.02
"""What a bound shall be at most, at three times the default's gradients a draw at most."""


def all_tables(reached: Sequence[Reached], held: Sequence[Held], asked: Sequence[Asked]) -> list[Table]:
    """Those of the parts that were run."""
    return [
        *([reached_table(reached), cost_table(reached)] if reached else []),
        *([held_table(held)] if held else []),
        *([asked_table(asked)] if asked else []),
    ]


def reached_table(rows: Sequence[Reached]) -> Table:
    """The worst bound of several fits after one, two and three passes."""
    body = []
    for name, fits in _by_target(rows):
        told = [fit for fit in fits if fit["curve"]]
        curves = [[fit["curve"][k - 1] for fit in told] if len(told) == len(fits) else [] for k in LENGTHS]
        mean = max((fit["means"][LENGTHS[-1] - 1] for fit in told), default=None)
        far = max((fit["wasserstein"][LENGTHS[-1] - 1] for fit in told), default=None)
        met = bool(curves[-1]) and max(curves[-1]) <= WANTED
        why = "annealed" if any(fit["kind"] != "independent" for fit in fits) else "pairs never met"
        body.append(
            [
                name,
                f"{len(told)} of {len(fits)}",
                _range(fit["depths"][0] for fit in fits),
                *(f"{max(curve):.3f}" if curve else why for curve in curves),
                "" if mean is None else f"{mean:.4f}",
                "" if far is None else f"{far:.3g}",
                "yes" if met else "no",
            ]
        )
    passes = [f"{k} pass{'es' if k > 1 else ''}" for k in LENGTHS]
    columns = ["target", "bounds", "gradients a draw", *passes, "estimate", "W1", f"<= {WANTED}"]
    return Table.of(
        "Total variation from the target, at most",
        columns,
        body,
        f"95 % limits, the largest of the fits, for the chain gone through once, twice and three times (so at most "
        f"three times the default's gradients a draw); of {max(row['pairs'] for row in rows):,} pairs. 'estimate' and "
        "'W1' are after three passes: what the limit is one of, and the limit of the Wasserstein distance in spreads.",
    )


def cost_table(rows: Sequence[Reached]) -> Table:
    """What bounds cost, in gradients, beside tuning and the default's certificate."""
    body = []
    for name, fits in _by_target(rows):
        told = [fit for fit in fits if fit["pairs"]]
        pairs = [fit["following"] / fit["pairs"] / fit["depths"][0] for fit in told]
        both = [fit["certificate"] / fit["tuning"] for fit in fits]
        body.append(
            [
                name,
                ", ".join(sorted({fit["verdict"] for fit in fits})),
                _range(1000 * round(fit["tuning"] / 1000) for fit in fits),
                f"{np.median(both):.2f}",
                "" if not told else f"{np.median(pairs):.1f}",
                ", ".join("none" if fit["default"] is None else f"{fit['default']:.2f}" for fit in fits),
            ]
        )
    columns = ["target", "verdict", "tuning", "certificate / tuning", "a pair", "bound of the default"]
    return Table.of(
        "What bounds cost",
        columns,
        body,
        "Gradients of tuning; those of the default's certificate, its bound included, over them; of a pair of chains "
        "until it has met, in draws; and the bound that the default's certificate has for its draws, fit by fit.",
    )


def held_table(rows: Sequence[Held]) -> Table:
    """Bounds against the truth: those that are below it most often come first."""
    order = sorted(rows, key=lambda row: -row["below"])
    body = [
        [
            row["target"],
            row["chain"],
            row["passes"],
            f"{row['truth']:.4f} ± {row['error']:.4f}",
            f"{row['smallest']:.3f}",
            f"{row['median']:.3f}",
            f"{row['below']} of {row['bounds'] - row['none']}",
            row["none"],
        ]
        for row in order
    ]
    columns = ["target", "chain", "passes", "TV, from below", "smallest", "median", "below TV", "no bound"]
    return Table.of(
        "Bounds against the truth",
        columns,
        body,
        "'TV, from below' is P_T(A) - π(A) for a set A that other draws suggest, with its standard error, averaged "
        "over two fits. 'below TV' counts bounds that are more than 2.33 such errors below their fit's; one in twenty "
        "may be, so 6 of 50 are by a chance of 4 %. A chain that was cut starts from a P0 half as wide.",
    )


def asked_table(rows: Sequence[Asked]) -> Table:
    """Whether a distance was met, model by model; what was not comes first."""
    met = [row["bound"] is not None and row["verdict"] == "passed" for row in rows]
    order = sorted(zip(met, rows, strict=True), key=lambda pair: pair[0])
    body = [
        [
            row["target"],
            row["dim"],
            "met" if yes else row["verdict"],
            "none" if row["bound"] is None else f"{row['bound']:.3f}",
            row["default_depth"] or "",
            row["depth"] or "",
            row["default_seconds"],
            row["seconds"],
            row["reason"][:160],
        ]
        for yes, row in order
    ]
    columns = ["model", "d", "answer", "bound", "a draw before", "after", "fit s", "more s", "reason"]
    return Table.of(
        f"A distance of 0.05 asked of the models: {sum(met)} of {len(rows)} met",
        columns,
        body,
        "Gradients of a draw of the default's chain, and of the chain that was made as long as the distance asks; "
        "seconds of the default's fit, and what the distance took besides, on a core with other work beside it.",
    )


def _by_target(rows: Sequence[Reached]) -> Iterator[tuple[str, list[Reached]]]:
    return ((name, list(fits)) for name, fits in groupby(rows, key=lambda row: row["target"]))


def _range(values: Iterator[int]) -> str:
    few = sorted(set(values))
    return str(few[0]) if len(few) == 1 else f"{few[0]} to {few[-1]}"
