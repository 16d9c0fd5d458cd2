"""A cell is run once, found by its settings, and run anew when they change."""

import hashlib
import json

import numpy as np
import pytest

from ergodic_studies.harness.cells import Cell, name_of, read_arrays, settings_hash, write_arrays


def cell(ran, value=1.0, words=("gaussian", "mean-field VI", 3)):
    def work(path):
        ran.append(path.name)
        return {"value": value}

    return Cell(words, {"value": value, "b": [1, 2]}, work)


def test_a_cell_is_run_once_unless_it_is_wanted_again(tmp_path):
    ran = []
    one = cell(ran)
    assert not one.finished(tmp_path) and one.kept(tmp_path) is None
    assert one.result(tmp_path) == one.result(tmp_path) == one.kept(tmp_path) == {"value": 1.0}
    assert ran == [one.name] and one.finished(tmp_path)
    one.result(tmp_path, again=True)
    assert len(ran) == 2


def test_other_settings_are_another_cell_with_the_same_words(tmp_path):
    ran = []
    cell(ran).result(tmp_path)
    cell(ran, 2.0).result(tmp_path)
    cell(ran, 3.0, ("gaussian", "HEI", 3)).result(tmp_path)
    assert len(set(ran)) == 3
    assert sorted(found["value"] for found in cell(ran).with_any_settings(tmp_path)) == [1.0, 2.0]


@pytest.mark.parametrize("damage", [b"[]", b"{}", b"", b"[" * 100_000, b'{"value": 1.0}', None])
def test_a_damaged_cell_is_run_again(tmp_path, damage):
    """So is one whose file is another cell's; it used to be taken for the result."""
    ran = []
    one, other = cell(ran), cell(ran, 2.0)
    other.result(tmp_path)
    one.result(tmp_path)
    whole = one.file(tmp_path).read_bytes()
    one.file(tmp_path).write_bytes(other.file(tmp_path).read_bytes() if damage is None else damage)
    assert one.kept(tmp_path) is None and len(list(one.with_any_settings(tmp_path))) == 1
    assert one.result(tmp_path) == {"value": 1.0} and one.file(tmp_path).read_bytes() == whole
    assert len(ran) == 3


def test_a_cell_that_failed_leaves_nothing(tmp_path):
    def work(path):
        raise ValueError("no luck")

    broken = Cell(("a",), 1, work)
    with pytest.raises(ValueError, match="no luck"):
        broken.result(tmp_path)
    assert not broken.finished(tmp_path)


def test_names_hold_the_words_and_a_hash_that_ignores_the_order_of_keys():
    assert settings_hash({"a": 1, "b": 2}) == settings_hash({"b": 2, "a": 1}) != settings_hash({"a": 1, "b": 3})
    known = hashlib.sha256(json.dumps(["HEI", {"steps": 10}, 5], sort_keys=True).encode()).hexdigest()[:8]
    assert name_of(("ring", "modes .5/.5", 7), ["HEI", {"steps": 10}, 5]) == f"ring-modes_.5_.5-7-{known}"


def test_arrays_are_kept_beside_a_cell_whose_name_has_a_dot(tmp_path):
    write_arrays(tmp_path / "rate-0.5-abc", {"x": np.arange(3)})
    write_arrays(tmp_path / "rate-0.7-abc", {"x": np.arange(4)})
    assert read_arrays(tmp_path / "rate-0.5-abc")["x"].tolist() == [0, 1, 2]
