"""Find the files of a data set: under the folder that ERGODIC_DATA names, else in the user's cache.

Both folders have one directory per collection, as `ORIGINS` lists them. Nothing is downloaded or verified here:
`ergodic.datasets.fetch` does both, and the code that reads a file checks its form.
"""

from __future__ import annotations

import os
import sys
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
    """The path of a collection's file, or a `DataError` that says what is missing and how to get it.

    Args:
        collection: The collection's name, one of `ORIGINS`.
        name: The file's name in the collection.
        needed_by: What the file is for, as the error should name it.
    """
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
    """The path of a collection's file, or None; ERGODIC_DATA is searched before the cache."""
    return next((path for folder in folders() if (path := folder / collection / name).is_file()), None)


def available(collection: str) -> bool:
    """Whether there is a folder of this collection, in ERGODIC_DATA or in the cache."""
    return any((folder / collection).is_dir() for folder in folders())


def folders() -> list[Path]:
    """The folders where files are looked for, in this order; fetched files go to the first."""
    named = os.environ.get(VARIABLE)
    return [*([Path(named).expanduser()] if named else []), cache_folder()]


def cache_folder() -> Path:
    """The user's own folder for data that was fetched without ERGODIC_DATA: the folder ``pooch.os_cache`` gives."""
    home = Path.home()
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return (Path(local) if local else home / "AppData" / "Local") / "ergodic" / "ergodic" / "Cache"
    named = os.environ.get("XDG_CACHE_HOME", "").strip()
    usual = home / "Library" / "Caches" if sys.platform == "darwin" else home / ".cache"
    return (Path(named) if named else usual) / "ergodic"
