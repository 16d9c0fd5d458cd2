"""The network study's smoke preset: two ways of sampling on two splits of a bundled table, resumed, and its tables."""

import json

import numpy as np
import pytest

from ergodic.runtime.errors import ConfigError
from ergodic_studies.paper import bnn as study
from ergodic_studies.paper.bnn import EXACT, STUDY, TUNED
from ergodic_studies.paper.bnn_methods import FORMER, LONG, ablations, finite, ran_away, sampling
from ergodic_studies.paper.bnn_tables import PUBLISHED, difference_table, score_table


def test_smoke(tmp_path):
    chosen = [LONG, TUNED]  # the first is also asked for by its former name
    first = STUDY.run(
        "smoke", tmp_path, lambda _: None, dataset=["diabetes"], methods=["HEI", TUNED]
    )  # its former name
    assert not (tmp_path / "results.json").exists()  # a part does not replace the whole
    again = STUDY.run("smoke", tmp_path, lambda _: None, dataset=["diabetes"], collect=True)
    document = json.loads((tmp_path / "results.json").read_text())
    cells = document["results"]["cells"]
    assert [cell["label"] for cell in cells] == chosen
    assert all(len(cell["scores"]) == 2 for cell in cells)
    assert all(-8 < score["log_likelihood"] < -4 for cell in cells for score in cell["scores"])
    assert all("sd" not in cell for cell in cells)
    assert (tmp_path / "chain.png").stat().st_size > 5_000
    assert [cell["seconds"] for cell in again.results["cells"]] == [cell["seconds"] for cell in first.results["cells"]]


def test_long_runs_and_changes(tmp_path, monkeypatch):
    """A long run's chains are compared with each other and with ours; a change, with the long chain unchanged."""
    monkeypatch.setattr(study, "CLOSER", ("diabetes",))
    changed = "long chain, 3 leapfrogs"
    found = STUDY.run("smoke", tmp_path, lambda _: None, dataset=["diabetes"], methods=[LONG, changed, EXACT])
    exact = next(cell for cell in found.results["cells"] if cell["label"] == EXACT)
    assert len(exact["scores"]) == len(exact["agreement"]) == 1 and exact["agreement"][0]["rhat_max"] > 0.9
    titles = [table.title for table in found.tables]
    assert titles[-3:] == ["Against long runs of NUTS", "The long chain with one thing changed", "The data"]
    said = []
    again = STUDY.run("smoke", tmp_path, said.append, dataset=["diabetes"], collect=True)
    assert any("mean-field VI" in line and "not finished" in line for line in said)
    assert [cell["label"] for cell in again.results["cells"]] == [LONG, changed, EXACT]


def test_unknown_names(tmp_path):
    with pytest.raises(ConfigError, match="way of sampling networks"):
        STUDY.run("smoke", tmp_path, methods=["HIE"])
    with pytest.raises(ConfigError, match="preset"):
        STUDY.run("tiny", tmp_path)


def test_tables_pair_splits():
    def cell(label, values):
        measures = ("rmse", "coverage_50", "coverage_90")
        return {
            "table": "boston",
            "label": label,
            "processor_seconds": 1234.0,
            "scores": [{"log_likelihood": v, **dict.fromkeys(measures, 0.5)} for v in values],
        }

    cells = [cell(LONG, [-2.0, -3.0]), cell("SGHMC", [-2.5, -3.7])]
    rows = difference_table(cells, ["boston"], [LONG, "SGHMC"]).rows
    assert rows == [["SGHMC", "+0.600 ± 0.100"]]
    table = score_table(cells, ["boston"], [LONG, "SGHMC"]).rows
    assert table[0] == [LONG, "-2.50 ± 0.50"] and len(table) == 8 + len(PUBLISHED)
    assert np.all([len(row) == 2 for row in table])
    assert table[3] == ["· processor seconds", "1,234"]
    assert score_table(cells, ["boston"], []).rows == []
    cells[1]["away"] = 0.25
    shown = score_table(cells, ["boston"], [LONG, "SGHMC"]).rows
    assert shown[8] == ["· networks that ran away", "25.0%"] and len(shown) == len(table) + 1


def test_networks_that_ran_away_are_networks_of_zeros():
    positions = np.array([[1.0, -2.0], [1.0, 101.0], [np.nan, 0.0]])
    assert ran_away(positions).tolist() == [False, True, True]
    assert np.array_equal(finite(positions), [[1.0, -2.0], [0.0, 0.0], [0.0, 0.0]])


def test_every_renamed_way_has_its_former_name():
    ways = {**sampling(100), **ablations(100)}
    assert set(FORMER) == {label for label in ways if label.startswith(("long", "HEI"))}
    assert all(former.startswith("HEI") for former in FORMER.values())
