"""Images for generative models: grey levels to train on, fixed binary images to be judged by.

Training images are grey levels in [0, 1], to be binarised anew every time they are seen: a pixel is 1 with its grey
level as probability (Salakhutdinov & Murray, ICML 2008). Validation and test images are binary and never change:
Larochelle's for MNIST, drawn once by `SEED` for the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float32, Int, UInt8

from ..runtime.data_files import data_file
from ..runtime.errors import ConfigError, unknown
from ..runtime.extras import require
from .content import damaged, read_arrays, read_idx

SEED = 0
"""The seed of every shuffle and every binarisation in this file."""
VALIDATION_ROWS = Path(__file__).with_name("mnist_validation_rows.npy")
"""Which of MNIST's 60,000 training images Larochelle's validation images were drawn from, row by row. Inferred: the
most likely one-to-one match, which no pixel contradicts; a few look-alikes may be swapped."""


@dataclass(frozen=True, eq=False)
class Images:
    """A data set of images, one image per row."""

    name: str
    shape: tuple[int, int]
    """Height and width; ``pixels`` is their product, row-major."""
    train: Float32[np.ndarray, "train pixels"]
    """Grey levels in [0, 1]."""
    validation: UInt8[np.ndarray, "validation pixels"]
    """Binary images that never change, to choose between models by."""
    test: UInt8[np.ndarray, "test pixels"]
    """Binary images in random order, so that any part of them is a sample of the whole."""
    train_labels: UInt8[np.ndarray, " train"]
    validation_labels: UInt8[np.ndarray, " validation"]
    test_labels: UInt8[np.ndarray, " test"]
    shared_rows: Int[np.ndarray, " shared"]
    """Rows of ``train`` whose images are also, binarised, in ``validation``."""

    @property
    def train_only(self) -> Float32[np.ndarray, "rows pixels"]:
        """``train`` without the images of ``validation``: what to train on when validation images decide anything."""
        return np.delete(self.train, self.shared_rows, axis=0)


def load(name: str) -> Images:
    """Load the data set of this name, which is one of `names`."""
    if name not in _LOADERS:
        raise ConfigError(unknown("image data set", name, _LOADERS))
    return _LOADERS[name]()


def names() -> tuple[str, ...]:
    """The names of the data sets of images."""
    return tuple(_LOADERS)


def _digits() -> Images:
    """8x8 digits that scikit-learn carries: 1,297 for training, 200 for validation, 300 for testing."""
    bunch = require("sklearn.datasets", "data", "the digits data set").load_digits()
    order = _generator().permutation(len(bunch.data))
    rows, labels = bunch.data[order], bunch.target[order]
    return _cut("digits", (8, 8), 16, (rows[:-300], labels[:-300]), (rows[-300:], labels[-300:]), 200)


def _fashion() -> Images:
    """Fashion-MNIST: of its 60,000 for training, the last 10,000 are for validation."""
    train, test = _idx_images("fashion-mnist")
    return _cut("fashion-mnist", (28, 28), 255, train, test, 10_000)


def _mnist() -> Images:
    """MNIST, with Larochelle's validation and test images; his validation images are among the 60,000."""
    (train, train_labels), (_, test_labels) = _idx_images("mnist")
    path = data_file("mnist", "binarized_mnist_larochelle_packed.npz", "mnist")
    packed = read_arrays(path, ("valid", "test"))
    for part, rows in packed.items():
        if rows.shape != (10_000, 98) or rows.dtype != np.uint8:
            raise damaged(path, f"'{part}' is {rows.dtype} of shape {rows.shape}, not packed bits of 10,000 images")
    rows = np.load(VALIDATION_ROWS).astype(np.int64)
    order = _generator().permutation(len(test_labels))  # Larochelle's test rows are sorted by class
    return Images(
        name="mnist",
        shape=(28, 28),
        train=_grey(train, 255),
        validation=np.unpackbits(packed["valid"], axis=1),
        test=np.unpackbits(packed["test"], axis=1)[order],
        train_labels=train_labels,
        validation_labels=train_labels[rows],
        test_labels=np.sort(test_labels)[order],
        shared_rows=rows,
    )


_LOADERS: dict[str, Callable[[], Images]] = {"digits": _digits, "mnist": _mnist, "fashion-mnist": _fashion}


def _idx_images(name: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """Training and test images (bytes, one image per row) with their labels, from MNIST's kind of files."""
    pairs = []
    for part, count in (("train", 60_000), ("t10k", 10_000)):
        images = read_idx(data_file(name, f"{part}-images-idx3-ubyte.gz", name), (count, 28, 28))
        labels = read_idx(data_file(name, f"{part}-labels-idx1-ubyte.gz", name), (count,))
        pairs.append((images.reshape(count, -1), labels))
    return pairs


def _cut(
    name: str,
    shape: tuple[int, int],
    white: int,
    train_set: tuple[np.ndarray, np.ndarray],
    test_set: tuple[np.ndarray, np.ndarray],
    validation: int,
) -> Images:
    """Images of levels 0 to ``white``, whose last ``validation`` training rows are kept from training."""
    generator = _generator()
    (train, train_labels), (test, test_labels) = train_set, test_set
    return Images(
        name=name,
        shape=shape,
        train=_grey(train[:-validation], white),
        validation=_binary(train[-validation:] / white, generator),
        test=_binary(test / white, generator),
        train_labels=train_labels[:-validation].astype(np.uint8),
        validation_labels=train_labels[-validation:].astype(np.uint8),
        test_labels=test_labels.astype(np.uint8),
        shared_rows=np.empty(0, np.int64),
    )


def _grey(levels: np.ndarray, white: int) -> np.ndarray:
    return levels.astype(np.float32) / np.float32(white)


def _binary(grey: np.ndarray, generator: np.random.RandomState) -> np.ndarray:
    return (generator.random_sample(grey.shape) < grey).astype(np.uint8)


def _generator() -> np.random.RandomState:
    """A generator that NumPy promises never to change, so that the images never change either."""
    return np.random.RandomState(SEED)
