"""`ergodic bench charts`: its targets, a small run, its kept cells, and its tables."""

import json

import jax
import numpy as np
import pytest

import ergodic as eg
from ergodic_studies.bench import chart_cells
from ergodic_studies.bench.chart_cells import ABLATIONS, MAIN, VARIANTS, ChartTrial, judged
from ergodic_studies.bench.chart_tables import all_tables
from ergodic_studies.bench.chart_targets import OWN, PAIRS, PLACES, PLAIN, entry_of, truth_at
from ergodic_studies.bench.charts import PRESETS, STUDY
from ergodic_studies.bench.outside import NumPyroNUTS
from ergodic_studies.models.registry import ALL

DRAWS = 40_000


@pytest.mark.parametrize("name", OWN)
def test_truths_are_those_of_exact_draws(name):
    """Means, and squares where their variance is one that draws show: five standard errors (probability 6e-7 each).

    The log-density is that of the draws: E[force · x] = -d, by Stein's identity, within five standard errors.
    """
    target = entry_of(name).target(name)
    x = target.draw_exact(jax.random.key(0), DRAWS).astype(np.float64)
    first, second = truth_at(name).moments(1), truth_at(name).moments(2)
    few = slice(0, 1) if name.endswith("-3") else slice(None)  # squares of the others have no sample variance
    for moments, power in ((first, 1), (second, 2)):
        away = np.abs((x**power).mean(axis=0) - moments.expected) / np.sqrt(moments.variance / DRAWS)
        assert away[few].max() < 5
    force = np.asarray(target.density.batched(jax.numpy.asarray(x, target.dtype))[1], np.float64)
    stein = (force * x).sum(axis=1)
    assert abs(stein.mean() + target.dim) < 5 * stein.std() / np.sqrt(DRAWS)


def test_the_tail_is_what_draws_have():
    """P(v < -5) of exact draws, within five binomial standard errors."""
    tail = PLACES["funnel-10-3"].tail
    x = entry_of("funnel-10-3").target("f").draw_exact(jax.random.key(1), DRAWS)
    error = np.sqrt(tail.share * (1 - tail.share) / DRAWS)
    assert abs(np.mean(x[:, tail.coordinate] < tail.level) - tail.share) < 5 * error


def test_targets_are_there_and_their_drivers_have_names():
    assert {f"funnel-{d}-{s}" for d in (2, 10, 100) for s in (1, 3)} <= set(PLACES) and set(PLAIN) <= set(PLACES)
    assert len(PAIRS) == 5 and all(c in ALL and p in ALL for p, (c, _) in PAIRS.items())
    for name, place in PLACES.items():
        if place.driver is not None:
            assert place.driver in entry_of(name).target(name).names, name
    with pytest.raises(eg.ConfigError, match="target of the study"):
        entry_of("funel-2-1")


def test_every_ablation_differs_from_the_default_in_one_setting():
    default = eg.GEI()
    for label, make in ABLATIONS.items():
        method = make()
        assert method != default and method == eg.GEI(details=method.details), label
        changed = [name for name, value in vars(method.details).items() if value != vars(default.details)[name]]
        assert len(changed) == 1, label
    assert MAIN["GEI"]() == default and MAIN["GEI, no chart"]() == eg.GEI(chart=False)
    names = {ChartTrial("funnel-2-1", label, 0).cell().name for label in VARIANTS}
    assert len(names) == len(VARIANTS)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    out, said = tmp_path_factory.mktemp("charts"), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(VARIANTS, "NumPyro NUTS", lambda: NumPyroNUTS(warmup=200, radius=2.0))
        options = {"targets": ["funnel-2-3"], "variants": ["gei", "NumPyro NUTS"], "process": False}
        report = STUDY.run("smoke", out, said.append, **options)
        again = STUDY.run("smoke", out, said.append, **options)
        collected = STUDY.run("smoke", out, said.append, **options, collect=True)
    return out, report, again, collected, said


def test_a_run_measures_every_part(done):
    """The tail of GEI's 60,000 draws is within 5 % of the truth: 3.3 standard errors of independent draws (1e-3)."""
    out, report, again, collected, said = done
    ours, its = report.results["cells"]
    assert ours["verdict"] == "passed" and ours["driver_b2"] < 0.01 and ours["draw_depth"] < 60
    assert ours["tail"] / PLACES["funnel-2-3"].tail.share == pytest.approx(1, abs=0.05)
    assert 0 < its["tail"] < 0.2 and "draw_depth" not in its
    for cell in (ours, its):
        assert "found" not in cell and cell["dim"] == 2 and cell["b2_max"] >= 0 <= cell["b1_max"]
    assert again.results == collected.results == report.results
    assert len(said) == 6 and all("(kept)" in line for line in said[2:])
    assert json.loads((out / "results.json").read_text())["tables"][0]["title"] == "Bars"


