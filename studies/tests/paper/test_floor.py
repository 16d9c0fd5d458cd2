import json

import pytest

from data_ergodic import data_folder
from ergodic_studies.paper.floor import PRESETS, STUDY
from ergodic_studies.paper.floor_tables import estimate_table, quality_table


def result(distances):
    """A target's part of the results, with one fit a floor."""
    return {
        "dim": 2,
        "start": 3.9,
        "known": {"entropy": 2.8, "entropy_error": 0.0, "expected_logdensity": -1.0, "noise": 0.02},
        "estimates": [(2.7, 0.1), (2.9, 0.05)],
        "again": [(2.8, 0.1), (2.8, 0.1)],
        "fits": {
            label: [{"floor": 3.0, "entropy": 3.0, "logdensity_error": 0.1, "distance": d}]
            for label, d in distances.items()
        },
    }


def test_tables_say_how_far_each_floor_is_from_the_best():
    results = {"a": result({"initial": 0.08, "auto": 0.01}), "b": result({"initial": 0.05, "auto": 0.2})}
    table = quality_table(results, ["initial", "auto"], ["a"], "distance")
    assert table.columns == ["target", "initial", "auto", "noise"]
    assert table.rows[0] == ["a", "0.080", "0.010", "0.020"]
    assert table.rows[-1] == ["× best", "2.00", "2.00", ""]  # √(0.08/0.02 · 1): 0.01 counts as the noise
    errors = quality_table(results, ["initial", "auto"], ["a"], "logdensity_error")
    assert errors.rows == [["a", "+0.100", "+0.100"], ["b", "+0.100", "+0.100"], ["× best", "1.00", "1.00"]]
    estimates = estimate_table(results)
    assert estimates.rows[0] == ["a", "2", "3.90", "2.80", "2.80 ± 0.08", "2.0", "2.80 ± 0.10", "0.0"]
    text = estimates.document()
    assert text.startswith("**H(π)") and text.count("|\n") == 4


@pytest.mark.slow
def test_the_study_in_small(tmp_path, monkeypatch):
    monkeypatch.setenv("ERGODIC_DATA", data_folder())
    said = []
    report = STUDY.run("smoke", tmp_path, said.append)
    assert len(said) == len(PRESETS["smoke"].targets)
    document = json.loads((tmp_path / "results.json").read_text())
    assert document["command"] == "ergodic reproduce floor --preset smoke"
    fits = document["results"]["gaussian"]["fits"]
    assert set(fits) == {"initial", "Ĥ + 0", "Ĥ + 1.5", "Ĥ + d/2", "covering", "auto"}
    assert fits["auto"][0]["floor"] >= document["results"]["gaussian"]["estimates"][0][0] - 0.5
    assert fits["Ĥ + 0"][0]["distance"] > fits["auto"][0]["distance"]
    assert len(report.tables) == 3 and (tmp_path / "tables.md").read_text().count("**") == 6


@pytest.mark.slow
def test_without_data_the_posteriors_are_left_out(tmp_path, monkeypatch):
    monkeypatch.delenv("ERGODIC_DATA", raising=False)
    said = []
    report = STUDY.run("smoke", tmp_path, said.append)
    assert list(report.results) == ["gaussian"] and "left out" in said[0]
