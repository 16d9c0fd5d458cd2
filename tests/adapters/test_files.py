import jax
import numpy as np
import pytest

import ergodic as eg
from ergodic.adapters.files import write_draws


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


def test_raw_draws_survive_a_failed_conversion(draws, tmp_path, monkeypatch):
    def fails(self):
        raise RuntimeError("conversion broke")

    monkeypatch.setattr(eg.Draws, "to_arviz", fails)
    with pytest.raises(eg.ConfigError, match=r"conversion broke.*kept in .*raw\.npz"):
        write_draws(draws, tmp_path / "d.nc")
    (spare,) = tmp_path.iterdir()
    np.testing.assert_array_equal(np.load(spare)["unconstrained"], draws.unconstrained)


def test_an_unknown_format_is_refused(draws, tmp_path):
    with pytest.raises(eg.ConfigError, match=r"\.nc or \.npz"):
        write_draws(draws, tmp_path / "d.csv")
