"""`ergodic bench scaling`, `family` and `refine`: the harness, on what takes a moment."""

import json

import numpy as np
import pytest

import ergodic as eg
from ergodic_studies.bench import family, family_targets, refinement, scaling
from ergodic_studies.bench.scaling_points import Point
from ergodic_studies.harness.processes import ProcessError


@pytest.fixture(scope="module")
def scaled(tmp_path_factory):
    out = tmp_path_factory.mktemp("scaling")
    said = []
    with pytest.MonkeyPatch.context() as patch:
        target = eg.targets.get("gaussian")  # one for all points: compiled once
        patch.setattr(Point, "target", lambda _: target)
        return out, scaling.STUDY.run("smoke", out, said.append, process=False), said


def test_scaling_writes_points_tables_and_a_figure(scaled):
    out, report, said = scaled
    rows = json.loads((out / "results.json").read_text())["results"]["points"]
    assert len(rows) == len(said) == 7 and (out / "scaling.png").stat().st_size > 10_000
    for row in rows:
        assert row["fit_seconds"] > 0 and row["peak_megabytes"] > 50
        if row["kind"] == "certificate":
            assert row["certificate"] == "passed" and row["certificate_seconds"] > 0
        else:
            assert row["sample_seconds"] > 0 and row["ratio"] > 0 and row["b2_max"] < 0.1
    assert all(table.rows for table in report.tables)


def test_a_point_in_a_process_of_its_own_reports_or_says_why_not(tmp_path):
    with pytest.raises(ProcessError, match="no built-in target"):
        Point("draws", "nonsense").cell().result(tmp_path)


def test_the_presets_ask_for_what_the_bars_are_about():
    points = scaling.points(scaling.PRESETS["cpu"])
    dims = [point.dim for point in points if point.kind == "dimension"]
    assert min(dims) == 2 and max(dims) == 1000
    assert {point.form for point in points if point.kind == "gradients"} == {"german-credit"}
    assert all(point.dim < 200 for point in points if point.form == "rotated")


@pytest.mark.slow
def test_family_benchmark(tmp_path):
    results = family.STUDY.run("smoke", tmp_path, lambda _: None).results
    assert set(results) == {"windows", "folds", "simulated"} and (tmp_path / "results.json").is_file()
    for row in results.values():
        assert row["members"] == 4 and row["settled"] >= 2 and row["seconds a posterior"] > 0
    assert results["windows"]["b2, median"] < 0.1


def test_a_family_is_measured_against_its_members_alone():
    """b2_max is the largest of seven χ²₁/4,000, for exact draws: above 0.008 one time in 500,000."""
    row = family.measure(family.folds(3), family.Size(3, 1, 4_000), family.folds(3).family)
    assert row["members"] == 3 and row["settled"] >= 2 and row["b2, largest"] < 0.008
    assert row["times faster"] > 0 and row["alone, depth"] > 1 and row["without, depth"] > 1


def test_moments_of_logistic_regression_without_data_are_the_priors():
    moments = family_targets.logistic_moments(np.zeros((3, 2)), np.random.default_rng(0))
    np.testing.assert_allclose(moments.expected, 1, atol=0.05)
    np.testing.assert_allclose(moments.variance, 2, atol=0.25)


def test_ranks_of_what_is_not_there_are_not_uniform():
    rng = np.random.default_rng(0)
    draws = rng.normal(size=(60, 500, 2))
    assert family.uniform_ranks(draws, rng.normal(size=(60, 2))) > 1e-3
    assert family.uniform_ranks(draws, 2 + rng.normal(size=(60, 2))) < 1e-3


def test_refinement_benchmark(tmp_path):
    report = refinement.STUDY.run("smoke", tmp_path, lambda _: None)
    row = report.results["gaussian"]
    assert row["depth, greedy"] <= row["depth"] and len(row["rows"]) == 2
    assert row["rows"][-1]["greedy"]["memory"] < 0.15 and (tmp_path / "results.json").is_file()
    assert len(report.tables[0].rows) == 1


def test_unknown_presets_are_refused(tmp_path):
    for module in (family, refinement, scaling):
        with pytest.raises(eg.ConfigError, match="preset"):
            module.STUDY.run("huge", tmp_path)
