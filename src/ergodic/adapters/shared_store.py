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

import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from ..runtime.errors import StorageError
from ..runtime.files import write_atomically
from ..runtime.hosts import Share
from .zarr_store import Attributes, Store, sweep, work_folder


class Members:
    """The processes that write a store, as one of them sees it."""

    def __init__(self, path: Path, share: Share):
        self.path, self.share = path, share
        self._work = work_folder(path)
        self._own, self._staged = self._work / f"process-{share.index}", self._work / "staged"

    @contextmanager
    def joined(self, settings: Attributes) -> Iterator[Members]:
        """Be one of them. Who draws otherwise, or is there already under this number, is kept out."""
        with self._locked(fcntl.LOCK_SH) as handle:
            self._agree(settings, handle)
            with _locking(self._own) as own:
                if not _lock(own, fcntl.LOCK_EX):
                    raise StorageError(f"{self.share} is writing {self.path} already; give every process its number")
                _empty(self._own)
                self._staged.mkdir(exist_ok=True)
                yield self

    @contextmanager
    def committing(self) -> Iterator[None]:
        """Be the one that changes the store; wait while another does."""
        handle = os.open(self._work / "commit", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            _lock(handle, fcntl.LOCK_EX, wait=True)
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
                self.path.rmdir()  # an empty folder is no store yet
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
            if there == n:
                sweep(self.path)
            return there

    def leave(self) -> None:
        """Remove the folder of a store that is complete, if this process is the last."""
        with suppress(OSError), _locking(self._work) as handle:
            if _lock(handle, fcntl.LOCK_EX):
                shutil.rmtree(self._work, ignore_errors=True)

    def _place(self, part: int, end: int) -> Path:
        return self._staged / f"{part}-{end}"

    def _agree(self, settings: Attributes, handle: int) -> None:
        """Refuse draws of another run while that is going on; forget them where nobody is."""
        file, said = self._work / "run.json", json.dumps(dict(settings), sort_keys=True)
        with self.committing():
            if file.exists() and file.read_text() == said:
                return
            if file.exists():
                if not _lock(handle, fcntl.LOCK_EX):
                    raise StorageError(f"another run is writing {self.path}; wait for it, or name another file")
                _empty(self._work, keep=("commit",))
            write_atomically(file, said.encode())
        _lock(handle, fcntl.LOCK_SH)

    @contextmanager
    def _locked(self, kind: int) -> Iterator[int]:
        """Hold the folder as one of several; an error while a run of one process has it for itself."""
        while True:
            with _locking(self._work) as handle:
                if not _lock(handle, kind):
                    raise StorageError(f"another run is writing {self.path}; wait for it, or name another file")
                if self._work.exists() and os.path.samestat(os.fstat(handle), os.stat(self._work)):
                    yield handle
                    return  # otherwise the last process of another run has removed it meanwhile


@contextmanager
def _locking(folder: Path) -> Iterator[int]:
    """A folder, open so that it can be locked."""
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        yield handle
    finally:
        os.close(handle)


def _lock(handle: int, kind: int, *, wait: bool = False) -> bool:
    """Lock a file until it is closed; False where another has it. Where there are no locks, nobody is kept out."""
    try:
        fcntl.flock(handle, kind if wait else kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _empty(folder: Path, keep: tuple[str, ...] = ()) -> None:
    for left in folder.iterdir():
        if left.name not in keep:
            shutil.rmtree(left) if left.is_dir() else left.unlink()


def _files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.is_file())
