"""Regression tables with the 20 random splits that Bayesian networks are compared on (`splits.pbp_splits`).

Nothing is normalised: standardise by the training rows of a split, and report errors in the target's own units.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int

from ergodic.datasets.content import damaged, read_arrays
from ergodic.datasets.splits import SPLITS, pbp_splits
from ergodic.runtime.data_files import data_file
from ergodic.runtime.errors import ConfigError, unknown
from ergodic.runtime.extras import require


class Split(NamedTuple):
    """The training and test rows of one split."""

    train_x: Float64[np.ndarray, "train features"]
    train_y: Float64[np.ndarray, " train"]
    test_x: Float64[np.ndarray, "test features"]
    test_y: Float64[np.ndarray, " test"]


@dataclass(frozen=True, eq=False)
class Table:
    """A regression table, raw, with its splits."""

    name: str
    X: Float64[np.ndarray, "rows features"]
    y: Float64[np.ndarray, " rows"]
    train_index: Int[np.ndarray, "splits train"]
    """Row numbers, one row of them per split."""
    test_index: Int[np.ndarray, "splits test"]
    features: tuple[str, ...]
    target: str

    def split(self, number: int) -> Split:
        """The rows of one split, whose number is 0 to 19."""
        if not 0 <= number < len(self.train_index):
            raise ConfigError(f"'{self.name}' has splits 0 to {len(self.train_index) - 1}, not {number}")
        train, test = self.train_index[number], self.test_index[number]
        return Split(self.X[train], self.y[train], self.X[test], self.y[test])

    @property
    def copied(self) -> float:
        """The fraction of test rows that also stand among the training rows, target included; a mean over splits."""
        rows = np.column_stack([self.X, self.y])
        kind = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)
        pairs = zip(self.train_index, self.test_index, strict=True)
        return float(np.mean([np.isin(kind[test], kind[train]).mean() for train, test in pairs]))


class _Entry(NamedTuple):
    file: str
    rows: int
    features: tuple[str, ...]
    target: str


_UCI = {
    "boston": _Entry(
        "boston.npz",
        506,
        ("crim", "zn", "indus", "chas", "nox", "rm", "age", "dis", "rad", "tax", "ptratio", "b", "lstat"),
        "median value, $1000",
    ),
    "concrete": _Entry(
        "concrete.npz",
        1030,
        ("cement", "slag", "fly ash", "water", "superplasticiser", "coarse aggregate", "fine aggregate", "age"),
        "compressive strength, MPa",
    ),
    "wine": _Entry(
        "wine_red.npz",
        1599,
        (
            "fixed acidity",
            "volatile acidity",
            "citric acid",
            "residual sugar",
            "chlorides",
            "free sulphur dioxide",
            "total sulphur dioxide",
            "density",
            "pH",
            "sulphates",
            "alcohol",
        ),
        "quality score",
    ),
    "yacht": _Entry(
        "yacht.npz",
        308,
        (
            "position of buoyancy",
            "prismatic coefficient",
            "length-displacement",
            "beam-draught",
            "length-beam",
            "Froude number",
        ),
        "residuary resistance",
    ),
}


def load_table(name: str) -> Table:
    """Load the table of this name, which is one of `table_names`."""
    if name == "diabetes":
        return _diabetes()
    if name not in _UCI:
        raise ConfigError(unknown("regression table", name, table_names()))
    return _uci(name)


def table_names() -> tuple[str, ...]:
    """The tables there are; ``diabetes`` comes with scikit-learn, the others are of the collection ``uci``."""
    return (*_UCI, "diabetes")


def _diabetes() -> Table:
    bunch = require("sklearn.datasets", "data", "the diabetes table").load_diabetes(scaled=False)
    train, test = pbp_splits(len(bunch.target))
    return Table(
        "diabetes",
        np.asarray(bunch.data, np.float64),
        np.asarray(bunch.target, np.float64),
        train,
        test,
        tuple(bunch.feature_names),
        "disease progression after a year",
    )


def _uci(name: str) -> Table:
    entry = _UCI[name]
    path = data_file("uci", entry.file, name)
    arrays = read_arrays(path, ("X", "y", "train_index", "test_index"))
    trained = round(0.9 * entry.rows)
    shapes = {
        "X": (entry.rows, len(entry.features)),
        "y": (entry.rows,),
        "train_index": (SPLITS, trained),
        "test_index": (SPLITS, entry.rows - trained),
    }
    for part, shape in shapes.items():
        if arrays[part].shape != shape:
            raise damaged(path, f"'{part}' has shape {arrays[part].shape}, not {shape}")
    rows = np.concatenate([arrays["train_index"], arrays["test_index"]], axis=1)
    if not (np.sort(rows, axis=1) == np.arange(entry.rows)).all() or not np.isfinite(arrays["X"]).all():
        raise damaged(path, "its splits do not have every row once, or a feature is not a number")
    return Table(
        name,
        arrays["X"].astype(np.float64),
        arrays["y"].astype(np.float64),
        arrays["train_index"].astype(np.int64),
        arrays["test_index"].astype(np.int64),
        entry.features,
        entry.target,
    )
