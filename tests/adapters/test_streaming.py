"""Streaming draws to a Zarr store: what is in it, and that it is the same however often its writing was stopped."""

import errno
import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodic as eg
from ergodic.adapters import streaming, zarr_store
from ergodic.adapters.damage import damages
from ergodic.adapters.streaming import mended, stream, summarise_store
from ergodic.model import Model
from processes_ergodic import held_by_another_process

CHUNK, ROWS = 64, 128


@pytest.fixture
def small(monkeypatch):
    """64 draws at a time, 128 a file, and no waiting for the disk."""
    monkeypatch.setattr(streaming, "default_chunk", lambda dim: CHUNK)
    monkeypatch.setattr(streaming, "_ROWS", ROWS)
    monkeypatch.setattr(os, "fsync", lambda handle: None)


@pytest.fixture(scope="module")
def schools():
    """A sampler whose values are constrained, named and labelled."""
    target = eg.Target(
        lambda p: -0.5 * jnp.sum(p["theta"] ** 2) - 0.5 * p["log_tau"] ** 2,
        like={"log_tau": 0.0, "theta": jnp.zeros(3)},
        constrain=lambda p: {"tau": jnp.exp(p["log_tau"]), "theta": p["theta"]},
        model=Model(
            dims={"theta": ["school"], "y": ["day"]},
            coords={"school": ["A", "Bee", "C"], "day": np.array(["2020-01-01", "2020-01-02"], "M8[ns]")},
            observed={"y": np.array([1.0, np.nan])},
        ),
        name="schools",
    )
    return eg.HEI(steps=2, leapfrogs=2).untuned(target, jax.random.key(0))


@pytest.fixture
def sampler():
    return eg.HEI(steps=2, leapfrogs=1).untuned(eg.targets.get("gaussian"), jax.random.key(0))


