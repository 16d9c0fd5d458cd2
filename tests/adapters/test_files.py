import errno
import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodic as eg
from ergodic.adapters import files
from ergodic.adapters.files import write_draws
from ergodic.runtime import writing
from processes_ergodic import held_by_another_process


@pytest.fixture
def draws(gaussian_sampler):
    return gaussian_sampler.sample(jax.random.key(0), 50)


def test_netcdf_and_npz_hold_the_draws(draws, tmp_path):
    import arviz

    write_draws(draws, tmp_path / "d.nc")
    write_draws(draws, tmp_path / "d.npz")
    back = arviz.from_netcdf(str(tmp_path / "d.nc"))
    np.testing.assert_array_equal(back.posterior["x"].values[0], draws.position)
    raw = np.load(tmp_path / "d.npz")
    np.testing.assert_array_equal(raw["unconstrained"], draws.unconstrained)
    np.testing.assert_array_equal(raw["stats/diverging"], draws.stats["diverging"])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["d.nc", "d.npz"]  # nothing else left behind


def test_draws_in_memory_become_a_zarr_store(gaussian_sampler, tmp_path):
    import arviz
    import xarray

    chains = eg.SGHMC(chains=2, burn_in=5, thin=1).fit(gaussian_sampler.target, jax.random.key(0))
    for n in (60, 40):  # the second replaces the first
        draws = chains.sample(jax.random.key(1), n)
        write_draws(draws, tmp_path / "d.zarr")
        data = arviz.InferenceData.from_datatree(xarray.open_datatree(tmp_path / "d.zarr", engine="zarr"))
        made = draws.to_arviz()
        for group in ("posterior", "sample_stats"):
            xarray.testing.assert_equal(data[group].load(), made[group])
            assert data[group].attrs["method"] == "SGHMC"
        assert data.posterior["x"].shape == (2, n // 2, 2)
    assert [p.name for p in tmp_path.iterdir()] == ["d.zarr"]


def test_names_with_a_slash_have_a_dot_in_files(tmp_path):
    """As a NumPyro model with scopes has them; a slash would be a folder."""
    import arviz
    import xarray

    from ergodic.adapters.streaming import stream, summarise_store

    target = eg.Target(lambda p: -0.5 * jnp.sum(p["a/b"] ** 2), like={"a/b": jnp.zeros(3)})
    sampler = eg.HEI(steps=1, leapfrogs=1).untuned(target, jax.random.key(0))
    draws = sampler.sample(jax.random.key(1), 20)
    write_draws(draws, tmp_path / "d.nc")
    write_draws(draws, tmp_path / "d.zarr")
    stream(sampler, jax.random.key(1), 20, tmp_path / "s.zarr")
    for name in ("d.zarr", "s.zarr"):
        posterior = xarray.open_datatree(tmp_path / name, engine="zarr")["posterior"]
        assert posterior["a.b"].dims == ("chain", "draw", "a.b_dim_0")
    np.testing.assert_array_equal(arviz.from_netcdf(str(tmp_path / "d.nc")).posterior["a.b"][0], draws.position["a/b"])
    assert summarise_store(tmp_path / "s.zarr", target).names == draws.summary().names


@pytest.mark.parametrize("ending", ["nc", "zarr"])
def test_a_full_disk_is_said_of_the_file_that_was_asked_for(draws, tmp_path, monkeypatch, ending):
    """And not of the hidden one that raw draws are kept in meanwhile."""

    def full(path, data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr(type(tmp_path), "write_bytes", full)
    with pytest.raises(eg.StorageError, match=rf"d\.{ending} cannot be written: No space"):
        write_draws(draws, tmp_path / f"d.{ending}")
    assert list(tmp_path.iterdir()) == []


def test_raw_draws_survive_a_failed_conversion(draws, tmp_path, monkeypatch):
    def fails(draws, **choices):
        raise RuntimeError("conversion broke")

    monkeypatch.setattr(files, "to_inference_data", fails)
    for name in ("d.nc", "d.zarr"):
        with pytest.raises(eg.ConfigError, match=r"conversion broke.*kept in .*raw\.npz"):
            write_draws(draws, tmp_path / name)
        (spare,) = tmp_path.iterdir()
        np.testing.assert_array_equal(np.load(spare)["unconstrained"], draws.unconstrained)


def test_an_unknown_format_is_refused(draws, tmp_path):
    with pytest.raises(eg.ConfigError, match=r"\.nc, \.zarr or \.npz"):
        write_draws(draws, tmp_path / "d.csv")


def test_a_second_writer_of_a_file_is_refused_and_the_first_ones_stays(draws, tmp_path, monkeypatch):
    """Of two writers of one .nc the second one used to unlink what the first had finished."""
    monkeypatch.setattr(files, "PATIENCE", 0.05)
    monkeypatch.setattr(writing, "PATIENCE", 0.05)
    for name in ("d.nc", "d.npz", "d.zarr"):
        write_draws(draws, tmp_path / name)
        before = (tmp_path / name).stat().st_mtime_ns
        with held_by_another_process(tmp_path / name), pytest.raises(eg.StorageError, match="another run is writing"):
            write_draws(draws, tmp_path / name)
        assert (tmp_path / name).stat().st_mtime_ns == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["d.nc", "d.npz", "d.zarr"]
