"""Tables of the network study, from its cells."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..harness.tables import Table
from ..posteriors.uci_tables import Table as Data
from .bnn_cells import Judged
from .bnn_methods import ALL_ROWS, LONG

PUBLISHED = {
    "paper: HEI": (("-2.17 ± 0.07", "-0.47 ± 0.06", "-2.71 ± 0.03", "-0.71 ± 0.03")),
    "paper: SGHMC, best average": ("-3.47 ± 0.51", "-13.58 ± 0.98", "-4.87 ± 0.05", "-1.82 ± 0.75"),
    "paper: SGHMC, tuned a table": ("-2.49 ± 0.15", "-1.75 ± 0.19", "-4.16 ± 0.72", "-1.29 ± 0.28"),
    "paper: SGHMC, scale-adapted": ("-2.54 ± 0.04", "-1.11 ± 0.08", "-3.38 ± 0.24", "-1.04 ± 0.17"),
    "PBP": ("-2.57", "-1.63", "-3.16", "-0.97"),
    "MC dropout (tuned grid)": ("-2.40", "-1.25", "-2.93", "-0.93"),
    "deep ensembles": ("-2.41", "-1.18", "-3.06", "-0.94"),
}
"""Table 5 of the paper, and what others published for one hidden layer of 50: Boston, Yacht, Concrete, Wine."""
ORDER = ("boston", "yacht", "concrete", "wine")


def _of(cells: Sequence[Judged], table: str, label: str) -> Judged | None:
    return next((cell for cell in cells if cell["table"] == table and cell["label"] == label), None)


def _values(cells: Sequence[Judged], table: str, label: str, measure: str = "log_likelihood") -> np.ndarray:
    cell = _of(cells, table, label)
    return np.array([score[measure] for score in cell["scores"]] if cell else [])


def _mean(values: np.ndarray) -> str:
    if not len(values):
        return ""
    error = f" ± {values.std(ddof=1) / np.sqrt(len(values)):.2f}" if len(values) > 1 else ""
    return f"{values.mean():.2f}{error}"


def _seconds(cells: Sequence[Judged], table: str, label: str) -> str:
    cell = _of(cells, table, label)
    return f"{cell['processor_seconds']:,.0f}" if cell else ""


def score_table(cells: Sequence[Judged], tables: Sequence[str], labels: Sequence[str]) -> Table:
    """Table 5: test log-likelihood in the target's own units, mean and standard error over splits; RMSE, coverage."""
    rows: list[list[str]] = []
    for label in labels:
        rows.append([label, *(_mean(_values(cells, name, label)) for name in tables)])
        rows.append(["· RMSE", *(_mean(_values(cells, name, label, "rmse")) for name in tables)])
        covered = [
            [_values(cells, name, label, measure) for measure in ("coverage_50", "coverage_90")] for name in tables
        ]
        shown = [" / ".join(f"{100 * v.mean():.0f} %" for v in pair) if len(pair[0]) else "" for pair in covered]
        rows.append(["· in 50 and 90 % intervals", *shown])
        rows.append(["· processor seconds", *(_seconds(cells, name, label) for name in tables)])
        found = [_of(cells, name, label) for name in tables]
        away = [None if cell is None else cell.get("away") for cell in found]
        if any(away):
            rows.append(["· networks that ran away", *("" if part is None else f"{part:.1%}" for part in away)])
    for label, values in PUBLISHED.items():
        by_name = dict(zip(ORDER, values, strict=True))
        if labels and set(tables) & set(by_name):
            rows.append([label, *(by_name.get(name, "") for name in tables)])
    return Table.of(
        "Table 5: test log-likelihood of Bayesian networks",
        ["", *tables],
        rows,
        "Mean and standard error over splits, of the mixture over sampled networks, in the target's own units. "
        "Processor seconds of all splits, cores added up: compiling, tuning and drawing. "
        "Networks that ran away (a weight of 100) are judged as networks of zeros.",
    )


