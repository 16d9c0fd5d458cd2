"""Two modes of .8 and .2, which the default anneals: plain averages of its draws are right, wherever they are kept."""

import jax
import numpy as np
import pytest

import ergodic as eg
from ergodic.adapters.sources import resolve
from ergodic.cli import main

N = 20_000
MEAN, SD = 3.6, np.sqrt(0.8 * 37 + 0.2 * 37 - 3.6**2)
MODEL = """
import jax.numpy as jnp
import ergodic as eg

def two_modes(p):
    return jnp.logaddexp(jnp.log(0.8) - 0.5 * (p["x"] - 6) ** 2, jnp.log(0.2) - 0.5 * (p["x"] + 6) ** 2)

target = eg.Target(two_modes, like={"x": 0.0}, name="two modes")
"""


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The default's fit to the two modes, and its file."""
    folder = tmp_path_factory.mktemp("two")
    (folder / "model.py").write_text(MODEL)
    target, source = resolve(f"{folder / 'model.py'}:target", None)
    sampler = eg.fit(target, jax.random.key(0), progress=False)
    sampler.source = source
    sampler.save(folder / "two.ergodic")
    return sampler, folder / "two.ergodic"


@pytest.fixture(scope="module")
def draws(saved):
    return saved[0].sample(jax.random.key(1), N, progress=False)


def check(mean, worth):
    """|z| < 4.5: fails with probability 7e-6 (fixed seeds). Without weights the mean would be off by about 3."""
    assert abs(float(mean) - MEAN) < 4.5 * SD / np.sqrt(worth) < 1.2


def test_a_plain_average_is_right(saved, draws):
    assert saved[0].kind == "weighted" and saved[0].certificate.passed
    check(draws.position["x"].mean(dtype=np.float64), draws.effective_size())
    check(draws.mean(draws.position["x"]), draws.effective_size())
    for share, inside in ((0.8, draws.position["x"] > 0), (0.2, draws.position["x"] < 0)):
        assert abs(inside.mean() - share) < 4.5 * np.sqrt(0.16 / draws.effective_size())


def test_what_they_are_worth_is_said(draws):
    worth = draws.effective_size()
    assert draws.kind == "resampled" and not draws.independent and 0.85 * N < worth <= N
    assert len(np.unique(draws.unconstrained)) > 0.9 * N  # hardly any comes twice
    assert f"{N:,} resampled draws of 'two modes' worth {worth:,.0f} independent ones" in repr(draws)
    table = draws.summary()
    assert f"chosen from weighted runs, and worth {worth:,.0f} independent draws" in str(table)
    assert table.ess[0] == pytest.approx(worth) and table.mcse[0] == pytest.approx(table.sd[0] / np.sqrt(worth))
    assert draws.attributes["effective_size"] == pytest.approx(worth, abs=0.1)
    assert draws.attributes["resampled_draws"] and "weighted_draws" not in draws.attributes
    assert set(draws.stats) == {"copies"}


def test_arviz_has_the_right_mean_and_what_they_are_worth(draws):
    import arviz

    data = draws.to_arviz()
    check(arviz.summary(data, round_to="none").loc["x", "mean"], draws.effective_size())
    assert data.posterior.attrs["effective_size"] == draws.attributes["effective_size"]
    assert data.posterior.attrs["resampled_draws"] == 1 and data.posterior.attrs["independent_draws"] == 0


def test_draws_are_a_function_of_key_and_number_and_all_runs_are_paid_for(saved, draws):
    sampler = saved[0]
    again = sampler.sample(jax.random.key(1), N, progress=False)
    np.testing.assert_array_equal(again.unconstrained, draws.unconstrained)
    other = sampler.sample(jax.random.key(2), N, progress=False)
    assert np.mean(other.unconstrained == draws.unconstrained) < 0.01
    runs = draws.cost.gradients / sampler.depth
    assert N < runs < 3 * N and runs % sampler.method.chunk(1, sampler.params) == 0
    assert draws.cost.depth == sampler.depth


def test_few_draws_are_chosen_from_a_whole_chunk(saved):
    """One draw from each of 400 keys: weighted by a chunk of its own, so their mean is right; 7e-6."""
    ones = [saved[0].sample(jax.random.key(100 + seed), 1, chunk=256) for seed in range(400)]
    check(np.mean([one.position["x"] for one in ones]), 400)


@pytest.mark.parametrize("name", ["d.nc", "d.zarr", "d.npz"])
def test_files_have_equally_weighted_draws(saved, tmp_path, capsys, name):
    import arviz
    import xarray

    path = tmp_path / name
    with pytest.raises(SystemExit) as end:
        main(["sample", str(saved[1]), "-n", str(N), "-o", str(path)])
    assert end.value.code == 0 and f"{N:,} resampled draws" in capsys.readouterr().out
    if name == "d.npz":
        check(np.load(path)["unconstrained"].mean(dtype=np.float64), 0.85 * N)
        return
    read = arviz.from_netcdf if name == "d.nc" else lambda p: xarray.open_datatree(p, engine="zarr")
    data = read(str(path))
    check(np.asarray(data["posterior"]["x"]).mean(dtype=np.float64), N / float(data["sample_stats"]["copies"].mean()))
    assert "log_weight" not in data["sample_stats"] and data["posterior"].attrs["resampled_draws"] == 1


def test_weighted_runs_cannot_be_averaged_by_mistake(saved):
    runs = saved[0].sample(jax.random.key(1), 4000, weighted=True, progress=False)
    assert isinstance(runs, eg.WeightedDraws) and runs.kind == "weighted" and "weighted_draws" in runs.attributes
    for mistake in (lambda: runs.position["x"].mean(), lambda: runs.to_arviz()):
        with pytest.raises(eg.ConfigError, match=r"\.mean\(f\).*\.resample\(key\).*\.runs"):
            mistake()
    check(runs.mean(lambda position: position["x"]), runs.effective_size())
    assert runs.mean(runs.runs["x"]) == runs.mean(lambda position: position["x"])
    assert "WeightedDraws(4,000 weighted draws" in repr(runs)
    value, error = runs.log_z()
    assert abs(value - 0.5 * np.log(2 * np.pi)) < 4.5 * error < 0.2
    few = runs.resample(jax.random.key(2), 1000)
    assert type(few) is eg.Draws and few.kind == "resampled" and few.effective_size() > 800
    check(few.position["x"].mean(), few.effective_size())
    with pytest.raises(eg.ConfigError, match=r"weighted=True\)\.log_z"):
        few.log_z()


def test_weights_are_not_made_up(gaussian_sampler):
    with pytest.raises(eg.ConfigError, match="HEI has no weights here, its draws are independent"):
        gaussian_sampler.sample(jax.random.key(0), 10, weighted=True)


def test_draws_that_are_worth_little_say_so():
    """Weights over many nats: few runs count, which the repr, the table and a warning say."""
    sampler = eg.HAIS(temperatures=2, pilots=2, initial_scale=3.0).fit(
        eg.Target(lambda x: -0.5 * ((x - 4) ** 2).sum() * 20, like=np.zeros(6, np.float32)), jax.random.key(0)
    )
    draws = sampler.sample(jax.random.key(1), 2000, progress=False)
    assert draws.effective_size() < 1000 and "warning: the draws are worth only" in str(draws.summary())
