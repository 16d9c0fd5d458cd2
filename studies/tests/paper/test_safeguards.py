import json

import pytest

from data_ergodic import data_folder
from ergodic_studies.paper.safeguards import STUDY, VARIANTS
from ergodic_studies.paper.safeguards_tables import measure_table, summary_table


def cell(label, target, b2, distance=0.1, acceptance=0.9, seconds=1.0):
    measures = {"b2_max": b2, "distance": distance, "acceptance": acceptance, "seconds": seconds}
    return {"label": label, "target": target, "seed": 0, **measures}


def test_tables_compare_with_plain():
    cells = [
        cell("plain", "a", 0.04),
        cell("plain", "b", 0.0001, acceptance=0.0),
        cell("guarded", "a", 0.01, distance=0.01, seconds=4.0),
        cell("guarded", "b", 0.0005, distance=0.2),
    ]
    table = summary_table(cells, ["plain", "guarded"], ["a", "b"], "both")
    assert table.rows[0] == ["plain", "1.00", "0, 0", "1.00", "0, 0", "1 of 2", "0.00", "1.0"]
    # √(0.01/0.04 · 1): below 0.001 is noise; √(0.02/0.1 · 0.2/0.1)
    assert table.rows[1] == ["guarded", "0.50", "1, 0", "0.63", "1, 1", "1 of 2", "0.90", "2.0"]
    values = measure_table(cells, ["plain", "guarded"], ["a", "b"], "b2_max")
    assert values.rows == [["a", "0.04", "0.01"], ["b", "0.0001", "0.0005"]]


@pytest.mark.slow
def test_the_study_in_small_and_again(tmp_path, monkeypatch):
    monkeypatch.setenv("ERGODIC_DATA", data_folder())
    said = []
    report = STUDY.run("smoke", tmp_path, said.append)
    assert len(said) == 2 and len(report.tables) == 7
    document = json.loads((tmp_path / "results.json").read_text())
    assert document["command"] == "ergodic reproduce safeguards --preset smoke"
    cells = document["results"]["cells"]
    assert len(cells) == 3 * len(VARIANTS)  # the Gaussian in two lengths, mesquite in one
    assert {c["label"] for c in cells if c["target"] == "mesquite"} == set(VARIANTS)
    assert all((c["scale"] is None) == (c["label"].split(",")[0] not in ("SKSD scale", "all")) for c in cells)
    assert (tmp_path / "safeguards.png").stat().st_size > 1000
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "cells").iterdir()}
    STUDY.run("smoke", tmp_path, said.append)
    assert kept == {path: path.stat().st_mtime_ns for path in (tmp_path / "cells").iterdir()}
