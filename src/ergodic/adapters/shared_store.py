"""One Zarr store that several processes write: none waits for another, and any of them may die.

Part i of a store, one file of every array, is made by one process (`runtime/hosts.py`) and depends on the key and on i
alone. What is written while the store is unfinished is in the hidden folder beside it:

    .draws.zarr.part/run.json             what the draws depend on: whoever draws others is kept out
                     process-0/ ...       where each writes; locked, so that none is there twice
                     staged/3-524288/     part 3, whole, of a store with 524,288 draws at its end
                     commit               locked by whoever makes the store longer

A part is staged by one renaming. Then whoever holds the lock adds to the store all parts that come next in it, each
growth whole or not at all (`zarr_store.py`), and drops what it has added. So the store is the first draws of the run at
any time; what a process that was killed has staged is kept, and what it has not is drawn by the next run, with however
many processes. Locks end with the process that holds them.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from ..runtime.errors import StorageError
from ..runtime.files import write_atomically
from ..runtime.hosts import Share
from ..runtime.writing import empty, is_at, lock, real_path, work_folder
from .zarr_store import Attributes, Store, sweep

_PATIENCE = 0.5
_LOOK = 0.02


class Members:
    """The processes that write a store, as one of them sees it."""

    def __init__(self, path: Path, share: Share):
        self.path, self.share = path, share
        self._work = work_folder(path)
        self._own, self._staged = self._work / f"process-{share.index}", self._work / "staged"

    @contextmanager
    def joined(self, settings: Attributes, look: Callable[[], None] = lambda: None) -> Iterator[Members]:
        """Be one of them. Who draws otherwise, or is there already under this number, is kept out.

        Before anything is forgotten that others have staged, the store is looked at, which may refuse it.
        """
        with self._present() as handle:
            look()
            self._agree(settings, handle)
            with _opened(self._own) as own:
                if lock(own) is False:
                    raise StorageError(f"{self.share} is writing {self.path} already; give every process its number")
                empty(self._own)
                self._staged.mkdir(exist_ok=True)
                yield self

    @contextmanager
    def committing(self) -> Iterator[None]:
        """Be the one that changes the store; wait while another does."""
        handle = os.open(self._work / "commit", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            lock(handle, wait=True)
            yield
        finally:
            os.close(handle)

    def staged(self, part: int, end: int) -> Path | None:
        """Where a part is that has been made and is not in the store yet; None where it has not been."""
        folder = self._place(part, end)
        return folder if folder.is_dir() else None

    def stage(self, part: int, end: int, files: Mapping[str, bytes]) -> None:
        """Keep a part: whole or not at all."""
        folder = self._own / "part"
        for name, data in files.items():
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            with open(file, "wb") as out:
                out.write(data)
                out.flush()
                os.fsync(out.fileno())
        try:
            folder.rename(self._place(part, end))
        except OSError:
            if self.staged(part, end) is None:
                raise
            shutil.rmtree(folder)  # a run with another number of processes was faster

    def commit(self, store: Store, length: Callable[[], int], n: int, rows: int) -> int:
        """Add the staged parts that come next to the store, which is ``length()`` draws long; its new length."""
        with self.committing():
            there = length()
            if not there and self.path.is_dir():
                real_path(self.path).rmdir()  # an empty folder is no store yet
            while there < n:
                end = min((there // rows + 1) * rows, n)
                folder = self.staged(there // rows, end)
                if folder is None:
                    break
                shutil.rmtree(self._work / "new", ignore_errors=True)  # of one that was killed
                files = {str(file.relative_to(folder)): file.read_bytes() for file in _files(folder)}
                store.add(files, end)
                shutil.rmtree(folder)
                there = end
            for folder in self._staged.iterdir():
                if int(folder.name.rpartition("-")[2]) <= there:
                    shutil.rmtree(folder)  # of a run that asked for fewer draws
            if there == n:
                sweep(self.path)
            return there

    def _place(self, part: int, end: int) -> Path:
        return self._staged / f"{part}-{end}"

    def _agree(self, settings: Attributes, handle: int) -> None:
        """Refuse draws of another run while that is going on; forget them where nobody is."""
        file, said = self._work / "run.json", json.dumps(dict(settings), sort_keys=True)
        with self.committing():
            if file.exists() and file.read_text() == said:
                return
            if file.exists():
                if lock(handle) is False:
                    raise self._taken()
                empty(self._work, keep=("commit",))
            write_atomically(file, said.encode())
        lock(handle, shared=True)

    @contextmanager
    def _present(self) -> Iterator[int]:
        """Hold the folder as one of several; the last one removes it, where nothing is staged in it.

        Who finds it held by one process alone waits a little, since that may be removing it.
        """
        until = time.monotonic() + _PATIENCE
        while True:
            with _opened(self._work) as handle:
                mine = lock(handle, shared=True)
                if mine is False and time.monotonic() >= until:
                    raise self._taken()
                if mine is False or not is_at(handle, self._work):
                    time.sleep(_LOOK)
                    continue
                try:
                    yield handle
                finally:
                    with suppress(OSError):
                        staged = self._staged.is_dir() and any(self._staged.iterdir())
                        if not staged and lock(handle):
                            shutil.rmtree(self._work, ignore_errors=True)
                return

    def _taken(self) -> StorageError:
        return StorageError(f"another run is writing {self.path}; wait for it, or name another file")


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    """A folder, open so that it can be locked."""
    handle: int | None = None
    while handle is None:
        folder.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):  # its last holder has removed it meanwhile
            handle = os.open(folder, os.O_RDONLY)
    try:
        yield handle
    finally:
        os.close(handle)


def _files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.is_file())
