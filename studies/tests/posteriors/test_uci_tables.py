"""Regression tables and their splits."""

from pathlib import Path

import numpy as np
import pytest

from data_ergodic import data_folder
from ergodic.datasets.splits import pbp_splits
from ergodic.runtime import data_files
from ergodic.runtime.errors import ConfigError, DataError
from ergodic_studies.posteriors.uci_tables import Table, load_table, table_names

SIZES = {"boston": (506, 13), "concrete": (1030, 8), "wine": (1599, 11), "yacht": (308, 6), "diabetes": (442, 10)}


@pytest.fixture(autouse=True)
def homes(monkeypatch, tmp_path):
    monkeypatch.setattr(data_files, "cache_folder", lambda: tmp_path / "cache")


@pytest.mark.parametrize("name", SIZES)
def test_tables_have_their_rows_and_splits(name, monkeypatch):
    if name != "diabetes":
        monkeypatch.setenv("ERGODIC_DATA", data_folder())
    table = load_table(name)
    rows, features = SIZES[name]
    assert table.name == name and table.X.shape == (rows, features) == (len(table.y), len(table.features))
    assert table.X.dtype == table.y.dtype == np.float64 and np.isfinite(table.X).all() and np.isfinite(table.y).all()
    train, test = pbp_splits(rows)
    np.testing.assert_array_equal(table.train_index, train)
    np.testing.assert_array_equal(table.test_index, test)
    assert train.shape == (20, round(0.9 * rows)) and test.shape == (20, rows - round(0.9 * rows))
    split = table.split(19)
    np.testing.assert_array_equal(np.sort(np.concatenate([split.train_y, split.test_y])), np.sort(table.y))
    np.testing.assert_array_equal(split.test_x, table.X[test[19]])


def test_copies_of_training_rows_are_counted():
    inputs, target = np.array([[1.0], [1.0], [1.0], [2.0]]), np.array([5.0, 5.0, 6.0, 5.0])
    train, test = np.array([[0, 2], [2, 3]]), np.array([[1, 3], [0, 1]])
    assert Table("t", inputs, target, train, test, ("x",), "y").copied == 0.25


def test_every_table_is_listed():
    assert set(table_names()) == set(SIZES)
    with pytest.raises(ConfigError, match=r"no regression table 'yatch'; did you mean 'yacht'\?"):
        load_table("yatch")


def test_diabetes_is_raw():
    table = load_table("diabetes")
    assert table.features[0] == "age" and table.X[0, 0] == 59 and table.y[0] == 151
    with pytest.raises(ConfigError, match="splits 0 to 19, not 20"):
        table.split(20)


def test_without_its_file_a_table_says_what_to_run(monkeypatch, tmp_path):
    monkeypatch.setenv("ERGODIC_DATA", str(tmp_path))
    with pytest.raises(DataError, match=r"'wine' needs uci/wine_red\.npz.*run: ergodic data fetch uci"):
        load_table("wine")


def cut(arrays):
    arrays["X"] = arrays["X"][:-1]


def repeat(arrays):
    arrays["train_index"][3, 0] = arrays["train_index"][3, 1]


def blank(arrays):
    arrays["X"][0, 0] = np.nan


def drop(arrays):
    del arrays["y"]


@pytest.mark.parametrize(("damage", "why"), [(cut, "'X' has shape"), (repeat, "once"), (blank, "number"), (drop, "y")])
def test_a_damaged_table(monkeypatch, tmp_path, damage, why):
    with np.load(Path(data_folder()) / "uci" / "yacht.npz") as file:
        arrays = dict(file)
    damage(arrays)
    (tmp_path / "uci").mkdir()
    np.savez(tmp_path / "uci" / "yacht.npz", **arrays)
    monkeypatch.setenv("ERGODIC_DATA", str(tmp_path))
    with pytest.raises(DataError, match=rf"yacht\.npz is damaged: .*{why}.*fetch it again: ergodic data fetch uci"):
        load_table("yacht")
