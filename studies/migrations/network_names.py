"""Rename the ways of sampling networks in a record of `ergodic reproduce bnn` that was made before they were renamed.

    python studies/migrations/network_names.py studies/results/bnn/results.json

What was called "HEI" there is our long chain; the paper's setting was called "HEI, appendix".
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from ergodic.runtime.files import write_atomically
from ergodic_studies.paper.bnn_methods import FORMER

NOW = {former: label for label, former in FORMER.items()}
TITLES = {
    "HEI's log-likelihood minus the others', paired over splits": "The long chain's log-likelihood minus the others', "
    "paired over splits",
    "HEI with one thing changed": "The long chain with one thing changed",
}


def renamed(document: dict) -> dict:
    """The record with the ways' labels, and the titles that name them, as they are now."""
    for cell in document["results"]["cells"]:
        cell["label"] = NOW.get(cell["label"], cell["label"])
    for table in document["tables"]:
        table["title"] = TITLES.get(table["title"], table["title"])
        table["note"] = table["note"].replace("the difference is to HEI on", "the difference is to the long chain on")
        table["rows"] = [[NOW.get(value, value) for value in row] for row in table["rows"]]
    return document


if __name__ == "__main__":
    for name in sys.argv[1:]:
        text = json.dumps(renamed(json.loads(Path(name).read_text())), indent=1, ensure_ascii=False)
        write_atomically(name, (text + "\n").encode())
