"""The command `ergodic demo`."""

import functools
import json

import pytest

from commands_ergodic import run


@pytest.mark.parametrize("letters", ["d", pytest.param("abcdef", marks=pytest.mark.slow)])
def test_demo_prints_its_table_and_writes_results(capsys, tmp_path, monkeypatch, letters):
    from ergodic.cli import demo
    from ergodic.targets.synthetic import PAPER_SIX, SYNTHETIC

    names = tuple(name for name in PAPER_SIX if SYNTHETIC[name].letter in letters)
    monkeypatch.setattr(demo, "measure", functools.partial(demo.measure, names=names))
    seen = []

    def illustrate(out, runs, seed):
        seen.extend(run.row.target for run in runs)
        return {"figure": out / "figure.png"}

    for illustrators, words in (([], "come with a checkout"), ([illustrate], "figure.png")):
        monkeypatch.setattr(demo, "ILLUSTRATORS", illustrators)
        code, out, error = run(capsys, "demo", "-n", 2000, "--out", tmp_path)
        assert code == 0, error
        assert names[0] in out and "draws/s" in out and "certificate" in out and words in out
    results = json.loads((tmp_path / "results.json").read_text())
    assert [row["letter"] for row in results["results"]] == list(letters)
    assert results["config"]["draws"] == 2000 and results["versions"]["jax"]
    assert seen == list(names)
