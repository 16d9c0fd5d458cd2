"""Output: one writer at a time, and nothing replaced that is not a file."""

import errno
import os
import signal
import stat
import threading
import time

import pytest

from ergodic.runtime import writing
from ergodic.runtime.errors import StorageError
from ergodic.runtime.files import require_writable, write_atomically
from ergodic.runtime.writing import replacing, sole_writer, work_folder
from processes_ergodic import held_by_another_process


def test_a_second_process_is_refused_until_the_first_one_has_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "PATIENCE", 0.05)
    path = tmp_path / "d.nc"
    path.write_bytes(b"before")
    with held_by_another_process(path):
        with pytest.raises(StorageError, match=r"another run is writing .*d\.nc; wait"):
            write_atomically(path, b"after")
        assert path.read_bytes() == b"before"
    write_atomically(path, b"after")
    assert path.read_bytes() == b"after" and list(tmp_path.iterdir()) == [path]


def test_the_next_writer_sweeps_what_a_killed_one_left(tmp_path):
    path = tmp_path / "d.nc"
    with held_by_another_process(path) as other:
        (work_folder(path) / "123-0").write_bytes(b"half")
        (work_folder(path) / "new").mkdir()
        other.send_signal(signal.SIGKILL)
        other.wait(10)
        write_atomically(path, b"whole")
        assert list(tmp_path.iterdir()) == [path]
        work_folder(path).mkdir()


def test_two_threads_write_one_file_in_turn(tmp_path):
    """The second waits for the first; what either wrote is whole."""
    path, seen = tmp_path / "d", []
    entered, go_on = threading.Event(), threading.Event()

    def first():
        with replacing(path) as temporary:
            temporary.write_bytes(b"first")
            entered.set()
            go_on.wait(10)
        seen.append("first")

    def second():
        write_atomically(path, b"second")
        seen.append("second")

    threads = [threading.Thread(target=first), threading.Thread(target=second)]
    threads[0].start()
    entered.wait(10)
    threads[1].start()
    time.sleep(0.1)  # long enough for a second writer that does not wait
    assert not path.exists()
    go_on.set()
    for thread in threads:
        thread.join(10)
    assert seen == ["first", "second"] and path.read_bytes() == b"second" and list(tmp_path.iterdir()) == [path]


def test_a_work_folder_that_was_removed_is_made_again(tmp_path, monkeypatch):
    """Its last holder removes it: between the opening and the locking of a folder it may be gone."""
    path, calls, lock = tmp_path / "d", [], writing.lock

    def removed_first(handle):
        calls.append(handle)
        if len(calls) == 1:
            work_folder(path).rmdir()
        return lock(handle)

    monkeypatch.setattr(writing, "lock", removed_first)
    with sole_writer(path) as folder:
        assert folder.is_dir() and len(calls) == 2


def test_without_locks_nobody_is_kept_out_and_nothing_is_swept(tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "lock", lambda handle: None)
    path = tmp_path / "d"
    work_folder(path).mkdir()
    (work_folder(path) / "another").write_bytes(b"being written")
    write_atomically(path, b"whole")
    assert path.read_bytes() == b"whole" and (work_folder(path) / "another").exists()


def test_a_link_is_followed_and_permissions_are_kept(tmp_path):
    real, link = tmp_path / "real", tmp_path / "elsewhere" / "link"
    link.parent.mkdir()
    link.symlink_to(real)
    before = os.umask(0o077)
    try:
        write_atomically(link, b"one")
        assert stat.S_IMODE(real.stat().st_mode) == 0o600  # as the umask says
        os.umask(0o022)
        write_atomically(link, b"two")
        assert stat.S_IMODE(real.stat().st_mode) == 0o600  # as it was
        write_atomically(tmp_path / "new", b"three")
        assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o644
    finally:
        os.umask(before)
    assert link.is_symlink() and real.read_bytes() == b"two"


def test_what_is_not_a_file_is_refused_and_stays(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for path, said in (
        (pipe, "a device, a pipe or a socket"),
        (os.devnull, "a device"),
        (tmp_path, "is a directory"),
        (loop, "symbolic links"),
    ):
        for write in (require_writable, lambda path: write_atomically(path, b"x")):
            with pytest.raises(StorageError, match=said):
                write(path)
    assert stat.S_ISFIFO(pipe.stat().st_mode) and stat.S_ISCHR(os.stat(os.devnull).st_mode)


def test_errors_of_the_disk_name_the_file(tmp_path):
    (tmp_path / "file").touch()
    inside = tmp_path / "file" / "inside"
    for write in (require_writable, lambda path: write_atomically(path, b"x")):
        with pytest.raises(StorageError, match=r"inside.* cannot be written: .*file is a file, not a folder"):
            write(inside)
        with pytest.raises(StorageError, match=r"deeper.* cannot be written: .*file is a file, not a folder"):
            write(inside / "deeper")
    path = tmp_path / "full"
    with pytest.raises(StorageError, match=r"full cannot be written: No space left"), replacing(path):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert [each.name for each in tmp_path.iterdir()] == ["file"]
