"""Download a collection from its public origins, or from a mirror, and keep only what is exactly as it should be.

A file is downloaded, converted and checked in a temporary folder beside its place, and moved there in one step:
whatever goes wrong, an interruption included, leaves the file that was there before, or none. Files that are there and
sound are not downloaded again.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from ..runtime import data_files
from ..runtime.data_registry import COLLECTIONS, File, Origin
from ..runtime.errors import ConfigError, DataError, unknown
from ..runtime.extras import require
from .content import digest
from .conversion import CONVERSIONS

MIRROR = "ERGODIC_MIRROR"
"""Environment variable: a base URL under which COLLECTION/FILE lie, used instead of the public origins."""
TIMEOUT = 30.0
"""Seconds to wait for a connection, and for the next bytes."""
_CHUNK = 1 << 16


class Fetched(NamedTuple):
    """A file of a collection, after `fetch`."""

    path: Path
    new: bool
    """Whether it was downloaded now; False when it was there and sound."""


def fetch(name: str, tell: Callable[[str], None] = lambda line: None) -> list[Fetched]:
    """See to it that a collection's files are there: in ERGODIC_DATA where it is set, else in the user's cache.

    Args:
        name: The collection's name, one of `data_registry.COLLECTIONS`.
        tell: A function that is given a line of text before every download.

    Returns:
        The collection's files, each with its path and whether it was downloaded now.
    """
    require_collection(name)
    return [_fetch_file(name, file, tell) for file in COLLECTIONS[name].files]


def require_collection(name: str) -> None:
    """Raise a `ConfigError` unless there is a collection of this name."""
    if name not in COLLECTIONS:
        raise ConfigError(unknown("collection to fetch", name, COLLECTIONS))


def _fetch_file(collection: str, file: File, tell: Callable[[str], None]) -> Fetched:
    present = data_files.find(collection, file.name)
    if present is not None and _sound(present, file):
        return Fetched(present, new=False)
    place = data_files.folders()[0] / collection / file.name
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetching-", dir=place.parent) as name:
            folder = Path(name)
            parts = [_download(collection, origin, folder / "parts", tell) for origin in file.origins]
            made = folder / file.name
            _make(collection, file, parts, made)
            os.replace(made, place)
    except OSError as error:
        raise DataError(
            f"cannot write {place} ({error.strerror or error}); make room for it, or set {data_files.VARIABLE} "
            "to a folder that can be written to"
        ) from error
    finally:
        with suppress(OSError):
            place.parent.rmdir()  # where nothing came, an empty folder
    return Fetched(place, new=True)


def _sound(path: Path, file: File) -> bool:
    try:
        return digest(path, file.digest.partition(":")[0], file.arrays) == file.digest
    except DataError:
        return False


def _download(collection: str, origin: Origin, folder: Path, tell: Callable[[str], None]) -> Path:
    """Bring one file, by pooch, which deletes what does not have the digest it should."""
    pooch = require("pooch", "data", "downloading data")
    requests = require("requests", "data", "downloading data")
    url = address(collection, origin)
    tell(f"fetching {url}")
    store = pooch.create(folder, base_url="", registry={origin.name: origin.digest}, urls={origin.name: url})
    # identity: a server that unwraps .gz files on the way would change their bytes
    http = pooch.HTTPDownloader(chunk_size=_CHUNK, timeout=TIMEOUT, headers={"Accept-Encoding": "identity"})
    try:
        with _quiet(pooch.get_logger()):
            return Path(store.fetch(origin.name, downloader=http))
    except requests.RequestException as error:
        raise DataError(
            f"cannot download {url}: {_reason(error)}; nothing was kept. Try again later, or name another place by "
            f"{MIRROR} (a base URL that has {collection}/{origin.name})"
        ) from error
    except ValueError as error:  # pooch's word for another digest
        raise _not_as_known(collection, [origin], "its digest is another") from error


def _make(collection: str, file: File, parts: Sequence[Path], out: Path) -> None:
    try:
        CONVERSIONS[file.conversion](parts, out)
    except ValueError as error:
        raise _not_as_known(collection, file.origins, str(error)) from error
    if not _sound(out, file):
        raise _not_as_known(collection, file.origins, "its contents are other ones")


def _not_as_known(collection: str, origins: Sequence[Origin], why: str) -> DataError:
    urls = ", ".join(address(collection, origin) for origin in origins)
    return DataError(
        f"{urls}: not the data of '{collection}' that is known ({why}): damaged on the way, or changed at its origin; "
        f"nothing was kept. Try again, or name another place by {MIRROR}"
    )


def address(collection: str, origin: Origin) -> str:
    """Where a file is downloaded from: its public origin, or the mirror that ERGODIC_MIRROR names."""
    mirror = os.environ.get(MIRROR)
    return f"{mirror.rstrip('/')}/{collection}/{origin.name}" if mirror else origin.base + origin.name


def _reason(error: Exception) -> str:
    response = getattr(error, "response", None)  # of requests' errors, those that came with an answer
    if response is not None:
        return f"the server answers {response.status_code} {response.reason}"
    return f"no connection, or it broke ({type(error).__name__})"


@contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    before = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(before)
