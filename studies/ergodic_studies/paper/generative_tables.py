"""Tables of the generative study, from its cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from ..harness.tables import Table
from .generative_cells import Mark, Result
from .generative_timing import PAPER as PAPER_SECONDS
from .generative_timing import Epoch

PAPER = (
    ("VAE (Salimans et al. 2015)", None, None, -83.20, None),
    ("HVI, 16 leapfrogs (Salimans et al. 2015)", None, None, -81.94, None),
    ("HVAE, 20 leapfrogs (Caterini et al. 2018)", None, None, -84.78, None),
    ("VAE", 6.0, 3000, -83.57, 50),
    ("HVI, 16 leapfrogs", 6.0, 360, -83.68, 48),
    ("HVAE, 16 leapfrogs", 6.0, 360, -84.22, 48),
    ("HEI, T = 30", 1.65, 54, -83.17, 48),
    ("HEI, T = 30", 3.0, 100, -82.76, 46),
    ("HEI, T = 30", 6.0, 200, -82.65, 45),
    ("HEI, T = 30", 12.0, 400, -81.43, 38),
    ("HEI, T = 15", 8.0, 540, -83.30, 48),
)
"""Table 4: encoder, training hours, epochs, test log-likelihood and ESS."""


Measure = Literal["seconds", "epochs", "error", "error_over_images", "effective"]


def _of(cells: Sequence[Result], label: str) -> list[Mark]:
    return [cell["marks"][-1] for cell in cells if cell["label"] == label]


def _mean(rows: Sequence[Mark], name: Measure) -> float:
    return float(np.mean([row[name] for row in rows]))


def likelihood_table(cells: Sequence[Result], labels: Sequence[str], chains: int, data: str) -> Table:
    """Table 4: test log-likelihood at the end of the budget, and how far it can be trusted."""
    rows = []
    for label in labels:
        group = _of(cells, label)
        if not group:
            continue
        values = [row["log_likelihood"] for row in group]
        spread = f" ± {np.std(values, ddof=1):.3f}" if len(values) > 1 else ""
        bounds = [row["importance_bound"] for row in group if "importance_bound" in row]
        width = [row["sandwich"] for row in group if "sandwich" in row]
        rows.append(
            [
                label,
                f"{_mean(group, 'seconds') / 3600:.3f}",
                f"{_mean(group, 'epochs'):,.1f}",
                f"{np.mean(values):.3f}{spread}",
                f"{_mean(group, 'error'):.3f}",
                f"{_mean(group, 'error_over_images'):.2f}",
                f"{_mean(group, 'effective'):.1f}",
                f"{np.mean(bounds):.2f}" if bounds else "",
                f"{np.mean([w['width'] for w in width]):.2f}" if width else "",
            ]
        )
    if data == "mnist":
        rows += [
            [f"paper: {name}", *(_plain(v) for v in (hours, epochs)), f"{value:.2f}", "", "", _plain(ess), "", ""]
            for name, hours, epochs, value, ess in PAPER
        ]
    return Table.of(
        f"Table 4: test log-likelihood, {data}",
        ["encoder", "hours", "epochs", "log p(y)", "error", "over images", "ESS", "IW", "sandwich"],
        rows,
        "log p(y): mean over seeds ± their standard deviation, by annealed importance sampling; error: its "
        f"Monte Carlo error; over images: standard error from the choice of images; ESS of {chains} chains (the "
        "paper's of 100); IW: importance-weighted bound of the encoder; sandwich: upper minus lower bound on images "
        "that the model made up.",
    )


def _plain(value: float | int | None) -> str:
    return "" if value is None else f"{value:g}"


def paired_table(cells: Sequence[Result], labels: Sequence[str], data: str) -> Table:
    """Differences between ways of training on the same images: each against the first label."""
    rows = []
    for label in labels[1:]:
        pairs = _pairs(cells, labels[0], label)
        if not pairs:
            continue
        differences = [float(np.mean(a - b)) for a, b, _ in pairs]
        noise = [error for _, _, error in pairs]
        images = [float(np.std(a - b, ddof=1) / np.sqrt(len(a))) for a, b, _ in pairs]
        rows.append(
            [
                label,
                f"{np.mean(differences):+.3f}",
                ", ".join(f"{value:+.3f}" for value in differences),
                f"{np.mean(noise):.3f}",
                f"{np.mean(images):.3f}",
            ]
        )
    return Table.of(
        f"log p(y) against {labels[0]}, paired, {data}",
        ["encoder", "difference", "seed by seed", "evaluation error", "over images"],
        rows,
        "Same test images and seeds, at the end of the budget. Evaluation error: both models' Monte Carlo "
        "errors together; over images: standard error of the paired difference.",
    )


def _pairs(cells: Sequence[Result], first: str, label: str) -> list[tuple[np.ndarray, np.ndarray, float]]:
    """Of every seed that both have: the values of ``label``, those of ``first``, and their combined error."""
    by_seed = {name: {c["seed"]: c["marks"][-1] for c in cells if c["label"] == name} for name in (first, label)}
    pairs = []
    for seed in sorted(by_seed[first].keys() & by_seed[label].keys()):
        a, b = by_seed[label][seed], by_seed[first][seed]
        pairs.append((np.array(a["values"]), np.array(b["values"]), float(np.hypot(a["error"], b["error"]))))
    return pairs


def _seconds(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def timing_table(rows: Sequence[Epoch]) -> Table:
    """Table 3, right: seconds per epoch in both modes, beside the paper's ratio."""
    shown = []
    for row in rows:
        full, frozen = PAPER_SECONDS.get(row["steps"], (float("nan"), float("nan")))
        shown.append(
            [
                f"T = {row['steps']}",
                _seconds(row["full"]),
                _seconds(row["frozen"]),
                f"{row['ratio']:.2f}",
                f"{row['images_per_second']:,.0f}",
                f"{full / frozen:.1f}",
            ]
        )
    return Table.of(
        "Table 3, right: seconds per epoch of training with a chain",
        ["chain", "full gradient", "frozen force", "ratio", "images a second", "paper's ratio"],
        shown,
        "5 leapfrogs per transition; both modes in one run, taking turns. Images per second: frozen force.",
    )
