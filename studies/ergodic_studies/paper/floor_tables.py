"""The tables of the study of the entropy floor."""

from __future__ import annotations

from typing import Any

import numpy as np

Table = dict[str, Any]


def estimate_table(results: dict[str, Any]) -> Table:
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
    return {
        "title": "H(π) in nats: known, estimated from P0, and along the tuned chain",
        "note": "Known: exact for the six synthetic targets, else by a long annealing run. Estimates: median over "
        "seeds ± median standard error; z: the largest distance from what is known, in standard errors of both.",
        "columns": ["target", "d", "H(P0)", "known", "before tuning", "z", "after tuning", "z"],
        "rows": rows,
    }


def _estimate(estimates: list[Any], known: dict[str, float]) -> tuple[str, str]:
    value, error = np.asarray(estimates, float).T
    z = np.abs(value - known["entropy"]) / np.hypot(error, known["entropy_error"])
    return f"{np.median(value):.2f} ± {np.median(error):.2f}", f"{z.max():.1f}"


def quality_table(results: dict[str, Any], labels: list[str], synthetic: list[str], measure: str) -> Table:
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
    return {"title": title, "note": note, "columns": columns, "rows": rows}


def _number(value: float, measure: str) -> str:
    if measure == "distance":
        return f"{value:.3f}"
    return f"{value:+.3f}" if abs(value) < 10 else f"{value:+.0f}"


def markdown(table: Table) -> str:
    """A table as it goes into a document."""
    head = "| " + " | ".join(table["columns"]) + " |"
    rule = "|" + "---|" * len(table["columns"])
    body = ["| " + " | ".join(str(cell) for cell in row) + " |" for row in table["rows"]]
    return "\n".join([f"**{table['title']}**", "", head, rule, *body, "", table["note"]])
