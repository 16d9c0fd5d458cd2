"""Files are written whole or not at all, and what cannot be read is said in words."""

import os

import numpy as np
import pytest
from safetensors.numpy import save_file

from ergodic.runtime import files
from ergodic.runtime.errors import StorageError


def test_a_write_that_fails_leaves_the_file_that_was_there(tmp_path, monkeypatch):
    path = tmp_path / "new" / "file"
    files.write_atomically(path, b"first")
    assert path.read_bytes() == b"first"

    def broken(*names):
        raise OSError("the disk is full")

    monkeypatch.setattr(os, "replace", broken)
    with pytest.raises(StorageError, match="full"):
        files.write_atomically(path, b"second")
    assert path.read_bytes() == b"first" and list(path.parent.iterdir()) == [path]


def test_what_cannot_be_written_is_refused_before_any_work(tmp_path):
    with pytest.raises(StorageError, match="is a directory"):
        files.require_writable(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="cannot be written"):
        files.require_writable(tmp_path / "file" / "inside")
    files.require_writable(tmp_path / "some" / "folder" / "file")
    assert (tmp_path / "some" / "folder").is_dir()


def test_arrays_come_back_and_damage_is_said(tmp_path):
    path, arrays = tmp_path / "a", {"x": np.arange(3.0), "y": np.ones((2, 2), np.float32)}
    save_file(arrays, path, {"made": "here"})
    metadata, read = files.read_arrays(path, "a sampler's file")
    assert metadata == {"made": "here"} and files.digest(read) == files.digest(arrays)
    assert files.digest(arrays) != files.digest({"x": arrays["x"], "z": arrays["y"]})
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(StorageError, match=r"is not a sampler's file, or is damaged or truncated .*; fit again"):
        files.read_arrays(path, "a sampler's file", "; fit again")
    with pytest.raises(StorageError, match="no such file"):
        files.read_arrays(tmp_path / "b", "a sampler's file")


def test_leaves_are_named_by_their_paths():
    assert [name for name, _ in files.named_leaves({"b": [1, 2], "a": {"c": 3}})] == ["a/c", "b/0", "b/1"]
