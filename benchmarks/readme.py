"""Tables of README.md and docs/results.md, from the benchmark's results. `python -m benchmarks.readme` writes them."""

from __future__ import annotations

import json
from pathlib import Path

PEERS = ("NUTS", "NumPyro NUTS", "nutpie", "ChEES", "MEADS", "LAPS")
BEGIN, END = "<!-- table: python -m benchmarks.readme -->\n", "<!-- end of table -->\n"


def cell(text: str) -> str:
    """Seconds as the README shows them: the fastest in bold, no seconds where the bias is too large."""
    if text.startswith("×"):
        return "×"
    if text == "not run":
        return "–"
    return f"**{text.removesuffix(' *')}**" if text.endswith("*") else text


def table(results: dict) -> str:
    tables = {shown["title"].split()[0]: shown for shown in results["tables"]}
    seconds, bias, depth = (
        {row[0]: dict(zip(tables[name]["columns"], row, strict=True)) for row in tables[name]["rows"]}
        for name in ("Seconds", "b2_max", "Sequential")
    )
    columns = ["target", "GEI", *PEERS, "GEI: b2_max", "depth", "LAPS depth"]
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    for name, row in seconds.items():
        shown = [name, *(cell(row[label]) for label in ("GEI", *PEERS)), bias[name]["GEI"]]
        shown += [depth[name][label].replace("not run", "–") for label in ("GEI", "LAPS")]
        lines.append("| " + " | ".join(shown) + " |")
    return "\n".join(lines) + "\n"


def bars(results: dict) -> str:
    """The bars as results.md shows them."""
    shown = results["tables"][0]
    lines = ["| " + " | ".join(shown["columns"]) + " |", "|" + "---|" * len(shown["columns"])]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in shown["rows"])]) + "\n"


def put(file: Path, text: str) -> None:
    """Replace what stands between the marks."""
    before, rest = file.read_text().split(BEGIN)
    file.write_text(before + BEGIN + text + END + rest.split(END)[1])


def main() -> None:
    results = json.loads(Path("results/posteriors/results.json").read_text())
    put(Path("README.md"), table(results))
    put(Path("docs/results.md"), bars(results))


if __name__ == "__main__":
    main()
