"""Find the files of a data set under the folder that the environment variable ERGODIC_DATA names.

The folder has one directory a collection, as `ORIGINS` lists them. Nothing is downloaded.
"""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import DataError

VARIABLE = "ERGODIC_DATA"
ORIGINS = {
    "posteriordb": "<posterior>.npz (param_names, mean, sd, mcse_mean, draws) and <data>.data.json, made from "
    "posteriordb (github.com/stan-dev/posteriordb)",
    "inference_gym": "german_credit_numeric.npz (X, y) and ground_truth_moments.npz, made from the Inference Gym "
    "(TensorFlow Probability) and the Statlog German credit data (UCI)",
}


def data_file(collection: str, name: str, needed_by: str) -> Path:
    """The path of a collection's file; a `DataError` that says what is missing and where it comes from."""
    origin = f"{collection}/ with {ORIGINS[collection]}"
    folder = os.environ.get(VARIABLE)
    if not folder:
        raise DataError(
            f"'{needed_by}' needs data that ergodic does not carry: set {VARIABLE} to a folder that has {origin}"
        )
    path = Path(folder).expanduser() / collection / name
    if not path.is_file():
        raise DataError(
            f"'{needed_by}' needs {collection}/{name}, which is not under {VARIABLE}={folder}; "
            f"that folder should have {origin}"
        )
    return path


def available(collection: str) -> bool:
    """Whether ERGODIC_DATA names a folder that has this collection."""
    folder = os.environ.get(VARIABLE)
    return bool(folder) and (Path(folder or "").expanduser() / collection).is_dir()
