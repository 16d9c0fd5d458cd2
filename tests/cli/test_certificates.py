"""The command `ergodic certify`."""

import pytest

from ergodic.cli import main


def run(*words):
    with pytest.raises(SystemExit) as stop:
        main(list(words))
    return stop.value.code


@pytest.fixture
def fitted(tmp_path):
    file = tmp_path / "a.ergodic"
    settings = ("--method", "HEI", "--set", "steps=2", "--set", "iterations=1")
    assert run("fit", "gaussian", "-o", str(file), *settings) == 0
    return file


def test_certify_prints_the_findings_keeps_the_verdict_and_says_it_by_its_exit_code(fitted, capsys):
    assert run("certify", str(fitted), "-n", "1500") == 3  # two steps of an untuned chain: far from the target
    out = capsys.readouterr().out
    assert "✗  stray draws" in out and "certificate: failed" in out and "try:" in out
    assert run("sample", str(fitted), "-n", "100", "-o", str(fitted.with_suffix(".npz"))) == 0
    assert "certificate: failed" in capsys.readouterr().out


def test_certify_refuses_what_it_cannot_use(fitted, capsys):
    assert run("certify", str(fitted), "-n", "5") == 1
    assert "too few to certify" in capsys.readouterr().err
    assert run("certify", str(fitted.with_name("none.ergodic"))) == 1
