"""Cells made by several workers, each of which runs the study for one of them."""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import ModuleType

import pytest

from ergodic.cli import main
from ergodic.runtime.errors import ErgodicError
from ergodic_studies.harness.cells import Cell
from ergodic_studies.harness.crew import Workers, work_there
from ergodic_studies.harness.study import Report, Study


@dataclass(frozen=True)
class Size:
    count: int = 6


@pytest.fixture
def tiny(monkeypatch):
    """A study of squares, in a module that workers can import; its second cells need the first."""
    made = []

    def square(number, fails):
        def work(path):
            made.append(number)
            if number == fails:
                raise ValueError("no square")
            return number * number

        return Cell((number,), [number], work)

    def squares(run, *, fails=None):
        """Squares, and the square of their sum."""
        cells = [square(number, fails) for number in range(run.size.count)]
        run.share(cells)
        total = sum(cell.result(run.cells) for cell in cells)
        last = [Cell(("total",), [total], lambda path: total * total)]
        run.share(last)
        return Report([cell.result(run.cells) for cell in last])

    module = ModuleType("tiny_study")
    module.STUDY = Study("squares", "bench", {"cpu": Size()}, squares, shared=True)
    monkeypatch.setitem(sys.modules, "tiny_study", module)
    return module.STUDY, made


def test_every_cell_is_made_once_by_one_of_the_workers(tiny, tmp_path):
    study, made = tiny
    with ThreadPoolExecutor(2) as pool:
        report = study.run("cpu", tmp_path, crew=Workers(pool, "tiny_study:STUDY", "cpu", tmp_path))
        assert report.results == [55 * 55] and sorted(made) == [0, 1, 2, 3, 4, 5]
        study.run("cpu", tmp_path, crew=Workers(pool, "tiny_study:STUDY", "cpu", tmp_path))
    assert len(made) == 6  # all are kept
    assert work_there("tiny_study:STUDY", "cpu", {}, str(tmp_path), "another") == "the study does not make it"
    assert study.run("cpu", tmp_path / "alone").results == [55 * 55]


def test_an_error_in_a_cell_waits_for_the_others(tiny, tmp_path):
    study, _ = tiny
    crew = Workers(ThreadPoolExecutor(2), "tiny_study:STUDY", "cpu", tmp_path, {"fails": 0})
    with pytest.raises(ErgodicError, match=r"1 cells failed: 0-.*ValueError: no square"):
        study.run("cpu", tmp_path, crew=crew, fails=0)
    assert len(list((tmp_path / "cells").glob("*.json"))) == 5


@pytest.mark.slow
def test_a_command_with_workers_makes_what_it_makes_alone(tmp_path, capsys):
    """Two real processes; only seconds may differ."""
    for out, words in (("alone", ()), ("shared", ("--workers", "2"))):
        with pytest.raises(SystemExit) as stop:
            main(["bench", "certificate", "--preset", "smoke", "--out", str(tmp_path / out), *words])
        assert stop.value.code == 0, capsys.readouterr().err
    alone, shared = (
        json.loads((tmp_path / out / "results.json").read_text())["results"] for out in ("alone", "shared")
    )
    for mine, its in zip(alone, shared, strict=True):
        timed = {name for name in mine if "seconds" in name}
        assert {k: v for k, v in mine.items() if k not in timed} == {k: v for k, v in its.items() if k not in timed}
    with pytest.raises(SystemExit) as stop:
        main(["bench", "certificate", "--workers", "2", "--executor", "dask://here:1"])
    assert "give one of them" in capsys.readouterr().err
