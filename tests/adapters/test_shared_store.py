"""One store that several processes write: the same bytes as one process writes, whoever was killed on the way."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

import ergodic as eg
from ergodic.adapters import streaming, zarr_store
from ergodic.adapters.shared_store import Members
from ergodic.adapters.streaming import mended, stream
from ergodic.runtime.hosts import Share

CHUNK, ROWS, N = 32, 64, 300  # five files an array, the last of them short
KEY = jax.random.key(1)


@pytest.fixture
def small(monkeypatch):
    """32 draws at a time, 64 a file, and no waiting for the disk."""
    monkeypatch.setattr(streaming, "default_chunk", lambda dim: CHUNK)
    monkeypatch.setattr(streaming, "_ROWS", ROWS)
    monkeypatch.setattr(os, "fsync", lambda handle: None)


@pytest.fixture(scope="module")
def sampler():
    return eg.HEI(steps=2, leapfrogs=1).untuned(eg.targets.get("gaussian"), jax.random.key(0))


def contents(folder):
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def written(sampler, folder, *shares, n=N):
    """The length of the store after each of some processes has made its share, one after the other."""
    return [stream(sampler, KEY, n, folder / "d.zarr", share=Share(*share)).after for share in shares]


def test_any_number_of_processes_in_any_order_write_the_bytes_of_one(small, sampler, tmp_path):
    """The store is the first draws of the run at any time; the last process completes it and tidies up."""
    stream(sampler, KEY, N, tmp_path / "whole" / "d.zarr")
    whole = contents(tmp_path / "whole")
    assert written(sampler, tmp_path / "a", (1, 2), (0, 2)) == [0, N]
    assert written(sampler, tmp_path / "b", (0, 3), (2, 3), (1, 3)) == [64, 64, N]
    assert written(sampler, tmp_path / "c", (0, 2)) == [64]
    assert written(sampler, tmp_path / "c", (2, 3), (0, 3), (1, 3)) == [
        64,
        64,
        N,
    ]  # another number of processes goes on
    assert written(sampler, tmp_path / "d", (1, 3)) == [0]
    assert stream(sampler, KEY, N, tmp_path / "d" / "d.zarr").before == 0  # one goes on with what others staged
    assert written(sampler, tmp_path / "e", (1, 2), (0, 2), n=150)[-1] == 150
    assert written(sampler, tmp_path / "e", (1, 2), (0, 2)) == [150, N]  # and with a store that shall be longer
    for folder in "abcde":
        assert contents(tmp_path / folder) == whole, folder
        assert [file.name for file in (tmp_path / folder).iterdir()] == ["d.zarr"]
    nothing = stream(sampler, KEY, N, tmp_path / "a" / "d.zarr", share=Share(1, 2))
    assert nothing.before == nothing.after == N and nothing.some is None and nothing.cost.gradients == 0


class Killed(BaseException):
    """Not an error that anything catches."""


def test_a_process_may_die_anywhere_and_any_number_go_on(small, sampler, tmp_path, monkeypatch):
    """Stop at each renaming, and before or after it; what others have staged is kept."""
    stream(sampler, KEY, N, tmp_path / "whole" / "d.zarr")
    whole = contents(tmp_path / "whole")
    remove_tree, count = shutil.rmtree, 0
    for place in range(1, 1000):
        folder, calls = tmp_path / str(place), 0

        def stopping(act, place=place):
            def act_or_stop(*args, **kwargs):
                nonlocal calls
                calls += 1
                if calls == place and place % 2:
                    raise Killed
                done = act(*args, **kwargs)
                if calls == place:
                    raise Killed
                return done

            return act_or_stop

        written(sampler, folder, (1, 3))
        with monkeypatch.context() as patch:
            for owner, name in ((os, "replace"), (os, "rename"), (Path, "rename"), (zarr_store, "_encode")):
                patch.setattr(owner, name, stopping(getattr(owner, name)))
            patch.setattr(shutil, "rmtree", stopping(remove_tree))
            try:
                written(sampler, folder, (0, 3))
            except Killed:
                count += 1
            stopped = calls >= place
        processes = 1 + place % 3
        written(sampler, folder, *((index, processes) for index in reversed(range(processes))))
        assert contents(folder) == whole
        remove_tree(folder)
        if not stopped:
            break
    assert count > 20


def test_who_does_not_belong_is_kept_out(small, sampler, tmp_path):
    path = tmp_path / "d.zarr"
    settings = {"seed": "1"}
    with Members(path, Share(0, 2)).joined(settings):
        with pytest.raises(eg.StorageError, match="process 0 of 2 is writing"):
            Members(path, Share(0, 2)).joined(settings).__enter__()
        with pytest.raises(eg.StorageError, match="another run is writing"):
            Members(path, Share(1, 2)).joined({"seed": "2"}).__enter__()
        with pytest.raises(eg.StorageError, match="another run is writing"):
            stream(sampler, KEY, N, path)
        with Members(path, Share(1, 2)).joined(settings):
            pass
    with pytest.raises(eg.ConfigError, match="remove it first"):
        stream(sampler, KEY, N, path, share=Share(1, 2), overwrite=True)


def test_draws_that_have_changed_are_not_mixed_in(small, sampler, tmp_path):
    """The first draws must be alike on all machines; what a run with others had staged is forgotten."""
    changed = replace(sampler, target=eg.Target(lambda x: -jnp.sum(x**4), like=jnp.zeros(2), name="gaussian"))
    changed.target.names = sampler.target.names
    assert written(sampler, tmp_path, (1, 2)) == [0]
    assert written(changed, tmp_path, (0, 2)) == [64]  # nobody else was there: part 1 is made anew
    with pytest.raises(eg.StorageError, match="drawn again, its draws 32 to 63 are others"):
        written(sampler, tmp_path, (1, 2))
    assert written(changed, tmp_path, (1, 2)) == [N]


@pytest.mark.slow
def test_members_killed_at_random_lose_nothing(sampler, tmp_path):
    """The real thing: `ergodic sample` by three processes and by two, members killed 20 times; bytes as of one."""
    file, n, rng = tmp_path / "g.ergodic", 2_000_000, random.Random(0)
    replace(sampler, source={"builtin": "gaussian"}).save(file)

    def start(folder, *words):
        (tmp_path / folder).mkdir(exist_ok=True)
        words = ["sample", str(file), "-n", str(n), "-o", str(tmp_path / folder / "d.zarr"), *words]
        command = [sys.executable, "-c", "import sys; from ergodic.cli import main; main(sys.argv[1:])", *words]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def member(index, processes):
        return start("shared", "--processes", str(processes), "--process", str(index))

    start("whole").communicate()
    kills = 0
    while kills < 20:
        running = [member(index, 2 + kills % 2) for index in range(2 + kills % 2)]
        for process in rng.sample(running, len(running)):
            time.sleep(rng.uniform(1, 4))
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                kills += 1
            process.communicate()
    last = [member(index, 3) for index in range(3)]
    said = [process.communicate()[0] for process in last]
    assert [process.returncode for process in last] == [0, 0, 0] and sum("saved" in out for out in said) >= 1
    assert contents(tmp_path / "shared") == contents(tmp_path / "whole")


def test_locks_are_done_without_where_there_are_none(tmp_path, monkeypatch):
    """A file system without locks keeps nobody out, and stops nobody."""

    def none(*args):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("fcntl.flock", none)
    with Members(tmp_path / "d.zarr", Share(0, 2)).joined({}) as one:
        one.stage(0, 64, {"a/0": b"1"})
        assert (one.staged(0, 64) / "a" / "0").read_bytes() == b"1" and one.staged(0, 65) is None


def spoil(path, *names):
    for name in names:
        (path / name).write_bytes((path / name).read_bytes()[:-3] + bytes(3))


def test_what_is_damaged_is_drawn_again_by_whoever_comes_first(small, sampler, tmp_path):
    """Draws of any part, labels and metadata, while others' parts are staged; then all is as one process writes it."""
    stream(sampler, KEY, N, tmp_path / "whole" / "d.zarr")
    whole, path = contents(tmp_path / "whole"), tmp_path / "a" / "d.zarr"
    assert written(sampler, tmp_path / "a", (0, 2)) == [64]
    spoil(path, "posterior/x/0.0.0", "posterior/x_dim/0", "sample_stats/.zattrs")
    done = stream(sampler, KEY, N, path, share=Share(1, 2))
    assert {damage.part for damage in done.mended} == {0, None} and len(done.mended) == 3 and done.after == N
    assert contents(tmp_path / "a") == whole
    spoil(path, "sample_stats/lp/0.3", "posterior/x/0.4.0", ".zgroup")
    done = stream(sampler, KEY, N, path, share=Share(1, 2))
    assert len(done.mended) == 3 and done.before == done.after == N and len(done.some) == 64
    assert contents(tmp_path / "a") == whole
    assert [file.name for file in (tmp_path / "a").iterdir()] == ["d.zarr"]


def test_a_damaged_store_is_mended_without_what_is_staged_beside_it(small, sampler, tmp_path):
    """As `ergodic verify` does it; a run that changes draws mends nothing, and forgets nothing."""
    path = tmp_path / "d.zarr"
    assert written(sampler, tmp_path, (0, 2)) == [64]
    staged = contents(tmp_path / ".d.zarr.part" / "staged")
    assert staged
    spoil(path, "posterior/x/0.0.0")
    assert [damage.part for damage in mended(sampler, path).mended] == [0]
    changed = replace(sampler, target=eg.Target(lambda x: -jnp.sum(x**4), like=jnp.zeros(2), name="gaussian"))
    changed.target.names = sampler.target.names
    for share in (Share(), Share(1, 2)):
        with pytest.raises(eg.StorageError, match="are others"):
            stream(changed, KEY, N, path, share=share)
    assert contents(tmp_path / ".d.zarr.part" / "staged") == staged
    assert written(sampler, tmp_path, (1, 2)) == [N]
    assert [file.name for file in tmp_path.iterdir()] == ["d.zarr"]
