"""`ergodic bench documents`: writes the tables of the documents from the committed results.

A table stands between ``<!-- NAME: ergodic bench documents -->`` and ``<!-- end of table -->``.
"""

from __future__ import annotations

import json
from pathlib import Path

from ergodic.cli.console import say

from ..harness.tables import Table, Value

ROOT = Path(__file__).resolve().parents[3]
"""The checkout."""
RESULTS = ROOT / "studies" / "results"
PEERS = ("NUTS", "NumPyro NUTS", "nutpie", "ChEES", "MEADS", "LAPS")
END = "<!-- end of table -->\n"
STUDIES = {
    "digits": "generative-digits",
    "mnist": "generative-mnist",
    "bnn": "bnn",
    "choices": "network-choices",
    "models": "models",
    "bounds": "bounds",
    "charts": "charts",
}
"""Of these, table number i of ``studies/results/FOLDER``, where it was recorded, is called ``"NAME i"``."""


def documents() -> None:
    """Write the tables of README.md and docs/ from studies/results."""
    posteriors = tables_of("posteriors")
    named = {"posteriors": summary(posteriors), "bars": posteriors[0]}
    recorded = {name: folder for name, folder in STUDIES.items() if (RESULTS / folder / "results.json").is_file()}
    for name, folder in recorded.items():
        named |= {f"{name} {index}": table for index, table in enumerate(tables_of(folder))}
    for file in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        before = file.read_text()
        after = before
        for name, table in named.items():
            after = put(after, name, table.markdown())
        if after != before:
            file.write_text(after)
            say(f"wrote {file.relative_to(ROOT)}")


def tables_of(folder: str) -> list[Table]:
    """The tables of a study's committed results."""
    document = json.loads((RESULTS / folder / "results.json").read_text())
    return [Table.read(record) for record in document["tables"]]


def put(text: str, name: str, table: str) -> str:
    """The document with a table between its marks; as it was where it has no such marks."""
    begin = f"<!-- {name}: ergodic bench documents -->\n"
    before, found, rest = text.partition(begin)
    return before + begin + table + END + rest.split(END, 1)[1] if found else text


def summary(tables: list[Table]) -> Table:
    """The README's table: seconds of GEI and its peers, and GEI's bias and depth."""
    by_title = {table.title.split()[0]: table for table in tables}
    seconds, bias, depth = (_by_target(by_title[name]) for name in ("Seconds", "b2_max", "Sequential"))
    rows = [
        [
            name,
            *(_seconds(str(row[label])) for label in ("GEI", *PEERS)),
            bias[name]["GEI"],
            *(str(depth[name][label]).replace("not run", "–") for label in ("GEI", "LAPS")),
        ]
        for name, row in seconds.items()
    ]
    return Table.of("Posteriors", ["target", "GEI", *PEERS, "GEI: b2_max", "depth", "LAPS depth"], rows)


def _by_target(table: Table) -> dict[str, dict[str, Value]]:
    return {str(row[0]): dict(zip(table.columns, row, strict=True)) for row in table.rows}


def _seconds(text: str) -> str:
    """Seconds as the README shows them: the fastest in bold, no seconds where the bias is too large."""
    if text.startswith("×"):
        return "×"
    if text == "not run":
        return "–"
    return f"**{text.removesuffix(' *')}**" if text.endswith("*") else text
