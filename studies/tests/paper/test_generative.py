"""The generative study's smoke preset: runs, resumes, inherits, and says what it measured."""

import json

import numpy as np
import pytest

from ergodic.runtime.errors import ConfigError
from ergodic_studies.paper.generative import STUDY
from ergodic_studies.paper.generative_tables import PAPER, likelihood_table, paired_table, timing_table
from ergodic_studies.report.pictures import image_rows


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    out = tmp_path_factory.mktemp("generative")
    return out, STUDY.run("smoke", out, lambda _: None)


def test_every_cell_is_judged(study):
    out, report = study
    document = json.loads((out / "results.json").read_text())
    assert [cell["label"] for cell in document["results"]["cells"]] == ["VAE", "HEI", "HEI warm"]
    for cell in document["results"]["cells"]:
        assert [mark["mark"] for mark in cell["marks"]] == [0.5, 1.0]
        last = cell["marks"][-1]
        assert -60 < last["log_likelihood"] < -20 and last["sandwich"]["width"] > -1
        assert ("importance_bound" in last) == (cell["label"] != "HEI")
    assert report.results["timing"][0]["ratio"] > 1
    for figure in document["figures"]:
        assert (out / figure["file"]).stat().st_size > 5_000


def test_the_warm_start_is_the_vae_at_half_the_budget(study):
    first, _, warm = study[1].results["cells"]
    assert first["marks"][0]["log_likelihood"] == warm["marks"][0]["log_likelihood"]
    assert first["marks"][1]["log_likelihood"] != warm["marks"][1]["log_likelihood"]


def test_a_second_run_trains_nothing(study):
    out, report = study
    told = []
    again = STUDY.run("smoke", out, lambda _: None, methods=["VAE", "HEI"], status=told.append)
    assert not told and not again.whole and again.tables[0].rows[0] == report.tables[0].rows[0]


def test_unknown_names_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="way of training"):
        STUDY.run("smoke", tmp_path, methods=["VEA"])
    with pytest.raises(ConfigError, match="nothing under"):
        STUDY.run("smoke", tmp_path, collect=True)
    with pytest.raises(ConfigError, match="preset"):
        STUDY.run("huge", tmp_path)


def cell(label, seed, values):
    mark = {
        "seconds": 3600.0,
        "epochs": 10.0,
        "log_likelihood": float(np.mean(values)),
        "error": 0.03,
        "error_over_images": 0.5,
        "effective": 12.0,
        "values": values,
    }
    return {"label": label, "seed": seed, "marks": [mark]}


def test_tables_from_cells():
    cells = [
        cell(label, seed, [base + seed, base + 1]) for label, base in (("VAE", -90), ("HEI", -88)) for seed in (0, 1)
    ]
    table = likelihood_table(cells, ["VAE", "HEI", "HVI"], 16, "mnist")
    assert [row[0] for row in table.rows[:2]] == ["VAE", "HEI"] and len(table.rows) == 2 + len(PAPER)
    assert table.rows[0][1] == "1.000" and table.rows[0][3].startswith("-89.25 ±"[:6])
    assert all(len(row) == len(table.columns) for row in table.rows)
    paired = paired_table(cells, ["VAE", "HEI"], "mnist").rows
    assert paired == [["HEI", "+2.000", "+2.000, +2.000", "0.042", "0.000"]]
    row = {"steps": 15, "full": 100.0, "frozen": 20.0, "ratio": 5.0, "images_per_second": 10.0}
    assert timing_table([row]).rows[0][3] == "5.00" and timing_table([row]).rows[0][-1] == "4.6"


def test_image_rows_draw_every_row():
    figure = image_rows([("a", np.zeros((3, 64))), ("b", np.ones((3, 64)))], (8, 8))
    assert len(figure.axes) == 2 and figure.axes[1].get_ylabel() == "b"
