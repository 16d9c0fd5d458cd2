"""`ergodic bench models`: a small run, its kept cells, and its tables."""

import json
import sys

import jax
import numpy as np
import pytest

import ergodic as eg
from ergodic.draws import Draws
from ergodic.runtime.drawing import Kind
from ergodic.runtime.programs import Cost
from ergodic.sampler import Sampler
from ergodic_studies.bench import model_truth
from ergodic_studies.bench.model_cells import LABELS, SAMPLERS, ModelTrial
from ergodic_studies.bench.model_draws import topped_up
from ergodic_studies.bench.model_measure import with_bias
from ergodic_studies.bench.model_tables import all_tables
from ergodic_studies.bench.models import STUDY
from ergodic_studies.bench.outside import NumPyroNUTS
from ergodic_studies.measures.long_run import LongRun


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    out = tmp_path_factory.mktemp("models")
    said = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(SAMPLERS, "NumPyro NUTS", lambda: NumPyroNUTS(warmup=200, radius=2.0))
        options = {"models": ["ar2"], "samplers": ["gei,numpyro nuts"], "process": False}
        report = STUDY.run("smoke", out, said.append, **options)
        again = STUDY.run("smoke", out, said.append, **options)
    return out, report, again, said


def test_a_run_measures_every_part(done):
    out, report, again, said = done
    ours, its = report.results["cells"]
    assert (ours["label"], its["label"]) == ("GEI", "NumPyro NUTS")
    assert ours["verdict"] == "passed" and its["verdict"] is None and its["rhat"] < 1.05
    for cell in (ours, its):
        assert "error" not in cell and "found" not in cell and cell["dim"] == 4
        parts = sum(cell[f"{part}_seconds"] for part in ("compile", "tuning", "certificate"))
        assert cell["total_seconds"]["1000"] == pytest.approx(parts + cell["drawing_seconds"]["1000"])
        assert cell["total_seconds"]["1000"] <= cell["total_seconds"]["4000"]
        assert cell["gradients"]["4000"] >= cell["gradients"]["1000"] > cell["tuning_gradients"] > 0
        assert cell["depths"]["4000"] >= cell["depths"]["1000"] > cell["tuning_depth"] > 0
        assert cell["processor_seconds"] > 0
    assert ours["reached"] == {"1000": True, "4000": True} and ours["certificate_gradients"] > 0
    assert ours["kept"] >= 1000 and ours["drawing_seconds"]["1000"] == 0 and its["kept"] == 0
    assert ours["gradients"]["1000"] == ours["tuning_gradients"] + ours["certificate_gradients"]
    document = json.loads((out / "results.json").read_text())
    assert document["results"]["cells"] == again.results["cells"] == report.results["cells"]
    assert len(said) == 4 and all("(kept)" in line for line in said[2:])
    assert report.tables[0].title == "GEI on models that people write"


def fake_sampler(kept, *, kind=Kind.INDEPENDENT, copies=1, fresh_copies=1):
    """A sampler with so many draws in hand, all at 0; new ones are at 1, and cost 13 gradients and 0.01 s each."""
    target, asked = eg.targets.get("gaussian"), []

    def draws(n, value, copies):
        x = np.full((n, target.dim), value, np.float32)
        stats = {"copies": np.full(n, copies)} if kind is Kind.RESAMPLED else {}
        key = {"seed": str(len(asked))}  # of their own, as other calls of a sampler have
        return Draws(target, x, x[:, 0], stats, cost=Cost(13 * n, 13, 0.5, 0.01 * n), attributes=key, kind=kind)

    def sample(key, n, *, progress):
        asked.append(n)
        return draws(n, 1.0, fresh_copies)

    sampler = Sampler(target, eg.GEI(), None, draws=draws(kept, 0.0, copies) if kept else None)
    sampler.sample = sample
    return sampler, asked


@pytest.mark.parametrize(
    ("kept", "asked"), [(10_240, []), (4_000, []), (1_024, [2_976]), (512, [488, 3_000]), (0, [1_000, 3_000])]
)
def test_draws_in_hand_cost_nothing_and_the_missing_ones_what_they_cost(kept, asked):
    sampler, drawn = fake_sampler(kept)
    made = topped_up(sampler, jax.random.key(0), 1e6)
    assert drawn == asked and made.kept == kept and made.effective == max(kept, 4_000) and made.measured == 4_000
    new = {size: max(0, size - kept) for size in (1_000, 4_000)}
    for size, cost in made.costs.items():
        calls = sum(np.cumsum(asked) <= new[size])
        assert cost.gradients == 13 * new[size] and cost.run_seconds == pytest.approx(0.01 * new[size])
        assert cost.compile_seconds == 0.5 * calls and cost.depth == (13 if new[size] else 0)
    assert made.draws.unconstrained[: made.measured].mean() == pytest.approx(new[4_000] / 4_000)


