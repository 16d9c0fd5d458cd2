"""Output to disk: one writer at a time, a file whole or not at all, and nothing replaced that is not a file.

A writer holds a hidden folder beside its output, ``.draws.nc.part`` for ``draws.nc``, locked until its process ends,
however it ends. What is being written lies there under a name that no other process uses, and is renamed into its place
when it is complete. The next writer of the same output removes what a killed one left there.

A link is followed: what it leads to is written. A file that is replaced keeps its owner and permissions, a new one has
those that the umask gives. A device, a pipe or a folder is refused.
"""

from __future__ import annotations

import os
import shutil
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from .errors import StorageError

PATIENCE = 10.0
"""Seconds that a writer waits for another one of the same file; writing one takes less."""
_LOOK = 0.02
_guard = threading.Lock()
_number = count()


@dataclass
class _Hold:
    """A work folder that a thread of this process holds: by which lock, and how many times over."""

    lock: int | None
    thread: int
    times: int = 1


_held: dict[Path, _Hold] = {}


def real_path(path: str | os.PathLike[str]) -> Path:
    """Where a path leads, through all links."""
    return Path(os.path.realpath(path))


def work_folder(path: str | os.PathLike[str]) -> Path:
    """The hidden folder beside an output, on its disk, where it is written before it is in its place."""
    real = real_path(path)
    return real.with_name(f".{real.name}.part")


def require_file_name(path: str | os.PathLike[str]) -> None:
    """Refuse a path that is there and is not a file: a folder, a device, a pipe."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return
    except NotADirectoryError as error:
        parent = next(folder for folder in Path(path).absolute().parents if folder.exists())
        raise StorageError(f"{path} cannot be written: {parent} is a file, not a folder") from error
    except OSError as error:
        raise _unwritable(path, error) from error
    if stat.S_ISDIR(mode):
        raise StorageError(f"{path} is a directory; give a file name")
    if not stat.S_ISREG(mode):
        raise StorageError(f"{path} is a device, a pipe or a socket, which output would replace; give a file name")


@contextmanager
def sole_writer(path: str | os.PathLike[str], patience: float = 0.0) -> Iterator[Path]:
    """Hold an output's work folder, emptied of what a killed run left there.

    While another run, or another thread, holds it: wait for so many seconds (``patience``), then an error. The thread
    that holds it can hold it again. Where the file system has no locks nobody is kept out, and nothing is swept, since
    it may be another writer's.
    """
    folder, until = work_folder(path), time.monotonic() + patience
    while (taken := _taken(folder, path)) is not True:
        if taken is False and time.monotonic() >= until:
            raise StorageError(f"another run is writing {path}; wait for it, or name another file")
        time.sleep(_LOOK)
    try:
        yield folder
    finally:
        with _guard:
            hold = _held[folder]
            hold.times -= 1
            if not hold.times:
                del _held[folder]
                if hold.lock is None:
                    with suppress(OSError):
                        folder.rmdir()
                else:
                    shutil.rmtree(folder, ignore_errors=True)
                    os.close(hold.lock)


def _taken(folder: Path, path: str | os.PathLike[str]) -> bool | None:
    """Whether this thread holds the work folder now, which is made where it is missing; None: it was just removed."""
    with _guard:
        if folder in _held:
            if _held[folder].thread == threading.get_ident():
                _held[folder].times += 1
                return True
            return False
        try:
            folder.mkdir(parents=True, exist_ok=True)
            handle = os.open(folder, os.O_RDONLY)
        except FileNotFoundError:
            return None
        except OSError as error:
            if os.name != "nt" or not folder.is_dir():  # folders cannot be opened there
                raise _unwritable(path, error) from error
            _held[folder] = _Hold(None, threading.get_ident())
            return True
        mine = lock(handle)
        if mine and is_at(handle, folder):
            empty(folder)
            _held[folder] = _Hold(handle, threading.get_ident())
            return True
        os.close(handle)
        if mine is None:
            _held[folder] = _Hold(None, threading.get_ident())
            return True
        return None if mine else False


def is_at(handle: int, folder: Path) -> bool:
    """Whether an open folder is the one that has its name now: its last holder may have removed it."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(folder))
    except FileNotFoundError:
        return False


def empty(folder: Path, keep: tuple[str, ...] = ()) -> None:
    """Remove everything in a folder but what is to be kept."""
    for left in folder.iterdir():
        if left.name not in keep:
            shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()


def lock(handle: int, *, shared: bool = False, wait: bool = False) -> bool | None:
    """Whether this process now has the lock, alone or shared, until it closes the file or ends, however it ends.

    None where there are no locks. A lock that it had already on this handle becomes the other kind.
    """
    try:
        import fcntl

        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        fcntl.flock(handle, kind if wait else kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):
        return None
    return True


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A new name to write a file under; at the end it is flushed to disk and put into its place.

    Any error of the disk becomes one that names the file, which is then as it was.
    """
    require_file_name(path)
    real = real_path(path)
    with sole_writer(path, PATIENCE) as folder:
        temporary = folder / f"{os.getpid()}-{next(_number)}"
        try:
            yield temporary
            with open(temporary, "rb+") as file:
                _take_after(file.fileno(), real)
                os.fsync(file.fileno())
            os.replace(temporary, real)
            flush(real.parent)
        except OSError as error:
            raise _unwritable(path, error) from error
        finally:
            temporary.unlink(missing_ok=True)


def _take_after(handle: int, real: Path) -> None:
    """Give an open file the owner, where that is allowed, and the permissions of the file that it will replace."""
    with suppress(FileNotFoundError):
        before = os.stat(real)
        if os.name != "nt":
            with suppress(OSError):
                os.fchown(handle, before.st_uid, before.st_gid)
            os.fchmod(handle, stat.S_IMODE(before.st_mode))


def flush(folder: Path) -> None:
    """Flush the names of a folder's files to disk, where folders can be opened."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _unwritable(path: str | os.PathLike[str], error: OSError) -> StorageError:
    return StorageError(f"{path} cannot be written: {error.strerror or error}")
