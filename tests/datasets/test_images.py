"""Images as arrays."""

import gzip
import hashlib
import shutil
from pathlib import Path

import numpy as np
import pytest

from data_ergodic import data_folder
from ergodic.datasets import images
from ergodic.datasets.content import read_idx
from ergodic.runtime import data_files
from ergodic.runtime.errors import ConfigError, DataError


@pytest.fixture(autouse=True)
def no_cache(monkeypatch, tmp_path):
    monkeypatch.setattr(data_files, "cache_folder", lambda: tmp_path / "cache")


@pytest.fixture(scope="module")
def mnist():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ERGODIC_DATA", data_folder())
        return images.load("mnist")


def check(loaded):
    """What holds for every data set."""
    pixels = loaded.shape[0] * loaded.shape[1]
    assert loaded.train.dtype == np.float32 and loaded.train.min() == 0 and loaded.train.max() == 1
    for part in ("train", "validation", "test"):
        rows, labels = getattr(loaded, part), getattr(loaded, f"{part}_labels")
        assert rows.shape == (len(labels), pixels)
        assert labels.dtype == np.uint8 and set(labels) == set(range(10))
    for judge in (loaded.validation, loaded.test):
        assert judge.dtype == np.uint8 and set(np.unique(judge)) == {0, 1}


DIGITS = ("a5826d2aae3209bf", "cd01448738b802fb", "b6c51488caec3708")  # test, validation, train: they never change


def sum_of(array):
    return hashlib.sha256(np.ascontiguousarray(array).data).hexdigest()[:16]


def test_digits_come_with_scikit_learn():
    digits = images.load("digits")
    check(digits)
    assert digits.shape == (8, 8) and (len(digits.train), len(digits.validation), len(digits.test)) == (1297, 200, 300)
    assert digits.train_only.shape == digits.train.shape
    assert np.array_equal(np.unique(digits.train) * 16, np.arange(17))
    # no row is in two parts, and none is lost: 1,797 rows with scikit-learn's labels
    from sklearn.datasets import load_digits

    bunch = load_digits()
    labels = np.concatenate([digits.train_labels, digits.validation_labels, digits.test_labels])
    np.testing.assert_array_equal(np.bincount(labels), np.bincount(bunch.target))
    trained = {(row * 16).astype(np.uint8).tobytes() for row in digits.train}
    held = sum(row.astype(np.uint8).tobytes() not in trained for row in bunch.data)
    assert held == 500  # all 1,797 images differ


def test_digits_are_binarised_once_by_their_grey_levels():
    first, second = images.load("digits"), images.load("digits")
    np.testing.assert_array_equal(first.test, second.test)
    assert (sum_of(first.test), sum_of(first.validation), sum_of(first.train)) == DIGITS
    # on pixels that are on in a share of the training images, so they are in the test images: z below 4.5
    share = first.train.mean(0)
    z = (first.test.mean(0) - share)[share > 0.05] / np.sqrt((share * (1 - share))[share > 0.05] / 300)
    assert np.abs(z).max() < 4.5


def test_mnist_is_larochelles_where_it_judges(mnist):
    check(mnist)
    assert mnist.shape == (28, 28) and (len(mnist.train), len(mnist.validation), len(mnist.test)) == (
        60_000,
        10_000,
        10_000,
    )
    with np.load(Path(data_folder()) / "mnist" / "binarized_mnist_larochelle_packed.npz") as packed:
        np.testing.assert_array_equal(mnist.validation, np.unpackbits(packed["valid"], axis=1))
        np.testing.assert_array_equal(mnist.shared_rows, packed["valid_mnist_index"])
        index = packed["test_mnist_index"]
        rows = {row.tobytes() for row in packed["test"]}
    assert {row.tobytes() for row in np.packbits(mnist.test, axis=1)} == rows
    # test labels go with the images: no pixel is on where the image of that label is black
    folder = Path(data_folder()) / "mnist"
    labels = read_idx(folder / "t10k-labels-idx1-ubyte.gz", (10_000,))
    grey = read_idx(folder / "t10k-images-idx3-ubyte.gz", (10_000, 28, 28)).reshape(-1, 784)
    order = index[np.random.RandomState(images.SEED).permutation(10_000)]
    np.testing.assert_array_equal(mnist.test_labels, labels[order])
    assert not (mnist.test[grey[order] == 0]).any() and mnist.test[grey[order] == 255].all()


