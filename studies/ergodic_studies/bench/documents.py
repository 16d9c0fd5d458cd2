"""Tables of README.md and docs/results.md, from the benchmark's results.

python -m ergodic_studies.bench.documents
"""

from __future__ import annotations

import json
from pathlib import Path

PEERS = ("NUTS", "NumPyro NUTS", "nutpie", "ChEES", "MEADS", "LAPS")
END = "<!-- end of table -->\n"
STUDIES = {
    "digits": "results/generative-digits",
    "mnist": "results/generative-mnist",
    "bnn": "results/bnn",
    "choices": "results/network-choices",
}
DOCUMENTS = (Path("docs/results.md"), Path("docs/bnn.md"))


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


def markdown(shown: dict) -> str:
    """A table of results.json as it is."""
    lines = ["| " + " | ".join(shown["columns"]) + " |", "|" + "---|" * len(shown["columns"])]
    return "\n".join([*lines, *("| " + " | ".join(map(str, row)) + " |" for row in shown["rows"])]) + "\n"


def put(file: Path, name: str, text: str) -> None:
    """Replace what stands between a table's marks, where it has any."""
    begin = f"<!-- {name}: python -m ergodic_studies.bench.documents -->\n"
    if begin not in file.read_text():
        return
    before, rest = file.read_text().split(begin)
    file.write_text(before + begin + text + END + rest.split(END, 1)[1])


def main() -> None:
    posteriors = json.loads(Path("results/posteriors/results.json").read_text())
    put(Path("README.md"), "posteriors", table(posteriors))
    put(Path("docs/results.md"), "bars", markdown(posteriors["tables"][0]))
    for data, folder in STUDIES.items():
        file = Path(folder) / "results.json"
        if file.is_file():
            for index, shown in enumerate(json.loads(file.read_text())["tables"]):
                for document in DOCUMENTS:
                    put(document, f"{data} {index}", markdown(shown))


if __name__ == "__main__":
    main()
