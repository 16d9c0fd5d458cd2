import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodic as eg
from ergodic.adapters import arviz as adapter
from ergodic.runtime.programs import Cost

SIGMA = np.array([15.0, 10.0, 16.0, 11.0])
Y = np.array([28.0, 8.0, -3.0, 7.0])


def modelled(**changes):
    """Four schools as a plain target that knows what a modelling language would: dims, data, predictions."""

    def log_likelihood(p):
        return {
            "y": jax.scipy.stats.norm.logpdf(jnp.asarray(Y, jnp.float32), p["theta"], jnp.asarray(SIGMA, jnp.float32))
        }

    def predictive(p, key):
        return {"y": p["theta"] + jnp.asarray(SIGMA, jnp.float32) * jax.random.normal(key, (4,))}

    model = eg.Model(
        dims={"theta": ["school"], "mu": [], "y": ["school"], "sigma": ["school"]},
        coords={"school": ["A", "B", "C", "D"]},
        observed={"y": Y},
        constant={"sigma": SIGMA},
        log_likelihood=log_likelihood,
        predictive=predictive,
    )
    return eg.Target(
        lambda p: jnp.sum(log_likelihood(p)["y"]) - 0.5 * jnp.sum((p["theta"] - p["mu"]) ** 2),
        like={"mu": 0.0, "theta": jnp.zeros(4)},
        model=model._replace(**changes),
    )


def some_draws(target, n=50, seed="7", **attributes):
    flat = np.random.default_rng(0).normal(size=(n, target.dim)).astype(np.float32)
    return eg.Draws(target, flat, flat[:, 0], cost=Cost(), attributes={"seed": seed, **attributes})


def test_inference_data_has_what_arviz_needs(tmp_path):
    target = eg.Target(
        lambda p: -0.5 * jnp.sum(p["theta"] ** 2) - 0.5 * p["mu"] ** 2, like={"mu": 0.0, "theta": jnp.zeros(3)}
    )
    draws = eg.HEI(steps=3).untuned(target, jax.random.key(0)).sample(jax.random.key(1), 400)
    data = draws.to_arviz()
    assert dict(data.posterior.sizes)["chain"] == 1 and dict(data.posterior.sizes)["draw"] == 400
    np.testing.assert_array_equal(data.posterior["theta"].values[0], draws.position["theta"])
    np.testing.assert_array_equal(data.sample_stats["lp"].values[0], draws.logdensity)
    assert {"lp", "acceptance_rate", "diverging", "energy_error"} <= set(data.sample_stats.data_vars)
    assert data.posterior.attrs["independent_draws"] == 1
    assert data.posterior.attrs["method"] == "HEI"
    assert data.posterior.attrs["inference_library"] == "ergodic"
    assert data.groups() == ["posterior", "sample_stats"]

    import arviz

    summary = arviz.summary(data, kind="stats")
    assert list(summary.index) == ["mu", "theta[0]", "theta[1]", "theta[2]"]


def test_a_plain_array_position_is_called_x(gaussian_sampler):
    data = gaussian_sampler.sample(jax.random.key(0), 10).to_arviz()
    assert data.posterior["x"].shape == (1, 10, 2)
    assert list(data.posterior["x"].coords["x_dim"].values) == ["x1", "x2"]


@pytest.mark.filterwarnings("ignore:Passing a dict or None as alias_mapping")  # ArviZ 0.23 with Matplotlib 3.11
def test_what_the_model_knows_is_there(tmp_path):
    """Predictions: mean and sd of 1,600 within 5 standard errors; fails by chance with probability below 2e-6."""
    import arviz
    import matplotlib

    matplotlib.use("Agg")
    draws = some_draws(modelled(), n=400, steps=10)
    data = draws.to_arviz()
    assert list(data.posterior.data_vars) == ["theta", "mu"]  # in the model's order
    assert data.posterior["theta"].dims == ("chain", "draw", "school")
    assert list(data.posterior.coords["school"].values) == ["A", "B", "C", "D"]
    np.testing.assert_array_equal(data.observed_data["y"], Y)
    np.testing.assert_array_equal(data.constant_data["sigma"].sel(school="C"), 16.0)
    for group in ("posterior_predictive", "log_likelihood"):
        assert data[group]["y"].dims == ("chain", "draw", "school") and data[group]["y"].shape == (1, 400, 4)
    expected = -0.5 * ((Y - draws.position["theta"]) / SIGMA) ** 2 - np.log(SIGMA) - 0.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(data.log_likelihood["y"].values[0], expected, rtol=1e-5)
    residuals = (data.posterior_predictive["y"].values[0] - draws.position["theta"]) / SIGMA
    assert abs(residuals.mean()) < 5 / np.sqrt(1600) and abs(residuals.std() - 1) < 5 / np.sqrt(3200)
    assert "theta[B]" in arviz.summary(data, kind="stats").index
    assert arviz.loo(data).n_data_points == 4
    arviz.plot_posterior(data)
    data.to_netcdf(str(tmp_path / "d.nc"))
    back = arviz.from_netcdf(str(tmp_path / "d.nc"))
    np.testing.assert_array_equal(back.log_likelihood["y"], data.log_likelihood["y"])


