"""Where files are looked for, and what is said when they are not there."""

import pytest

from ergodic.runtime import data_files
from ergodic.runtime.errors import DataError


@pytest.fixture
def homes(monkeypatch, tmp_path):
    monkeypatch.setenv("ERGODIC_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(data_files, "cache_folder", lambda: tmp_path / "cache")
    return tmp_path


def put(folder, collection, name):
    path = folder / collection / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


def test_the_named_folder_comes_before_the_cache(homes, monkeypatch):
    cached = put(homes / "cache", "uci", "yacht.npz")
    assert data_files.data_file("uci", "yacht.npz", "yacht") == cached and data_files.available("uci")
    named = put(homes / "data", "uci", "yacht.npz")
    assert data_files.data_file("uci", "yacht.npz", "yacht") == named
    monkeypatch.delenv("ERGODIC_DATA")
    assert data_files.data_file("uci", "yacht.npz", "yacht") == cached
    assert not data_files.available("mnist")


def test_what_can_be_fetched_is_said_to_be(homes, monkeypatch):
    with pytest.raises(DataError) as error:
        data_files.data_file("fashion-mnist", "a.gz", "clothes")
    assert str(error.value) == (
        f"'clothes' needs fashion-mnist/a.gz, which is not in {homes}/data/fashion-mnist or "
        f"{homes}/cache/fashion-mnist; run: ergodic data fetch fashion-mnist"
    )
    monkeypatch.delenv("ERGODIC_DATA")
    with pytest.raises(DataError, match=r"not in [^ ]*/cache/mnist; run: ergodic data fetch mnist"):
        data_files.data_file("mnist", "a.gz", "mnist")


def test_what_cannot_be_fetched_is_said_to_belong_in_the_named_folder(homes, monkeypatch):
    with pytest.raises(DataError, match=r"not under ERGODIC_DATA=.*that folder should have posteriordb/ with"):
        data_files.data_file("posteriordb", "a.npz", "ark")
    monkeypatch.delenv("ERGODIC_DATA")
    with pytest.raises(DataError, match=r"set ERGODIC_DATA to a folder that has posteriordb/ with"):
        data_files.data_file("posteriordb", "a.npz", "ark")
    assert put(homes / "cache", "posteriordb", "a") == data_files.data_file("posteriordb", "a", "ark")


def test_the_cache_is_the_folder_that_pooch_gives(monkeypatch, tmp_path):
    pooch = pytest.importorskip("pooch")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert data_files.cache_folder().is_absolute() and data_files.cache_folder() == pooch.os_cache("ergodic")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert data_files.cache_folder() == tmp_path / "ergodic" == pooch.os_cache("ergodic")
