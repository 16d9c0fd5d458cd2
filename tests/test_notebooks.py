"""Every notebook of the site runs from top to bottom."""

import json
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "docs" / "notebooks").glob("*.ipynb"))


def cells(path):
    document = json.loads(path.read_text())
    assert all(not cell.get("outputs") for cell in document["cells"])  # the site makes them
    return ["".join(cell["source"]) for cell in document["cells"] if cell["cell_type"] == "code"]


def test_there_are_notebooks_and_the_site_has_them():
    nav = (Path(__file__).parents[1] / "mkdocs.yml").read_text()
    assert NOTEBOOKS and all(f"notebooks/{path.name}" in nav for path in NOTEBOOKS)


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path):
    names: dict = {}
    for number, cell in enumerate(cells(path)):
        exec(compile(cell, f"{path.name}, cell {number}", "exec"), names)
