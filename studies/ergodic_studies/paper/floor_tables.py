"""The tables of the study of the entropy floor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypedDict

import numpy as np

from ..harness.tables import Table


class Known(TypedDict):
    """What is known of a target, exactly or from a long run."""

    entropy: float
    entropy_error: float
    expected_logdensity: float
    noise: float
    """What chance alone makes of the distance."""


class Outcome(TypedDict):
    """What one fit came to."""

    floor: float
    entropy: float
    """H(P0), tuned."""
    logdensity_error: float
    """E[log π*] over the draws, less what it should be."""
    distance: float
    """Sliced Wasserstein distance to exact draws; for posteriors the largest error of a mean in reference sds."""


class Studied(TypedDict):
    """What was found on one target."""

    dim: int
    start: float
    """H(P0) before tuning."""
    known: Known
    estimates: Sequence[Sequence[float]]
    """Ĥ and its error from the pilot, by seed."""
    again: Sequence[Sequence[float]]
    """The same along the tuned chain."""
    fits: dict[str, list[Outcome]]


Measure = Literal["distance", "logdensity_error"]


def estimate_table(results: dict[str, Studied]) -> Table:
    """H(π) as estimated before and after tuning, beside what is known."""
    rows = []
    for name, result in results.items():
        known = result["known"]
        spread = f" ± {known['entropy_error']:.2f}" if known["entropy_error"] else ""
        rows.append(
            [
                name,
                str(result["dim"]),
                f"{result['start']:.2f}",
                f"{known['entropy']:.2f}{spread}",
                *_estimate(result["estimates"], known),
                *_estimate(result["again"], known),
            ]
        )
    return Table.of(
        "H(π) in nats: known, estimated from P0, and along the tuned chain",
        ["target", "d", "H(P0)", "known", "before tuning", "z", "after tuning", "z"],
        rows,
        "Known: exact for the six synthetic targets, else by a long annealing run. Estimates: median over "
        "seeds ± median standard error; z: the largest distance from what is known, in standard errors of both.",
    )


def _estimate(estimates: Sequence[Sequence[float]], known: Known) -> tuple[str, str]:
    value, error = np.asarray(estimates, float).T
    z = np.abs(value - known["entropy"]) / np.hypot(error, known["entropy_error"])
    return f"{np.median(value):.2f} ± {np.median(error):.2f}", f"{z.max():.1f}"


def quality_table(results: dict[str, Studied], labels: list[str], synthetic: list[str], measure: Measure) -> Table:
    """A measure of the draws by floor, and how much worse than the best floor each is, over all targets."""
    median = {
        name: {label: float(np.median([outcome[measure] for outcome in result["fits"][label]])) for label in labels}
        for name, result in results.items()
    }
    least = {name: results[name]["known"]["noise"] if measure == "distance" else 0.02 for name in results}
    size = {name: {label: max(abs(value), least[name]) for label, value in row.items()} for name, row in median.items()}
    ratio = [
        np.exp(np.mean([np.log(size[name][label] / min(size[name].values())) for name in results])) for label in labels
    ]
    distance = measure == "distance"
    rows = [
        [name, *(_number(median[name][label], measure) for label in labels)]
        + ([f"{least[name]:.3f}"] if distance else [])
        for name in results
    ]
    rows.append(["× best", *(f"{value:.2f}" for value in ratio)] + ([""] if distance else []))
    if distance:
        title = "Distance to the target by floor"
        note = (
            f"Sliced Wasserstein distance on {', '.join(synthetic)}; on posteriors the largest error of a mean in "
            "reference sds. "
        )
    else:
        title, note = "Error of E[log π*] by floor", "Above zero: the chain overshoots. "
    note += "Medians over seeds. Last row: how many times the best floor's, geometric mean over targets"
    note += " (what is below the noise counts as the noise)." if distance else " (what is below 0.02 counts as 0.02)."
    columns = ["target", *labels] + (["noise"] if distance else [])
    return Table.of(title, columns, rows, note)


def _number(value: float, measure: Measure) -> str:
    if measure == "distance":
        return f"{value:.3f}"
    return f"{value:+.3f}" if abs(value) < 10 else f"{value:+.0f}"