def test_resampled_draws_count_as_what_they_are_worth():
    sampler, asked = fake_sampler(1_200, kind=Kind.RESAMPLED, copies=2)
    made = topped_up(sampler, jax.random.key(0), 1e6)
    assert made.kept == 600 and asked[0] == 840  # 400 are missing, two draws for one, and a margin
    copies = made.draws.stats["copies"]
    assert made.effective == len(copies) / copies.mean() >= 4_000
    assert made.costs[1_000].gradients == 13 * 840 and made.costs[4_000].gradients == 13 * sum(asked)
    assert 4_000 <= made.measured <= len(made.draws)


def test_where_time_ends_costs_are_scaled(monkeypatch):
    monkeypatch.setattr(Sampler, "depth", 13)
    sampler, asked = fake_sampler(1_000)
    made = topped_up(sampler, jax.random.key(0), 5.0)
    assert asked == [500] and made.effective == made.measured == 1_500
    assert made.costs[1_000] == Cost() and made.costs[4_000].gradients == 13 * 3_000
    assert made.costs[4_000].run_seconds == pytest.approx(30.0) and made.costs[4_000].depth == 13


def test_bias_is_made_of_what_was_found():
    truth = LongRun.of(["a"], np.random.default_rng(0).normal(size=(4, 500, 1)))
    found = {"1": [float(truth.mean[0] + truth.sd[0])], "2": [float(truth.square[0])]}
    judged = with_bias({"model": "a", "found": found}, truth)
    assert judged["b1_max"] == pytest.approx(1) and judged["b2_max"] < 1e-9 and judged["b1_worst"] == "a"
    assert with_bias({"model": "a", "found": found}, None) == {"model": "a"}


def test_a_cell_that_was_killed_is_run_again_with_more_time(tmp_path, monkeypatch):
    trial = ModelTrial("ar2", "GEI", 0, 1.0)
    monkeypatch.setattr("ergodic_studies.bench.model_cells._START", -0.9)
    cell = trial.cell().result(tmp_path)
    assert cell["killed"] and cell["error"] == "killed after 0 seconds"
    assert trial.kept(tmp_path) == cell and ModelTrial("ar2", "GEI", 0, 2.0).kept(tmp_path) is None
    monkeypatch.setattr(sys, "executable", "false")
    failed = trial.cell().result(tmp_path, again=True)
    assert not failed["killed"] and failed["error"]


def test_an_error_is_recorded(tmp_path, monkeypatch):
    class Broken(NumPyroNUTS):
        """A sampler that raises."""

        def fit(self, *words, **options):
            raise ValueError("no luck\nat all")

    monkeypatch.setitem(SAMPLERS, "GEI", Broken)
    outcome = ModelTrial("ar2", "GEI", 0).run(tmp_path / "part")
    assert outcome["error"] == "ValueError: no luck" and not outcome["killed"]
    assert json.loads((tmp_path / "part").read_text()) == outcome


def cell(model, label, seconds, verdict=None, rhat=1.0, b2=0.001, **more):
    sound = rhat < 1.01 and verdict in (None, "passed")
    parts = {"compile_seconds": 1.0, "tuning_seconds": 1.0, "certificate_seconds": 1.0, "fit_seconds": 3.0}
    by_size = {
        "drawing_seconds": {"1000": 0.1, "4000": 0.4},
        "total_seconds": {"1000": seconds, "4000": 2 * seconds},
        "gradients": {"1000": 5_000, "4000": 12_000},
        "reached": {"1000": sound, "4000": sound},
    }
    by_size["depths"] = {"1000": 40, "4000": 45}
    rest = {"tuning_gradients": 10, "certificate_gradients": 10, "draw_depth": 5, "kept": 1024.0}
    rest |= {"effective": 4e3, "cpu_share": 1.0}
    named = {"model": model, "label": label, "seed": 0, "limit": 300.0, "dim": 3, "killed": False}
    return {**named, **parts, **by_size, **rest, "verdict": verdict, "rhat": rhat, "b1_max": b2, "b2_max": b2, **more}