def test_in_a_process_of_its_own_a_trial_calls_its_own_kind(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(
        "ergodic_studies.bench.model_cells.call_keeping", lambda *words, **o: seen.append(words) or (None, None)
    )
    ChartTrial("funnel-2-1", "one layer", 3).cell().result(tmp_path)
    (function, (settings,), _), *_ = seen
    ran = []
    monkeypatch.setattr(ChartTrial, "run", lambda trial, file: ran.append(trial))
    getattr(chart_cells, function.split(":")[1])(settings, str(tmp_path / "file"))
    assert function.startswith(chart_cells.__name__) and ran == [ChartTrial("funnel-2-1", "one layer", 3)]


def cell(model, label, *, b2=0.001, tuning=100, draw=13, seconds=2.0, verdict="passed", tail=None, seed=0, **more):
    made = {
        "model": model,
        "label": label,
        "seed": seed,
        "dim": 10,
        "limit": 300.0,
        "verdict": verdict,
        "rhat": 1.0,
        "b1_max": b2,
        "b2_max": b2,
        "driver_b2": b2,
        "tuning_depth": tuning,
        "draw_depth": draw,
        "depths": {"1000": 10_000},
        "gradients": {"1000": 50_000},
        "total_seconds": {"1000": seconds},
        "drawing_seconds": {"1000": 0.1},
        "reached": {"1000": verdict == "passed"},
        "cpu_share": 1.0,
        **{f"{part}_seconds": 1.0 for part in ("compile", "tuning", "certificate")},
        **more,
    }
    if draw is None:
        del made["draw_depth"]
        made |= {"verdict": None, "reached": {"1000": True}}
    return made if tail is None else {**made, "tail": tail}


def test_bars_are_what_the_cells_say():
    share = PLACES["funnel-10-3"].tail.share
    pairs = [
        cell(name, "GEI", tuning=tuning, draw=0)
        for plain, (centred, _) in PAIRS.items()
        for name, tuning in ((plain, 100), (centred, 140))
    ]
    cells = [
        cell("funnel-10-3", "GEI", tail=share),
        cell("funnel-10-3", "GEI", tail=0.97 * share, seed=1),
        cell("funnel-10-3", "one layer", tail=share, verdict="failed"),
        *pairs,
        cell("gaussian", "GEI", seconds=1.05),
        cell("gaussian", "GEI, no chart", seconds=1.0),
        cell("funnel-10-3", "NumPyro NUTS", draw=None, tail=share),
    ]
    bars, bias, deep, seconds, undone, every = all_tables(cells)
    assert len(bars.rows) == 4 + 2 + 1 + 1 and all(row[2] == "yes" for row in bars.rows)
    assert ["funnel-10-3: certificate passes in all seeds", "2 of 2", "yes"] in bars.rows
    assert bias.rows[0] == ["funnel-10-3", 10, "0.001, 2 passed", "", "0.001, R-hat 1.000"]
    assert deep.rows[0][2:] == ["113", "", "10,000"]
    assert [row[2:4] for row in seconds.rows if row[0] == "gaussian"] == [["1.1", "1.0"]]
    assert every.rows[-2][6] == "" != every.rows[0][6]  # the Gaussian has no driver
    assert undone.columns[2:] == ["GEI", "one layer"] and undone.rows[0][3] == "0.001 / 113 ×"
    assert len(every.rows) == len(cells)


@pytest.mark.parametrize(
    ("changes", "bar"),
    [
        ({"b2": 0.01}, "b2 of the driver"),
        ({"tail": 0.9}, "within 5 %"),
        ({"verdict": "failed"}, "passes in all seeds"),
        ({"tuning": 1_000}, "tuning depth"),
        ({"draw": 60}, "tuning depth"),
    ],
)
def test_a_bar_that_is_missed_is_said_to_be(changes, bar):
    changes = {"tail": 1.0, **changes}
    made = cell("funnel-100-3", "GEI", **changes | {"tail": changes["tail"] * PLACES["funnel-100-3"].tail.share})
    missed = [row[0] for row in all_tables([made])[0].rows if row[2] == "no"]
    assert len(missed) == 1 and bar in missed[0]


def test_a_model_without_a_truth_and_a_cell_that_was_killed_are_shown(monkeypatch):
    monkeypatch.setattr(chart_cells, "truth_at", lambda name: None)
    unknown = judged({**cell("path", "GEI"), "found": {"1": [0.0], "2": [0.0]}})
    assert "found" not in unknown
    for name in ("b1_max", "b2_max", "driver_b2"):
        del unknown[name]
    killed = {"model": "path-c", "label": "GEI", "seed": 0, "dim": 200, "limit": 9.0, "killed": True, "error": "killed"}
    tables = all_tables([unknown, killed])
    assert tables[1].rows == [["path", 10, "no truth, passed"], ["path-c", 200, "over 9 s"]]


def test_presets_run_what_there_is(tmp_path):
    for size in PRESETS.values():
        assert set(size.targets) <= set(PLACES) and set(size.variants) <= set(VARIANTS)
    with pytest.raises(eg.ConfigError, match="variant of the study"):
        STUDY.run("smoke", tmp_path, variants=["no chart"])