def test_chunks_do_not_change_a_thing(monkeypatch):
    target = modelled()
    whole = some_draws(target).to_arviz()
    monkeypatch.setattr(adapter, "_CHUNK_DRAWS", 16)
    parts = some_draws(target).to_arviz()
    for group in ("posterior_predictive", "log_likelihood"):
        np.testing.assert_allclose(parts[group]["y"], whole[group]["y"], rtol=1e-5)
    again, other = some_draws(target).to_arviz(), some_draws(target, seed=str((1 << 40) + 7)).to_arviz()
    np.testing.assert_array_equal(again.posterior_predictive["y"], parts.posterior_predictive["y"])
    assert np.all(other.posterior_predictive["y"].values != parts.posterior_predictive["y"].values)


def test_loo_of_a_wide_range_of_likelihoods_is_finite():
    """In single precision ArviZ's smoothing of the largest weights gives NaN here."""
    import arviz

    draws = some_draws(modelled(), n=100)
    draws.unconstrained[:] *= 100
    data = draws.to_arviz(predictive=False)
    assert data.log_likelihood["y"].dtype == np.float64 and np.ptp(data.log_likelihood["y"].values) > 100
    with pytest.warns(UserWarning, match="shape parameter of Pareto"):
        assert np.isfinite(arviz.loo(data).elpd_loo)


def test_large_groups_are_made_when_asked_for(monkeypatch):
    monkeypatch.setattr(adapter, "UNASKED_VALUES", 199)
    draws = some_draws(modelled())
    with pytest.warns(eg.DrawsWarning) as said:
        data = draws.to_arviz()
    assert not {"posterior_predictive", "log_likelihood"} & set(data.groups())
    messages = sorted(str(warning.message) for warning in said)
    assert len(messages) == 2 and "200 values; ask for it with to_arviz(log_likelihood=True)" in messages[0]
    data = draws.to_arviz(predictive=False, log_likelihood=True)
    assert "log_likelihood" in data.groups() and "posterior_predictive" not in data.groups()
    with pytest.raises(eg.ConfigError, match="gives no predictive"):
        some_draws(modelled(predictive=None)).to_arviz(predictive=True, log_likelihood=False)


def test_likelihoods_of_vectors_have_the_batch_dimensions():
    def joint(p):
        return {"y": jnp.sum(jnp.stack([p["theta"], p["theta"]]), axis=1)}

    dims = {"y": ["row", "school"]}
    target = modelled(dims=dims, observed={"y": np.ones((2, 4))}, constant={}, log_likelihood=joint, predictive=None)
    data = some_draws(target).to_arviz()
    assert data.log_likelihood["y"].dims == ("chain", "draw", "row")


def test_attributes_are_what_netcdf_can_hold(tmp_path):
    import arviz

    facts = {"yes": True, "nothing": None, "nested": {"a": [1, None]}, "many": (1.5, 2), "wide": 1 << 70}
    facts |= {"scalar": np.float32(0.5), "array": np.arange(2), "flag": np.bool_(False)}
    data = some_draws(modelled(), **facts).to_arviz(predictive=False, log_likelihood=False)
    data.to_netcdf(str(tmp_path / "d.nc"))
    attributes = arviz.from_netcdf(str(tmp_path / "d.nc")).posterior.attrs
    assert attributes["yes"] == 1 and attributes["flag"] == 0 and attributes["scalar"] == 0.5
    assert attributes["nothing"] == "null" and attributes["nested"] == '{"a": [1, null]}'
    assert attributes["many"] == "[1.5, 2]" and attributes["array"] == "[0, 1]" and attributes["wide"] == str(1 << 70)


def test_a_vector_without_names_is_numbered_as_arviz_does():
    import arviz

    data = some_draws(eg.Target(lambda x: -0.5 * jnp.sum(x**2), like=jnp.zeros(3))).to_arviz()
    assert list(arviz.summary(data, kind="stats").index) == ["x[0]", "x[1]", "x[2]"]