def test_the_fastest_that_can_be_trusted_is_counted():
    killed = {"model": "c", "label": "GEI", "seed": 0, "limit": 300.0, "dim": 3, "killed": True, "error": "killed"}
    cells = [
        cell("a", "GEI", 2.0, "passed"),
        cell("a", "nutpie", 3.0),
        cell("b", "GEI", 2.0, "failed", certificate_seconds=2.5),
        cell("b", "nutpie", 30.0),
        killed,
        cell("c", "nutpie", 1.0, rhat=1.2),
        cell("d", "GEI", 2.5, "passed", b2=0.2),
        cell("d", "nutpie", 1.0),
        cell("e", "GEI", 2.0, "passed", b2=0.02),
        cell("e", "nutpie", 1.0),
        cell("f", "GEI", 2.0, "passed", b2=0.02, b2_noise=0.01),
        cell("f", "nutpie", 1.0, rhat=1.2),
    ]
    summary, seconds, _, gradients, more_gradients, parts, every = all_tables(cells)
    lines = {row[0]: row[1] for row in summary.rows}
    assert lines["certificate passed"] == "4 of 6 (not b, c)" and lines["runs over their time"] == 1
    assert lines["certificate ≤ tuning + compile"] == "4 of 5 (not b)"
    assert lines["passed, yet b2 > 0.01 and > 3 × noise"] == "2 of 6 runs (33.3%): d, e"
    assert lines["passed, yet b2 > 0.05 and > 3 × noise"] == "1 of 6 runs (16.7%): d"
    assert lines["fastest to 1,000 trusted draws"] == lines["faster than nutpie to 1,000"] == "2 of 6 (not b, c, d, e)"
    assert lines["fastest to 4,000 trusted draws"] == "2 of 6 (not b, c, d, e)"
    assert lines["more than twice as slow as a NUTS to 1,000, where both can be trusted"] == "1 of 3 (d)"
    assert [row[2:] for row in seconds.rows[:4]] == [
        ["2.0 *", "3.0"],
        ["2.0 ×", "30.0 *"],
        ["over 300 s", "1.0 ×"],
        ["2.5", "1.0 *"],
    ]
    assert gradients.rows[0][2] == "5.0 *" and more_gradients.rows[0][2] == "12 *" and len(every.rows) == len(cells)
    shown = dict(zip(every.columns, every.rows[0], strict=True))
    assert (shown["1,000 kgrad"], shown["4,000 kgrad"], shown["1,000 depth"]) == ("5.0", "12", "40")
    shown = dict(zip(parts.columns, parts.rows[0], strict=True))
    assert shown["verdict"] == "passed" and shown["certificate / (tuning + compile)"] == "0.50"
    assert shown["in hand"] == "1,024" and parts.rows[2][2] == "over 300 s"


def test_names_are_checked(tmp_path):
    with pytest.raises(eg.ConfigError, match="model of the benchmark"):
        STUDY.run("cpu", tmp_path, models=["shools"])
    with pytest.raises(eg.ConfigError, match="sampler of the benchmark"):
        STUDY.run("cpu", tmp_path, samplers=["NUTSS"])
    assert LABELS[0] == "GEI" and len(LABELS) == 4


def test_a_truth_is_written_kept_and_refused(tmp_path, monkeypatch):
    chains = np.random.default_rng(0).normal(size=(4, 500, 4))
    ran = []

    def fake(function, arguments, **options):
        ran.append(arguments[0])
        apart = np.arange(4)[:, None, None] if arguments[0] == "garch" else 0
        names = [f"x{i}" for i in range(4)]
        return {"draws": 2_000, "warmup": 1, "seed": 0, "seconds": 1.0, **LongRun.of(names, chains + apart).record()}

    monkeypatch.setattr(model_truth, "call", fake)
    said = []
    report = model_truth.STUDY.run("smoke", tmp_path, said.append, models=["ar2,garch"])
    assert [row[1] for row in report.tables[0].rows] == ["written", "refused"] and ran == ["ar2", "garch"]
    assert (tmp_path / "ar2.json").is_file() and not (tmp_path / "garch.json").is_file()
    model_truth.STUDY.run("smoke", tmp_path, said.append, models=["ar2,garch"])
    assert ran == ["ar2", "garch", "garch"]


@pytest.mark.slow
def test_a_truth_is_made_in_a_process_of_its_own(tmp_path):
    report = model_truth.STUDY.run("smoke", tmp_path, print)
    assert report.tables[0].rows[0][:2] == ["ar2", "written"]
    assert LongRun.read(tmp_path / "ar2.json").names == ("c", "phi[0]", "phi[1]", "sigma")