def difference_table(cells: Sequence[Judged], tables: Sequence[str], labels: Sequence[str]) -> Table:
    """The long chain minus every other, split by split: mean, standard error."""
    rows = []
    for label in labels:
        if label == LONG:
            continue
        shown = []
        for name in tables:
            ours, other = _values(cells, name, LONG), _values(cells, name, label)
            if not len(ours) or len(ours) != len(other):
                shown.append("")
                continue
            gap = ours - other
            shown.append(f"{gap.mean():+.3f} ± {gap.std(ddof=1) / np.sqrt(len(gap)):.3f}")
        rows.append([label, *shown])
    return Table.of(
        "The long chain's log-likelihood minus the others', paired over splits",
        ["against", *tables],
        rows,
        "Mean and standard error of the difference on the same splits.",
    )


def exact_table(cells: Sequence[Judged], exact: str) -> Table:
    """Our chains against long runs on the splits that have one; how far the long runs' chains agree."""
    rows = []
    for long in (cell for cell in cells if cell["label"] == exact):
        for label in (LONG, ALL_ROWS):
            ours = _of(cells, long["table"], label)
            if ours is None:
                continue
            for number, (score, sd) in enumerate(zip(long["scores"], long["sd"], strict=True)):
                agreed = long["agreement"][number]
                mine = ours["scores"][number]["log_likelihood"]
                rows.append(
                    [
                        f"{long['table']}, split {number}",
                        label,
                        f"{score['log_likelihood']:.3f}",
                        f"{mine:.3f}",
                        f"{mine - score['log_likelihood']:+.3f}",
                        f"{np.corrcoef(sd, ours['sd'][number])[0, 1]:.3f}",
                        f"{np.mean(ours['sd'][number]) / np.mean(sd):.2f}",
                        f"{agreed['rhat_median']:.3f} / {agreed['rhat_max']:.3f}",
                        f"{agreed['effective_median']:.0f}",
                    ]
                )
    return Table.of(
        "Against long runs of NUTS",
        [
            "",
            "chain",
            "NUTS",
            "ours",
            "difference",
            "sd: correlation",
            "ratio",
            "NUTS: R-hat, largest",
            "effective draws",
        ],
        rows,
        "Log-likelihood of test rows; correlation and ratio of predictive standard deviations over test rows. "
        "R-hat and effective draws of f(x; w) on test rows and of the noise, four chains.",
    )


def ablation_table(cells: Sequence[Judged], labels: Sequence[str]) -> Table:
    """What one change does to the long chain, on the same splits."""
    rows = []
    for cell in (cell for cell in cells if cell["label"] in labels):
        ours = _of(cells, cell["table"], LONG)
        if ours is None:
            continue
        changed = np.array([score["log_likelihood"] for score in cell["scores"]])
        plain = np.array([score["log_likelihood"] for score in ours["scores"]])[: len(changed)]
        rows.append(
            [
                cell["table"],
                cell["label"].removeprefix(f"{LONG}, "),
                f"{changed.mean():.3f}",
                f"{(changed - plain).mean():+.3f}",
                f"{np.mean([score['rmse'] for score in cell['scores']]):.3f}",
                f"{cell['curves']['tuned'][-1]:,.0f}",
                f"{np.mean(cell['curves']['acceptance']):.2f}",
            ]
        )
    return Table.of(
        "The long chain with one thing changed",
        ["table", "change", "log-likelihood", "difference", "RMSE", "E[log p] at the end", "acceptance"],
        rows,
        "Mean over the first splits; the difference is to the long chain on the same ones.",
    )


def data_table(tables: Sequence[Data]) -> Table:
    """What is learnt from, and how many test rows were seen in training."""
    rows = [
        [table.name, f"{len(table.y):,}", str(table.X.shape[1]), str(len(table.train_index)), f"{table.copied:.1%}"]
        for table in tables
    ]
    return Table.of(
        "The data",
        ["table", "rows", "features", "splits", "copies"],
        rows,
        "A copy is a test row that stands among the training rows too, target and all; mean over splits.",
    )