def test_any_part_of_mnists_test_images_has_all_digits(mnist):
    counts = np.bincount(mnist.test_labels[:1000], minlength=10)
    assert counts.min() > 70 and counts.max() < 140


def test_mnists_validation_images_can_be_kept_from_training(mnist):
    assert mnist.train_only.shape == (50_000, 784)
    drawn_from = mnist.train[mnist.shared_rows]
    assert not mnist.validation[drawn_from == 0].any() and mnist.validation[drawn_from == 1].all()
    np.testing.assert_array_equal(mnist.validation_labels, mnist.train_labels[mnist.shared_rows])


def idx(array):
    return bytes([0, 0, 8, array.ndim]) + b"".join(size.to_bytes(4, "big") for size in array.shape) + array.tobytes()


def test_fashion_mnist_is_cut_and_binarised(monkeypatch, tmp_path):
    folder = tmp_path / "fashion-mnist"
    folder.mkdir()
    monkeypatch.setenv("ERGODIC_DATA", str(tmp_path))
    for part, count in (("train", 60_000), ("t10k", 10_000)):
        labels = np.arange(count, dtype=np.uint32) % 10
        pictures = np.zeros((count, 28, 28), np.uint8)
        pictures[:, 0, 0], pictures[:, 0, 1] = 255, 51 * (labels % 5)
        (folder / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(pictures), 1))
        (folder / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(labels.astype(np.uint8)), 1))
    fashion = images.load("fashion-mnist")
    check(fashion)
    assert (len(fashion.train), len(fashion.validation), len(fashion.test)) == (50_000, 10_000, 10_000)
    np.testing.assert_allclose(fashion.train[:5, 1], [0, 0.2, 0.4, 0.6, 0.8], rtol=1e-6)
    assert fashion.test[:, 0].all() and not fashion.test[:, 2:].any()
    shares = fashion.test[:, 1].reshape(-1, 5).mean(0)  # of 2,000 each; sd at most 0.011
    np.testing.assert_allclose(shares, [0, 0.2, 0.4, 0.6, 0.8], atol=0.05)
    assert not np.array_equal(fashion.test, fashion.validation)


def test_a_name_that_is_not_there():
    assert images.names() == ("digits", "mnist", "fashion-mnist")
    with pytest.raises(ConfigError, match=r"no image data set 'minst'; did you mean 'mnist'\?"):
        images.load("minst")


def test_a_file_that_is_missing(monkeypatch, tmp_path):
    monkeypatch.setenv("ERGODIC_DATA", str(tmp_path))
    with pytest.raises(DataError, match=r"'mnist' needs mnist/train-images.*run: ergodic data fetch mnist"):
        images.load("mnist")


TRAIN, LABELS, FIXED = (
    "train-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz",
    "binarized_mnist_larochelle_packed.npz",
)


@pytest.mark.parametrize(
    ("name", "damage", "why"),
    [
        (TRAIN, lambda path: path.write_bytes(path.read_bytes()[:100_000]), "end-of-stream"),
        (
            LABELS,
            lambda path: shutil.copyfile(path.with_name("train-labels-idx1-ubyte.gz"), path),
            r"shape is \(60000,\)",
        ),
        (LABELS, lambda path: shutil.copyfile(path.with_name("t10k-images-idx3-ubyte.gz"), path), "idx file of 1 axes"),
        (FIXED, lambda path: path.write_bytes(path.read_bytes()[:-100]), "zip"),
        (FIXED, lambda path: np.savez(path, valid=np.zeros((9, 98), np.uint8), test=1), "'valid' is uint8 of shape"),
    ],
)
def test_a_file_that_is_damaged(monkeypatch, tmp_path, name, damage, why):
    shutil.copytree(Path(data_folder()) / "mnist", tmp_path / "mnist")
    (tmp_path / "mnist").chmod(0o755)
    (tmp_path / "mnist" / name).chmod(0o644)
    damage(tmp_path / "mnist" / name)
    monkeypatch.setenv("ERGODIC_DATA", str(tmp_path))
    with pytest.raises(
        DataError, match=rf"mnist/{name} is damaged: .*{why}.*; fetch it again: ergodic data fetch mnist"
    ):
        images.load("mnist")
