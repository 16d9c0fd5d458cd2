"""`ergodic bench posteriors`: the harness, on cells that take a moment."""

import json
import math
import sys

import jax
import numpy as np
import pytest

import ergodic as eg
from ergodic_studies.bench import posterior_cells
from ergodic_studies.bench.effective import Worth
from ergodic_studies.bench.outside import NumPyroNUTS, NutpieNUTS
from ergodic_studies.bench.posterior_cells import LABELS, Trial, method_of
from ergodic_studies.bench.posterior_measure import Yardstick, measure
from ergodic_studies.bench.posterior_tables import Row, all_tables
from ergodic_studies.bench.posteriors import BAR, OTHERS, STUDY

TINY = {"targets": ["gaussian"], "methods": ["HEI,meads"], "process": False}


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    out = tmp_path_factory.mktemp("posteriors")
    said = []
    return out, STUDY.run("smoke", out, said.append, **TINY), said


def test_a_run_writes_cells_tables_and_a_figure(done):
    out, report, said = done
    document = json.loads((out / "results.json").read_text())
    assert [cell["label"] for cell in document["results"]["cells"]] == ["HEI", "MEADS"]
    assert len(said) == 2 and (out / "bias.png").stat().st_size > 10_000
    assert all(table.title and table.rows for table in report.tables)
    independent, correlated = (cell["results"][0] for cell in report.results["cells"])
    assert independent["kind"] == "independent" and independent["effective"] == independent["draws"] == 1_000
    assert correlated["kind"] == "correlated" and correlated["b2_max"] < 0.05
    for row in (independent, correlated):
        seconds = row["sampling_seconds"]
        assert 0 < seconds["1000"] < seconds["100000"]
        assert row["gradients"] >= row["tuning_gradients"] > 0 and row["depth"] > row["tuning_depth"]
        assert 0 < row["sliced_wasserstein"] < 2 and row["certificate"] is None and row["cpu_share"] > 0


def test_cells_that_are_there_are_kept_unless_asked_for_again(done, monkeypatch):
    out, report, _ = done
    ran = []
    monkeypatch.setattr(Trial, "run", lambda trial, file: ran.append(trial.label) or kept)
    kept = report.results["cells"][0]
    said = []
    again = STUDY.run("smoke", out, said.append, **TINY)
    assert not ran and all("(kept)" in line for line in said) and again.results == report.results
    STUDY.run("smoke", out, said.append, **TINY, again=["hei"])
    assert ran == ["HEI"]
    STUDY.run("smoke", out, said.append, **TINY, share=1e9)  # nobody has had that much of a processor
    assert ran == ["HEI", "HEI", "MEADS"]


def test_other_settings_are_another_cell():
    one = Trial("gaussian", "HEI").cell().name
    assert one == Trial("gaussian", "HEI", limit=3.0).cell().name
    others = (Trial("gaussian", "HEI", seeds=2), Trial("gaussian", "HEI", small=True))
    assert len({one, *(trial.cell().name for trial in others)}) == 3


def test_what_is_there_is_collected_whatever_its_seeds(done, tmp_path):
    out, report, _ = done
    found = STUDY.run("cpu", out, print, targets=["gaussian"], methods=["HEI"], collect=True)
    assert found.results["cells"] == report.results["cells"][:1]
    STUDY.run("smoke", out, print, **TINY)


def test_a_seed_that_raises_is_recorded_and_the_others_go_on(tmp_path, monkeypatch):
    real = measure

    def broken(target, method, label, seed, *rest):
        if seed == 0:
            raise ValueError("no luck\nat all")
        return real(target, method, label, seed, *rest)

    monkeypatch.setattr(posterior_cells, "measure", broken)
    cell = Trial("gaussian", "HEI", seeds=2, wanted=500, small=True).cell(process=False).result(tmp_path)
    assert cell["results"][0] == {"seed": 0, "error": "ValueError: no luck"}
    assert cell["results"][1]["b2_max"] < 1
    row = Row.of(cell)
    assert (row.seeds, row.failed) == (2, 1) and not row.converged
    assert Row.of({**cell, "results": cell["results"][:1]}) is None


def test_slow_cells_have_fewer_seeds(tmp_path, monkeypatch):
    monkeypatch.setattr(posterior_cells, "_SLOW", 0.0)
    cell = Trial("gaussian", "HEI", seeds=5, wanted=500, small=True).cell(process=False).result(tmp_path)
    assert len(cell["results"]) == 3


def test_names_are_checked(tmp_path):
    with pytest.raises(eg.ConfigError, match="method of the benchmark"):
        STUDY.run("cpu", tmp_path, methods=["NUTSS"])
    with pytest.raises(eg.ConfigError, match="built-in target"):
        STUDY.run("cpu", tmp_path, targets=["gausian"])
    assert set(BAR + OTHERS) <= set(eg.targets.names()) and len(BAR) == len(set(BAR)) == 20
    for label in LABELS[1:]:
        assert method_of(label).name == method_of(label, small=True).name == label


