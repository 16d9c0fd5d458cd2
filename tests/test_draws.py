"""What `draws.summary()` says."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodic as eg
from ergodic.diagnostics import summary as module
from ergodic.diagnostics.summary import Part, summarise
from ergodic.model import Model
from ergodic.runtime.drawing import Kind


@pytest.fixture(scope="module")
def labelled():
    """Draws of constrained, named, labelled values."""
    target = eg.Target(
        lambda p: -0.5 * jnp.sum(p["theta"] ** 2) - 0.5 * p["log_tau"] ** 2,
        like={"log_tau": 0.0, "theta": jnp.zeros((2, 3))},
        constrain=lambda p: {"tau": jnp.exp(p["log_tau"]), "theta": p["theta"], "first": p["theta"][0]},
        model=Model(dims={"theta": ["arm", "school"]}, coords={"school": ["A", "B", "C"]}),
    )
    return eg.HEI(steps=2, leapfrogs=2).untuned(target, jax.random.key(0)).sample(jax.random.key(1), 1001)


def test_independent_draws_have_exact_errors(labelled):
    table = labelled.summary()
    assert table.names == (
        *(f"first[{i}]" for i in range(3)),
        "tau",
        *(f"theta[{i},{label}]" for i in range(2) for label in "ABC"),
        "log π*",
    )
    position = labelled.position
    columns = np.concatenate(
        [leaf.reshape(1001, -1) for leaf in (position["first"], position["tau"], position["theta"])]
        + [labelled.logdensity[:, None]],
        axis=1,
        dtype=np.float64,
    )
    np.testing.assert_allclose(table.mean, columns.mean(axis=0), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(table.sd, columns.std(axis=0, ddof=1), rtol=1e-9)
    np.testing.assert_allclose(table.mcse, columns.std(axis=0, ddof=1) / np.sqrt(1001), rtol=1e-9)
    for level, found in ((0.05, table.q5), (0.5, table.q50), (0.95, table.q95)):
        np.testing.assert_allclose(found, np.quantile(columns, level, axis=0), rtol=1e-6, atol=1e-6)
    assert np.all(table.ess == 1001) and table.lost == 0
    text = str(table)
    assert repr(table) == text and "1,001 independent draws: the Monte Carlo error of a mean is sd/√n exactly" in text
    assert len({len(line) for line in text.splitlines()[:-1]}) == 1  # columns are aligned


def test_plain_vectors_have_the_targets_names_and_long_tables_are_cut(gaussian_sampler):
    draws = gaussian_sampler.sample(jax.random.key(0), 100)
    assert draws.summary().names == ("x1", "x2", "log π*")
    lines = str(draws.summary(rows=1)).splitlines()
    assert "1 more coordinates" in lines[2] and lines[1].startswith("x1") and lines[3].startswith("log π*")
    assert "more coordinates" not in str(draws.summary(rows=None))
    assert len(draws.summary(rows=1).mean) == 3


def test_weighted_draws_have_the_errors_of_importance_sampling(gaussian_sampler):
    method = eg.HAIS(temperatures=10, pilots=2, initial_scale=2.0)
    draws = method.fit(gaussian_sampler.target, jax.random.key(0)).sample(jax.random.key(1), 500, weighted=True)
    table = draws.summary()
    w, x = draws.weights, draws.unconstrained.astype(np.float64)
    mean = w @ x
    np.testing.assert_allclose(table.mean[:2], mean, rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(table.sd[:2], np.sqrt(w @ (x - mean) ** 2), rtol=1e-5)
    np.testing.assert_allclose(table.mcse[:2], np.sqrt(w**2 @ (x - mean) ** 2), rtol=1e-5)
    np.testing.assert_allclose(table.ess, draws.effective_size(), rtol=1e-5)
    for j in range(2):
        assert w[x[:, j] <= table.q50[j]].sum() >= 0.5 > w[x[:, j] < table.q50[j]].sum()
    assert "self-normalised importance sampling" in str(table)


def test_correlated_draws_have_arvizs_errors(gaussian_sampler):
    import arviz

    chains = eg.SGHMC(chains=4, burn_in=10, thin=1).fit(gaussian_sampler.target, jax.random.key(0))
    draws = chains.sample(jax.random.key(1), 400)
    table = draws.summary()
    by_chain = draws.by_chain(draws.unconstrained[:, 0]).astype(np.float64)
    assert table.ess[0] == pytest.approx(float(arviz.ess(by_chain)))
    assert table.mcse[0] == pytest.approx(np.asarray(arviz.mcse(by_chain)).item())
    assert "400 correlated draws" in str(table) and table.ess.min() == pytest.approx(draws.effective_size())
    short = chains.sample(jax.random.key(1), 8).summary()  # two steps tell nothing of correlation
    assert np.all(short.ess == 4)


def test_draws_that_are_not_finite_are_left_out_and_counted():
    target = eg.Target(lambda x: -0.5 * jnp.sum(x**2), like=jnp.zeros(2))
    x = np.random.default_rng(0).normal(size=(50, 2)).astype(np.float32)
    logdensity = (-0.5 * (x**2).sum(axis=1)).astype(np.float32)
    logdensity[3], x[7, 1] = -np.inf, np.nan
    kept = np.delete(x, [3, 7], axis=0).astype(np.float64)
    table = eg.Draws(target, x, logdensity, kind=Kind.INDEPENDENT).summary()
    np.testing.assert_allclose(table.mean[:2], kept.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(table.q50[:2], np.median(kept, axis=0), rtol=1e-6)
    assert table.lost == 2 and "2 draws that are not finite are left out" in str(table) and np.all(table.ess == 48)
    none = eg.Draws(target, x * np.nan, logdensity, kind=Kind.INDEPENDENT).summary()
    assert none.lost == 50 and np.all(np.isnan(none.mean)) and np.all(np.isnan(none.q50)) and "nan" in str(none)
    chains = eg.Draws(target, x, logdensity, chains=5).summary()
    assert chains.lost == 2 and np.all(np.isfinite(chains.mcse)) and np.all(np.isfinite(chains.mean))


def test_draws_in_parts_have_the_summary_of_all(monkeypatch):
    rng = np.random.default_rng(1)
    columns, log_weight = 1e3 + rng.normal(size=(1000, 3)), 5 * rng.normal(size=1000)
    log_weight[:100] = -np.inf  # draws of no weight come first
    for weights in (None, log_weight):
        whole = summarise("abc", [Part(columns, weights)], 1000)
        cuts = [slice(at, at + 130) for at in range(0, 1000, 130)]
        parts = (Part(columns[cut], None if weights is None else weights[cut]) for cut in cuts)
        pieces = summarise("abc", parts, 1000)
        for name in ("mean", "sd", "mcse", "ess", "q5", "q50", "q95"):
            np.testing.assert_allclose(getattr(pieces, name), getattr(whole, name), rtol=1e-9)
        assert pieces.lost == 0
    monkeypatch.setattr(module, "_KEPT", 300)
    thin = summarise("abc", [Part(columns)], 1000)
    np.testing.assert_allclose(thin.q50, np.median(columns[::10], axis=0))
    assert "one draw in 10" in str(thin)


def test_draws_are_taken_apart_by_name_number_slice_and_mask(labelled):
    position = labelled.position
    np.testing.assert_array_equal(labelled["theta"], position["theta"])
    assert labelled[-1]["tau"] == position["tau"][-1] and labelled[3]["theta"].shape == (2, 3)
    some, masked, chosen = labelled[100:200], labelled[labelled["tau"] > 1], labelled[[5, 3]]
    assert len(some) == 100 and isinstance(some, eg.Draws) and some.independent
    np.testing.assert_array_equal(some["tau"], position["tau"][100:200])
    np.testing.assert_array_equal(some.stats["diverging"], labelled.stats["diverging"][100:200])
    assert some.cost.gradients == round(labelled.cost.gradients * 100 / 1001)
    assert 0 < len(masked) < 1001 and masked["tau"].min() > 1
    np.testing.assert_array_equal(chosen["tau"], position["tau"][[5, 3]])
    listed = [one["tau"] for one in labelled]
    np.testing.assert_array_equal(listed, position["tau"])
    with pytest.raises(eg.ConfigError, match="no variable 'thta'; did you mean 'theta'"):
        labelled["thta"]
    with pytest.raises(IndexError):
        labelled[1001]
    with pytest.raises(eg.ConfigError, match="a name, a number, a slice"):
        labelled[[0.5]]


def test_a_slice_of_chains_keeps_the_chains_apart():
    target = eg.Target(lambda x: -0.5 * jnp.sum(x**2), like=jnp.zeros(1))
    which = np.tile(np.arange(6.0), 10)[:, None]  # a row says which chain it is of
    draws = eg.Draws(target, which, which[:, 0], chains=6)
    for part, chains in ((draws[7:43], 6), (draws[::2], 3), (draws[::4], 3), (draws[::-1], 6), (draws[::5], 6)):
        assert part.chains == chains
        assert np.all(np.ptp(part.by_chain(part.unconstrained), axis=1) == 0)
    with pytest.raises(eg.ConfigError, match="take a slice"):
        draws[[1, 2]]


def test_concatenated_draws_are_draws_of_both(gaussian_sampler):
    one, two = (gaussian_sampler.sample(jax.random.key(k), n) for k, n in ((1, 100), (2, 300)))
    both = eg.concatenate([one, two])
    np.testing.assert_array_equal(both.unconstrained, np.concatenate([one.unconstrained, two.unconstrained]))
    np.testing.assert_allclose(both.trace["acceptance"], (one.trace["acceptance"] + 3 * two.trace["acceptance"]) / 4)
    assert both.cost == one.cost + two.cost and both.kind is one.kind and len(both.stats["diverging"]) == 400
    parts = eg.concatenate([one[:30], one[30:]])  # of the same draws, but no draw twice
    np.testing.assert_array_equal(parts.unconstrained, one.unconstrained)
    with pytest.raises(eg.ConfigError, match="the same draws twice"):
        eg.concatenate([one, two, one[10:20]])
    with pytest.raises(eg.ConfigError, match="one sampler"):
        eg.concatenate([one, eg.Draws(eg.targets.get("banana"), one.unconstrained, one.logdensity)])
    with pytest.raises(eg.ConfigError, match="at least one"):
        eg.concatenate([])


def test_concatenated_chains_stand_side_by_side_where_they_are_as_long():
    target = eg.Target(lambda x: -0.5 * jnp.sum(x**2), like=jnp.zeros(1))
    rows = np.tile(np.arange(4.0), 10)[:, None]
    one, two = (eg.Draws(target, rows + 10 * k, rows[:, 0] + 10 * k, chains=4) for k in (0, 1))
    both = eg.concatenate([one, two])
    assert both.chains == 8 and np.all(np.ptp(both.by_chain(both.unconstrained), axis=1) == 0)
    after = eg.concatenate([one, two[:20]])
    assert after.chains == 4 and len(after) == 60


def test_draws_become_arrays_and_data_frames(labelled):
    arrays = labelled.to_numpy(["tau"])
    assert list(arrays) == ["tau"] and list(labelled.to_numpy()) == ["first", "tau", "theta"]
    frame, other = labelled.to_pandas(["theta", "tau"]), labelled.to_polars(["theta", "tau"])
    names = [*(f"theta[{i},{label}]" for i in range(2) for label in "ABC"), "tau", "lp"]
    assert list(frame.columns) == names == other.columns and frame.shape == other.shape == (1001, 8)
    np.testing.assert_array_equal(frame["theta[1,B]"], labelled["theta"][:, 1, 1])
    np.testing.assert_array_equal(other["lp"].to_numpy(), labelled.logdensity)
    assert labelled.to_dataframe(["tau"]).equals(labelled.to_pandas(["tau"]))
    chains = eg.Draws(labelled.target, labelled.unconstrained[:6], labelled.logdensity[:6], chains=3).to_pandas(["tau"])
    assert list(chains["chain"]) == [0, 1, 2, 0, 1, 2]


def test_a_summary_of_some_variables(labelled):
    table, whole = labelled.summary(var_names=["tau", "first"]), labelled.summary()
    assert table.names == ("tau", "first[0]", "first[1]", "first[2]", "log π*")
    assert table.mean[0] == whole.mean[whole.names.index("tau")]
    with pytest.raises(eg.ConfigError, match="no variable 'sigma'"):
        labelled.summary(var_names=["sigma"])
