"""Find the files of a data set: under the folder that ERGODIC_DATA names, else in the user's cache.

Both have one directory a collection, as `ORIGINS` lists them. Nothing is downloaded and nothing is verified here:
`fetch.fetch` does both, and whoever reads a file checks its form.
"""

from __future__ import annotations

import os
from pathlib import Path

from .data_registry import COLLECTIONS
from .errors import DataError

VARIABLE = "ERGODIC_DATA"
ORIGINS = {
    "posteriordb": "<posterior>.npz (param_names, mean, sd, mcse_mean, draws) and <data>.data.json, made from "
    "posteriordb (github.com/stan-dev/posteriordb)",
    "inference_gym": "german_credit_numeric.npz (X, y) and ground_truth_moments.npz, made from the Inference Gym "
    "(TensorFlow Probability) and the Statlog German credit data (UCI)",
    **{name: ", ".join(file.name for file in collection.files) for name, collection in COLLECTIONS.items()},
}


def data_file(collection: str, name: str, needed_by: str) -> Path:
    """The path of a collection's file; a `DataError` that says what is missing and how to get it."""
    path = find(collection, name)
    if path is not None:
        return path
    folder = os.environ.get(VARIABLE)
    if collection in COLLECTIONS:
        looked = " or ".join(str(folder / collection) for folder in folders())
        raise DataError(
            f"'{needed_by}' needs {collection}/{name}, which is not in {looked}; run: ergodic data fetch {collection}"
        )
    origin = f"{collection}/ with {ORIGINS[collection]}"
    if not folder:
        raise DataError(
            f"'{needed_by}' needs data that ergodic does not carry: set {VARIABLE} to a folder that has {origin}"
        )
    raise DataError(
        f"'{needed_by}' needs {collection}/{name}, which is not under {VARIABLE}={folder}; "
        f"that folder should have {origin}"
    )


def find(collection: str, name: str) -> Path | None:
    """The path of a collection's file where there is one, ERGODIC_DATA before the cache."""
    return next((path for folder in folders() if (path := folder / collection / name).is_file()), None)


def available(collection: str) -> bool:
    """Whether there is a folder of this collection, in ERGODIC_DATA or in the cache."""
    return any((folder / collection).is_dir() for folder in folders())


def folders() -> list[Path]:
    """Where files are looked for, in this order; fetched files go to the first."""
    named = os.environ.get(VARIABLE)
    return [*([Path(named).expanduser()] if named else []), cache_folder()]


def cache_folder() -> Path:
    """The user's own folder for what was fetched without ERGODIC_DATA."""
    import pooch

    return Path(pooch.os_cache("ergodic"))
