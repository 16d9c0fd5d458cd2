"""`ergodic data list` and `ergodic data fetch`."""

import pytest

from ergodic.cli import main
from ergodic.runtime import data_registry as registry
from mirror_ergodic import at_home, toy


@pytest.fixture
def mirror(monkeypatch, tmp_path):
    with at_home(monkeypatch, tmp_path) as mirror:
        monkeypatch.setitem(registry.COLLECTIONS, "toy", toy(tmp_path / "origin"))
        yield mirror


def run(*words):
    with pytest.raises(SystemExit) as stop:
        main(list(words))
    return stop.value.code


def row(out, name):
    return next(line for line in out.splitlines() if line.split()[:1] == [name])


def test_what_is_missing_is_listed_fetched_and_then_there(mirror, tmp_path, capsys):
    assert run("data", "list") == 0
    out = capsys.readouterr().out
    assert row(out, "toy").split(maxsplit=2)[1:] == ["missing", "run: ergodic data fetch toy"]
    assert "there" in row(out, "digits") and "set ERGODIC_DATA" in row(out, "posteriordb")
    assert f"looked for in {tmp_path}/data, then {tmp_path}/cache" in out

    assert run("data", "fetch", "toy") == 0
    out = capsys.readouterr().out
    assert f"fetching {mirror.url}/toy/a.gz" in out and f"{tmp_path}/data/toy/a.gz: fetched (0.0 MB)" in out
    assert run("data", "list") == 0
    assert row(capsys.readouterr().out, "toy").split() == ["toy", "there", f"{tmp_path}/data/toy"]
    assert run("data", "fetch", "toy") == 0
    assert "fetching" not in (out := capsys.readouterr().out) and "there already" in out


def test_a_collection_of_which_some_files_are_there(mirror, tmp_path, capsys):
    (tmp_path / "cache" / "uci").mkdir()
    (tmp_path / "cache" / "uci" / "yacht.npz").touch()
    assert run("data", "list") == 0
    line = row(capsys.readouterr().out, "uci")
    assert "in part" in line and f"{tmp_path}/cache/uci, run: ergodic data fetch uci" in line


def test_errors_are_one_line(mirror, tmp_path, capsys):
    assert run("data", "fetch", "toy", "digitz") == 1
    assert "error: no collection to fetch 'digitz'" in capsys.readouterr().err
    assert mirror.asked == []  # names are looked at before anything is downloaded
    (tmp_path / "origin" / "toy" / "a.gz").write_bytes(b"other")
    assert run("data", "fetch", "toy") == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "toy/a.gz: not the data of 'toy'" in error and "Try again" in error
    assert run("data", "fetch") == 2
