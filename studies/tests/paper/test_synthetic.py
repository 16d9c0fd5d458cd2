import json
from dataclasses import replace

import pytest

from ergodic_studies.paper.synthetic import PRESETS, STUDY
from ergodic_studies.paper.synthetic_cells import Trial


@pytest.fixture(scope="module", params=["one target", pytest.param("two targets", marks=pytest.mark.slow)])
def run(request, tmp_path_factory):
    """The smoke preset, on one of its two targets where tests are to be fast."""
    smoke = PRESETS["smoke"]
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "one target":
            patch.setitem(PRESETS, "smoke", replace(smoke, targets=("dual-moon",)))
        out = tmp_path_factory.mktemp("synthetic")
        said = []
        STUDY.run("smoke", out, said.append)
        yield out, said


def test_every_cell_is_filled(run):
    out, said = run
    preset = PRESETS["smoke"]
    document = json.loads((out / "results.json").read_text())
    found = {(cell["label"], cell["target"]) for cell in document["results"]["cells"]}
    assert found == {(label, name) for label in preset.methods for name in preset.targets}
    assert sum("seed 0" in line for line in said) == len(found)  # progress was visible
    for table in document["tables"]:
        assert table["title"] and all(len(row) == len(table["columns"]) for row in table["rows"])
    for figure in document["figures"]:
        assert (out / figure["file"]).stat().st_size > 10_000


def test_views_are_of_chains_that_start_alike(run):
    views = json.loads((run[0] / "views.json").read_text())
    assert set(views["targets"]) == set(PRESETS["smoke"].targets)
    tuned, untuned = (next(p for p in views["paths"] if p["method"] == name) for name in ("HEI", "HEI, not tuned"))
    assert len(tuned["x"]) == len(tuned["steps"]) == 11
    assert abs(tuned["distance"][-1]) < abs(untuned["distance"][-1])


def test_a_killed_run_goes_on_where_it_stopped_with_the_same_result(run, monkeypatch):
    out, _ = run
    before = json.loads((out / "results.json").read_text())["results"]["cells"]
    for file in (out / "cells").glob("dual-moon-HEI-*"):  # killed before this cell was done
        file.unlink()
    ran = []
    real = Trial.run
    monkeypatch.setattr(Trial, "run", lambda trial, path: ran.append((trial.label, trial.target)) or real(trial, path))
    STUDY.run("smoke", out, lambda line: None)
    assert ran == [("HEI", "dual-moon")]
    after = json.loads((out / "results.json").read_text())["results"]["cells"]
    for one, two in zip(before, after, strict=True):
        for measured in ("label", "target", "estimate", "distance", "effective_size"):
            assert one[measured] == two[measured]


def test_a_changed_setting_is_another_cell():
    method = PRESETS["smoke"].methods["HEI"]
    one = Trial("HEI", method, "gaussian", 0, 100).cell().name
    assert one != Trial("HEI", method, "gaussian", 0, 200).cell().name
    assert one != Trial("HEI", type(method)(), "gaussian", 0, 100).cell().name
