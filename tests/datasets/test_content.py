"""Files that are not what they should be."""

import gzip

import numpy as np
import pytest

from ergodic.datasets import content
from ergodic.runtime.errors import DataError

AGAIN = r"is damaged: .*{}.*; fetch it again: ergodic data fetch mnist"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "mnist").mkdir()
    return tmp_path / "mnist"


def idx(array, kind=8):
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return bytes([0, 0, kind, array.ndim]) + sizes + array.tobytes()


def packed(data):
    """Without the hour in it: it is part of a test's name, which all workers must agree on."""
    return gzip.compress(data, mtime=0)


IMAGES = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)


def test_an_idx_file_is_read(folder):
    (folder / "a.gz").write_bytes(packed(idx(IMAGES)))
    np.testing.assert_array_equal(content.read_idx(folder / "a.gz", (2, 3, 4)), IMAGES, strict=True)


@pytest.mark.parametrize(
    ("written", "why"),
    [
        (packed(idx(IMAGES))[:-12], "end-of-stream"),
        (packed(idx(IMAGES))[:-4] + b"0000", "Incorrect length"),
        (b"<html>", "Not a gzipped file"),
        (packed(b"<html>"), "not an idx file of 3 axes"),
        (packed(b""), "not an idx file of 3 axes"),
        (packed(idx(IMAGES)[:9]), "not an idx file of 3 axes"),
        (packed(idx(IMAGES, kind=13)), "not an idx file of 3 axes"),
        (packed(idx(IMAGES.reshape(6, 4))), "not an idx file of 3 axes"),
        (packed(idx(IMAGES[:1])), r"shape is \(1, 3, 4\), not \(2, 3, 4\)"),
        (packed(idx(IMAGES)[:-5]), "19 values, not 24"),
        (packed(idx(IMAGES) + b"0"), "25 values, not 24"),
    ],
)
def test_an_idx_file_that_is_not_one(folder, written, why):
    (folder / "a.gz").write_bytes(written)
    with pytest.raises(DataError, match=rf"mnist/a\.gz {AGAIN.format(why)}"):
        content.read_idx(folder / "a.gz", (2, 3, 4))


def test_arrays_that_are_not_there(folder):
    path = folder / "a.npz"
    np.savez_compressed(path, a=IMAGES)
    np.testing.assert_array_equal(content.read_arrays(path, ["a"])["a"], IMAGES)
    with pytest.raises(DataError, match=AGAIN.format("no array b, c")):
        content.read_arrays(path, ["a", "b", "c"])


def npy(path):
    with path.open("wb") as file:
        np.save(file, IMAGES)


@pytest.mark.parametrize(
    "write",
    [
        lambda path: path.write_bytes(path.read_bytes()[:-30]),
        lambda path: path.write_bytes(path.read_bytes()[:60] + b"0000" + path.read_bytes()[64:]),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_text("<html>"),
        lambda path: np.savez(path, a=np.array([{}])),
        npy,
    ],
)
def test_an_npz_file_that_is_not_one(folder, write):
    path = folder / "a.npz"
    np.savez_compressed(path, a=np.random.default_rng(0).normal(size=100))
    write(path)
    with pytest.raises(DataError, match=rf"mnist/a\.npz {AGAIN.format('')}"):
        content.read_arrays(path, ["a"])


def test_digests_are_of_contents(folder):
    a, b = folder / "a.gz", folder / "b.gz"
    a.write_bytes(gzip.compress(b"abc", 1, mtime=1))
    b.write_bytes(gzip.compress(b"abc", 9, mtime=2))
    assert content.digest(a, "md5") == content.digest(b, "md5") == "md5:900150983cd24fb0d6963f7d28e17f72"
    a, b = folder / "a.npz", folder / "b.npz"
    np.savez(a, x=IMAGES, y=IMAGES[0])
    np.savez_compressed(b, y=IMAGES[0], x=IMAGES)
    same = content.digest(a, "sha256", ["x", "y"])
    assert same == content.digest(b, "sha256", ["x", "y"]) != content.digest(a, "sha256", ["x"])
    np.savez(a, x=IMAGES.reshape(6, 4), y=IMAGES[0])
    np.savez(b, x=IMAGES.astype(np.int8), y=IMAGES[0])
    assert len({same, content.digest(a, "sha256", ["x", "y"]), content.digest(b, "sha256", ["x", "y"])}) == 3