@pytest.mark.slow
def test_a_cell_in_a_process_of_its_own(tmp_path, monkeypatch):
    cell = Trial("gaussian", "HEI", seeds=1, wanted=500, small=True).cell()
    result = cell.result(tmp_path)
    assert result["stopped"] is None and result["results"][0]["compile_seconds"] > 0
    monkeypatch.setattr(sys, "executable", "false")
    stopped = cell.result(tmp_path, again=True)
    assert stopped["stopped"] and stopped["results"][-1]["error"] and Row.of(stopped) is None


def fake_draws(n, chains=1, seconds=2.0, **attributes):
    from ergodic.draws import Draws
    from ergodic.runtime.programs import Cost

    target = eg.targets.get("gaussian")
    x = np.zeros((n, 2), np.float32)
    return Draws(target, x, x[:, 0], cost=Cost(0, 0, 0.0, seconds), attributes=attributes, chains=chains)


def test_costs_scale_with_effective_draws():
    worth = Worth(fake_draws(20_000, chains=4), 5_000.0, 0.0)
    assert worth.for_effective(10_000) == 40_000 and worth.seconds(10_000) == pytest.approx(4.0)
    assert worth.for_effective(3) == 4  # one transition of four chains
    wide = Worth(fake_draws(32_768, chains=4096), 32_768.0, 0.0)
    assert wide.for_effective(1_000) == 4096 and wide.for_effective(10_000) == 3 * 4096
    alone = Worth(fake_draws(10_000, independent_draws=True), 10_000.0, 0.0, (100_000, 5.0))
    assert alone.seconds(1_000) == pytest.approx(0.2) and alone.seconds(100_000) == 5.0


def cell(target, label, b2, seconds, depth, verdict=None):
    row = {
        "b2_max": b2,
        "b2_mean": b2,
        "sliced_wasserstein": None,
        "compile_seconds": 1.0,
        "tuning_seconds": 1.0,
        "sampling_seconds": {"1000": seconds / 10, "10000": seconds, "100000": seconds * 10},
        "reached": True,
        "depth": depth,
        "gradients": 10 * depth,
        "certificate": verdict,
        "certificate_seconds": verdict and 1.0,
        "certificate_compile_seconds": verdict and 1.0,
        "cpu_share": 1.0,
    }
    return {"target": target, "label": label, "noise": 0.0, "results": [{"seed": 0, **row}]}


def test_the_bars_are_counted():
    cells = [
        cell("gaussian", "GEI", 1e-4, 1.0, 100, "passed"),
        cell("gaussian", "NUTS", 1e-4, 20.0, 1000),
        cell("gaussian", "LAPS", 1e-4, 2.0, 50),
        cell("funnel", "GEI", 0.2, 1.0, 100, "passed"),
        cell("funnel", "NUTS", 0.02, 1.0, 1000),
        cell("funnel", "LAPS", 0.02, 1.0, 1000),
    ]
    bars, seconds, *_ = all_tables(cells, BAR)
    measured = {row[0]: row[1] for row in reversed(bars.rows)}
    assert measured["b2_max < 0.01 with 10,000 draws"] == "1 of 2 (not funnel)"
    assert measured["certificates passed at b2_max > 0.05, any seed, any target"] == "1"
    assert measured["faster than every NUTS"] == measured["at least 3 times faster than every NUTS"]
    assert measured["depth below every NUTS"] == "0 of 0"  # only where every one of them was run
    assert measured["depth below LAPS"] == "1 of 2 (not gaussian)"
    assert [row[1:] for row in seconds.rows] == [["3.0 *", "22.0", "4.0"], ["× (3.0)"] * 3]
    only_peers = all_tables(cells[1:3], BAR)
    assert only_peers[0].title.startswith("Seconds")


@pytest.mark.parametrize("method", [NumPyroNUTS(warmup=200), NutpieNUTS(warmup=200)], ids=lambda method: method.name)
def test_other_peoples_nuts(method):
    """b2 of a Gaussian below 25 / effective draws (probability 1e-6), and what it cost."""
    if method.name == "nutpie":
        pytest.importorskip("nutpie")
    target = eg.targets.get("gaussian")
    row = measure(target, method, method.name, 0, Yardstick.of(target, 500), 500, 10.0)
    assert row["kind"] == "correlated" and row["effective"] >= 500 and row["b2_max"] < 25 / 500
    assert row["tuning_depth"] >= 200 and row["gradients"] > row["tuning_gradients"] >= row["tuning_depth"]
    assert all(math.isfinite(seconds) and seconds > 0 for seconds in row["sampling_seconds"].values())
    draws = method.fit(target, jax.random.key(0)).sample(jax.random.key(1), 103)
    assert len(draws) == 103 and draws.chains == 4 and draws.unconstrained.dtype == np.float32