def contents(folder):
    """Every file under a folder, and its bytes."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_a_store_has_what_arviz_and_xarray_need(small, schools, tmp_path):
    import arviz
    import xarray

    key, path = jax.random.key(3), tmp_path / "d.zarr"
    wrote = stream(schools, key, 300, path, progress=False)
    draws = schools.sample(key, 300, chunk=CHUNK)
    data = arviz.InferenceData.from_datatree(xarray.open_datatree(path, engine="zarr"))
    made = draws.to_arviz()
    for group in ("posterior", "sample_stats", "observed_data"):
        xarray.testing.assert_identical(data[group].drop_attrs().load(), made[group].drop_attrs())
        passing = {"created_at", "sampling_time", "gradients"}
        assert data[group].attrs == {k: v for k, v in made[group].attrs.items() if k not in passing}
    assert data.posterior["theta"].dims == ("chain", "draw", "school")
    assert data.posterior["theta"].sel(school="Bee").shape == (1, 300)
    assert data.sample_stats["diverging"].dtype == bool
    xarray.testing.assert_identical(
        xarray.open_zarr(str(path), group="posterior").drop_attrs().load(), made.posterior.drop_attrs()
    )
    assert wrote.before == 0 and len(wrote.some) == ROWS
    assert str(summarise_store(path, schools.target)) == str(draws.summary())
    data.to_netcdf(str(tmp_path / "again.nc"))
    assert [p.name for p in sorted(tmp_path.iterdir())] == ["again.nc", "d.zarr"]


def test_weighted_runs_keep_their_weights_where_they_are_asked_for(small, tmp_path):
    import zarr

    method = eg.HAIS(temperatures=10, pilots=2, initial_scale=2.0)
    sampler = method.fit(eg.targets.get("gaussian"), jax.random.key(0))
    stream(sampler, jax.random.key(1), 200, tmp_path / "h.zarr", weighted=True)
    draws = sampler.sample(jax.random.key(1), 200, chunk=CHUNK, weighted=True)
    stored = zarr.open_group(str(tmp_path / "h.zarr"), mode="r")["sample_stats/log_weight"][0]
    np.testing.assert_array_equal(stored, draws.stats["log_weight"])
    there, here = summarise_store(tmp_path / "h.zarr", sampler.target), draws.summary()
    np.testing.assert_allclose(there.mcse, here.mcse, rtol=1e-6)
    assert there.kind == "weighted" and str(there) == str(here)
    with pytest.raises(eg.StorageError, match="weighted_draws"):
        stream(sampler, jax.random.key(1), 300, tmp_path / "h.zarr")


def test_resampled_draws_in_a_store_are_the_same_however_often_it_was_stopped(small, tmp_path):
    """Blocks are whole in a file; the summary says what the draws are worth, in memory as in the store."""
    import zarr

    sampler = eg.HAIS(temperatures=10, pilots=2).fit(eg.targets.get("gaussian"), jax.random.key(0))
    key = jax.random.key(1)
    whole = stream(sampler, key, 300, tmp_path / "whole" / "d.zarr")
    for n in (50, 128, 200, 300):
        stream(sampler, key, n, tmp_path / "parts" / "d.zarr")
    assert contents(tmp_path / "parts") == contents(tmp_path / "whole")
    data = zarr.open_group(str(tmp_path / "whole" / "d.zarr"), mode="r")
    assert "log_weight" not in data["sample_stats"] and data.attrs["resampled_draws"] == 1
    assert ROWS % data.attrs["block"] == 0 and data.attrs["block_runs"] % CHUNK == 0
    runs = CHUNK + math.ceil(300 / data.attrs["block"]) * data.attrs["block_runs"]
    assert whole.cost.gradients == runs * sampler.depth
    table, copies = summarise_store(tmp_path / "whole" / "d.zarr", sampler.target), data["sample_stats/copies"][0]
    assert table.kind == "resampled" and table.ess[0] == pytest.approx(300 / copies.mean())
    assert table.mcse[0] == pytest.approx(table.sd[0] / np.sqrt(table.ess[0]))
    assert whole.some.kind == "resampled" and whole.some.effective_size() == pytest.approx(ROWS / copies[:ROWS].mean())
    plain = eg.HEI(steps=2, leapfrogs=1).untuned(sampler.target, key)
    with pytest.raises(eg.ConfigError, match="HEI has no weights here"):
        stream(plain, key, 10, tmp_path / "no.zarr", weighted=True)


class Killed(BaseException):
    """Not an error that anything catches."""


def test_stopped_anywhere_and_gone_on_with_the_store_is_the_same(small, sampler, tmp_path, monkeypatch):
    """Stop at each of the files that are written, before and after its renaming; the next run finishes."""
    key, n = jax.random.key(1), 200
    stream(sampler, key, n, tmp_path / "whole" / "d.zarr")
    whole = contents(tmp_path / "whole")
    rename, remove_tree, count = os.replace, zarr_store.shutil.rmtree, 0

    def stop_at(place, after):
        calls = 0

        def replace_until(source, target):
            nonlocal calls
            calls += 1
            if calls == place and not after:
                raise Killed
            rename(source, target)
            if calls == place:
                raise Killed

        return replace_until

    starts = set()
    for place in range(1, 1000):
        folder = tmp_path / str(place)
        path = folder / "d.zarr"
        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", stop_at(place, after=place % 2))
            patch.setattr(zarr_store.shutil, "rmtree", lambda *args, **kwargs: None)  # a killed run tidies nothing
            try:
                stream(sampler, key, n, path)
                break
            except Killed:
                count += 1
        starts.add(stream(sampler, key, n, path).before)
        assert contents(folder) == whole
        remove_tree(folder)
    assert count > 2 * 15 and starts >= {0, ROWS}


def test_more_draws_later_are_the_draws_of_one_run(small, schools, tmp_path):
    key = jax.random.key(1)
    stream(schools, key, 300, tmp_path / "whole" / "d.zarr")
    for n in (100, 256, 257, 300):
        wrote = stream(schools, key, n, tmp_path / "parts" / "d.zarr")
        assert wrote.some is not None
    assert contents(tmp_path / "parts") == contents(tmp_path / "whole")
    wrote = stream(schools, key, 300, tmp_path / "parts" / "d.zarr")
    assert wrote.before == 300 and wrote.some is None and wrote.cost.gradients == 0


def test_an_unfinished_store_can_be_read(small, sampler, tmp_path, monkeypatch):
    """What is complete is there, and nothing else, whichever files of the next part have been written."""
    import xarray

    path, key = tmp_path / "d.zarr", jax.random.key(1)
    grow = zarr_store.Store.grow

    def until_second(self, part, columns, n):
        if part == 1:
            monkeypatch.setattr(self, "_place", place_all_but_the_commit(self._place))
        grow(self, part, columns, n)

    def place_all_but_the_commit(place):
        def placed(file, data):
            if file.name == zarr_store.COMMIT:
                raise Killed
            place(file, data)

        return placed

    monkeypatch.setattr(zarr_store.Store, "grow", until_second)
    with pytest.raises(Killed):
        stream(sampler, key, 300, path)
    with xarray.open_datatree(path, engine="zarr") as data:
        assert data["posterior"].sizes["draw"] == data["sample_stats"].sizes["draw"] == ROWS
        np.testing.assert_array_equal(data["posterior/x"][0], sampler.sample(key, ROWS, chunk=CHUNK).unconstrained)
    monkeypatch.setattr(zarr_store.Store, "grow", grow)
    stream(sampler, key, ROWS, path)  # that is enough: the files of the next part go
    assert not (path / "sample_stats" / "lp" / "0.1").exists()


def test_another_run_is_not_mixed_in(small, sampler, tmp_path):
    path, key = tmp_path / "d.zarr", jax.random.key(1)
    stream(sampler, key, 200, path)
    before = contents(tmp_path)
    with pytest.raises(eg.StorageError, match=r"seed 1 \(here 2\).*--overwrite"):
        stream(sampler, jax.random.key(2), 300, path)
    other = sampler.method.untuned(sampler.target, jax.random.key(9))
    with pytest.raises(eg.StorageError, match="sampler_sha256"):
        stream(other, key, 300, path)
    with pytest.raises(eg.StorageError, match="200 draws already, more than 100"):
        stream(sampler, key, 100, path)
    changed = eg.Target(lambda x: -jnp.sum(x**4), like=jnp.zeros(2), name="gaussian", names=("x1", "x2"))
    with pytest.raises(eg.StorageError, match="drawn again, its draws 192 to 199 are others"):
        stream(replace(sampler, target=changed), key, 300, path)
    with held_by_another_process(path), pytest.raises(eg.StorageError, match="another run is writing"):
        stream(sampler, key, 300, path)
    assert contents(tmp_path) == before
    stream(sampler, jax.random.key(2), 100, path, overwrite=True)
    assert zarr_store.read_metadata(path)[1] == 100


def test_what_is_no_store_is_left_alone(small, sampler, tmp_path):
    key = jax.random.key(1)
    folder = tmp_path / "thesis.zarr"
    folder.mkdir()
    (folder / "chapter.txt").write_text("years of work")
    with pytest.raises(eg.StorageError, match="not a store of streamed draws"):
        stream(sampler, key, 100, folder)
    with pytest.raises(eg.StorageError, match="remove it yourself"):
        stream(sampler, key, 100, folder, overwrite=True)
    assert (folder / "chapter.txt").read_text() == "years of work"
    (tmp_path / "empty.zarr").mkdir()
    stream(sampler, key, 100, tmp_path / "empty.zarr")
    with pytest.raises(eg.StorageError, match="cannot be written"):
        stream(sampler, key, 100, folder / "chapter.txt" / "d.zarr")
    chains = eg.SGHMC(burn_in=5, thin=1).fit(sampler.target, key)
    with pytest.raises(eg.ConfigError, match="depends on the one before"):
        stream(chains, key, 100, tmp_path / "s.zarr")


def test_a_full_disk_keeps_what_is_there(small, sampler, tmp_path, monkeypatch):
    path, key = tmp_path / "d.zarr", jax.random.key(1)
    place = zarr_store.Store._place

    def full(self, file, data):
        if file.name == "0.1":
            raise OSError(errno.ENOSPC, "No space left on device")
        place(self, file, data)

    monkeypatch.setattr(zarr_store.Store, "_place", full)
    with pytest.raises(eg.StorageError, match=r"No space left on device; its first 128 draws are kept"):
        stream(sampler, key, 300, path)
    monkeypatch.setattr(zarr_store.Store, "_place", place)
    assert stream(sampler, key, 300, path).before == 128
    assert [p.name for p in tmp_path.iterdir()] == ["d.zarr"]


@pytest.mark.slow
def test_a_killed_process_is_gone_on_with(sampler, tmp_path):
    """The real thing: `ergodic sample` killed by the system after its first file, then run again."""
    file, n = tmp_path / "g.ergodic", 600_000
    replace(sampler, source={"builtin": "gaussian"}).save(file)

    def command(folder):
        (tmp_path / folder).mkdir(exist_ok=True)
        words = ["sample", str(file), "-n", f"{n:_}", "-o", str(tmp_path / folder / "d.zarr")]
        return [sys.executable, "-c", "import sys; from ergodic.cli import main; main(sys.argv[1:])", *words]

    whole = subprocess.Popen(command("whole"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    process = subprocess.Popen(command("killed"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    began = time.monotonic()
    while not (tmp_path / "killed" / "d.zarr").exists() and time.monotonic() - began < 60:
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert 0 < zarr_store.read_metadata(tmp_path / "killed" / "d.zarr")[1] < n
    done = subprocess.run(command("killed"), capture_output=True, text=True, check=True)
    assert "were there already" in done.stdout and whole.wait() == 0
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")


def test_a_damaged_file_is_named_and_drawn_again(small, sampler, tmp_path):
    """Any bit of any file, and any file that is gone: found by a look, by a summary, and mended by the next run."""
    key, path = jax.random.key(1), tmp_path / "d.zarr"
    stream(sampler, key, 300, path)
    whole = contents(path)
    assert damages(path) == []
    for name, data in whole.items():
        middle = len(data) // 2
        for damaged in (data[:middle] + bytes([data[middle] ^ 4]) + data[middle + 1 :], data[:-1], b"", None):
            (path / name).unlink() if damaged is None else (path / name).write_bytes(damaged)
            if name == zarr_store.COMMIT:
                with pytest.raises(eg.StorageError, match=r"damaged|not a store"):
                    damages(path)
            else:
                assert [damage.file for damage in damages(path)] == [name]
            (path / name).write_bytes(data)
    for name in ("posterior/x/0.1.0", "posterior/x_dim/0", "sample_stats/.zattrs"):
        (path / name).write_bytes(whole[name][:-3] + bytes(3))
        with pytest.raises(eg.StorageError, match=f"{name}: .*ergodic verify"):
            summarise_store(path, sampler.target)
        assert [damage.file for damage in mended(sampler, path).mended] == [name]
        assert contents(path) == whole
    (path / "posterior" / "x" / "0.0.0").write_bytes(b"")
    (path / "sample_stats" / "lp" / "0.1").unlink()
    streamed = stream(sampler, key, 400, path)
    assert sorted(damage.part for damage in streamed.mended) == [0, 1]
    stream(sampler, key, 400, tmp_path / "once.zarr")
    assert contents(path) == contents(tmp_path / "once.zarr")


def test_a_damaged_store_is_not_mended_with_other_draws(small, sampler, tmp_path):
    key, path = jax.random.key(1), tmp_path / "d.zarr"
    stream(sampler, key, 300, path)
    (path / "posterior" / "x" / "0.0.0").write_bytes(b"")
    before = contents(path)
    changed = eg.Target(lambda x: -jnp.sum(x**4), like=jnp.zeros(2), name="gaussian", names=("x1", "x2"))
    with pytest.raises(eg.StorageError, match="are others"):
        mended(replace(sampler, target=changed), path)
    assert contents(path) == before


def test_a_store_may_be_a_link_and_is_not_a_file(small, sampler, tmp_path):
    link, real = tmp_path / "link.zarr", tmp_path / "elsewhere" / "d.zarr"
    real.parent.mkdir()
    link.symlink_to(real)
    stream(sampler, jax.random.key(1), 100, link)
    stream(sampler, jax.random.key(2), 100, link, overwrite=True)
    assert link.is_symlink() and zarr_store.read_metadata(real)[1] == 100
    file = tmp_path / "letter.zarr"
    file.write_text("dear")
    for overwrite in (False, True):
        with pytest.raises(eg.StorageError, match=r"not a store|is a file"):
            stream(sampler, jax.random.key(1), 100, file, overwrite=overwrite)
    assert file.read_text() == "dear"
