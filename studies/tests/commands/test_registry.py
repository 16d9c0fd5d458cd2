"""Every study of the registry: it is found, it has a command, and its smallest preset runs."""

import json

import pytest

from ergodic.cli import main
from ergodic_studies.commands.groups import command_of, found_at
from ergodic_studies.commands.registry import BENCH, REPRODUCE
from ergodic_studies.harness.study import Study

STUDIES = {name: found_at(place) for name, place in {**REPRODUCE, **BENCH}.items() if name != "documents"}
OLD = {
    "posteriors": {"targets", "methods", "seeds", "limit", "again", "share", "core", "collect"},
    "generative": {"data", "methods", "seeds", "collect"},
    "bnn": {"dataset", "methods", "collect"},
    "certificate": {"seeds"},
    "core": {"repeats"},
    "settings": {"seeds"},
    "modes": {"seeds"},
    "decoder": {"batch", "repeats"},
    "greedy": {"seeds", "targets"},
    "l2hmc": {"seeds", "iterations"},
    "streaming": {"draws", "kills", "seed"},
    "cluster": {"simulate", "draws"},
}
"""Options that commands and former scripts had."""


def run(*words):
    with pytest.raises(SystemExit) as stop:
        main([str(word) for word in words])
    return stop.value.code


def test_studies_are_what_the_registry_says():
    for kind, places in (("reproduce", REPRODUCE), ("bench", BENCH)):
        for name in places:
            if name != "documents":
                study = STUDIES[name]
                assert isinstance(study, Study) and (study.name, study.kind) == (name, kind)
                assert {"smoke", "cpu"} <= set(study.presets) and study.work.__doc__
    assert all("paper" in STUDIES[name].presets for name in ("entropy", "synthetic", "generative", "bnn"))


@pytest.mark.parametrize("name", OLD)
def test_options_that_were_there_are_there(name):
    assert {option.name for option in STUDIES[name].options()} == OLD[name]
    working = {"workers", "executor"} if STUDIES[name].shared else set()
    assert set(command_of(STUDIES[name], name).__annotations__) == {*OLD[name], *working, "preset", "out"}


def test_help_names_every_study(capsys):
    assert run("bench", "--help") == 0
    shown = capsys.readouterr().out
    assert all(f" {name} " in shown for name in BENCH)
    assert run("bench", "l2hmc", "--help") == 0
    assert "--iterations" in capsys.readouterr().out
    assert run("reproduce", "nothing") == 2


SLOW = (
    "core",
    "streaming",
    "decoder",
    "l2hmc",
    "network-choices",
    "modes",
    "chart-chains",
    "certificate-hard",
    "bounds",
)


@pytest.mark.parametrize("name", ["greedy", "settings", *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
def test_the_smallest_preset_runs(name, tmp_path, capsys):
    assert run("bench", name, "--preset", "smoke", "--out", tmp_path) == 0, capsys.readouterr().err
    document = json.loads((tmp_path / "results.json").read_text())
    assert document["command"] == f"ergodic bench {name} --preset smoke" and document["results"]
    assert document["config"]["preset"] == "smoke" and document["tables"][0]["rows"]
    assert document["tables"][0]["title"] in capsys.readouterr().out and (tmp_path / "report.html").is_file()
