"""The commands that the studies add to `ergodic`, and how their tables are shown."""

import functools
import json

import matplotlib.pyplot as plt
import numpy as np
import pytest

from ergodic.cli import main
from ergodic_studies.commands.tables import show_tables
from ergodic_studies.harness.tables import Table


def run(*words):
    with pytest.raises(SystemExit) as stop:
        main([str(word) for word in words])
    return stop.value.code


def test_the_demo_gets_a_figure_and_a_page(tmp_path, monkeypatch, capsys):
    from ergodic.cli import demo

    monkeypatch.setattr(demo, "measure", functools.partial(demo.measure, names=("gaussian",)))
    assert run("demo", "-n", 2000, "--out", tmp_path) == 0
    assert "figure" in capsys.readouterr().out
    picture = plt.imread(tmp_path / "demo.png")[..., :3]
    coloured = np.ptp(picture, axis=2) > 0.3  # neither the black ground of a histogram, nor its white frame
    above, below = np.array_split(coloured, 2)  # exact draws, and ours
    assert above.mean() > 0.005 and below.mean() > 0.005
    assert "gaussian" in (tmp_path / "report.html").read_text()
    assert "commit" in json.loads((tmp_path / "results.json").read_text())["versions"]


def test_a_preset_that_is_not_there_is_one_clear_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run("reproduce", "entropy", "--preset", "huge") == 1
    error = capsys.readouterr().err
    assert "'smoke', 'cpu', 'paper'" in error and error.count("\n") == 1


def test_a_study_s_table_shows_brackets_as_they_are(capsys):
    show_tables([Table("E[x]", ["", "E[log p]"], [["a[b]", None], ["c", "[red]1"]])])
    shown = capsys.readouterr().out
    assert all(text in shown for text in ("E[x]", "E[log p]", "a[b]", "[red]1"))


def test_a_wide_table_is_whole_in_a_pipe(capsys):
    columns = [f"column {i:02d}" for i in range(30)]
    show_tables([Table("wide", columns, [["x" * 20] * 30])])
    shown = capsys.readouterr().out
    assert all(column in shown for column in columns) and shown.count("x" * 20) == 30


def test_the_calibration_runs_and_goes_on_where_it_was(tmp_path, monkeypatch, capsys):
    from ergodic_studies.bench import calibration

    monkeypatch.setattr(calibration, "CASES", calibration.CASES[4:6])
    monkeypatch.setitem(calibration.PRESETS, "smoke", calibration.Size((2,), (1,), 1_000))
    assert run("bench", "certificate", "--preset", "smoke", "--out", str(tmp_path)) == 0
    assert "chain too short" in capsys.readouterr().out
    rows = json.loads((tmp_path / "results.json").read_text())["results"]
    assert [row["failed"] for row in rows] == [1.0, 1.0]
    monkeypatch.setattr(calibration.Case, "sampler", None, raising=False)  # nothing is certified again
    assert run("bench", "certificate", "--preset", "smoke", "--out", str(tmp_path)) == 0
