"""PyMC models as targets: the density is PyMC's own, and importing PyMC leaves JAX as it was."""

import pickle
import subprocess
import sys
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import ergodic as eg
from ergodic.adapters.pymc import _pymc
from ergodic.runtime.errors import MissingExtra

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pm = pytest.importorskip("pymc")
pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS")

Y = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
SIGMA = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
SCHOOLS = list("ABCDEFGH")


@pytest.fixture(scope="module")
def schools():
    with pm.Model(coords={"school": SCHOOLS}) as model:
        sigma = pm.Data("sigma", SIGMA, dims="school")
        mu = pm.Normal("mu", 0, 5)
        tau = pm.HalfCauchy("tau", 5)
        z = pm.Normal("z", 0, 1, dims="school")
        theta = pm.Deterministic("theta", mu + tau * z, dims="school")
        pm.Normal("y", theta, sigma, observed=Y, dims="school")
    return model, eg.from_pymc(model, name="eight schools")


@pytest.fixture(scope="module")
def supports():
    with pm.Model() as model:
        pm.Dirichlet("simplex", np.ones(3))
        pm.LKJCholeskyCov("factor", n=3, eta=2.0, sd_dist=pm.Exponential.dist(1.0), compute_corr=True)
        low = pm.Uniform("low", 0, 1)
        pm.Uniform("high", low, 2)
        pm.ZeroSumNormal("zero_sum", 1, shape=3)
        flat = pm.Flat("flat")
        pm.Normal("child", flat, 2)
        pm.HalfFlat("positive")
        pm.Potential("penalty", -(low**2))
        pm.Poisson("counts", pm.math.exp(flat), observed=np.array([1, 2, 3]))
    return model, eg.from_pymc(model)


@pytest.mark.parametrize("which", ["schools", pytest.param("supports", marks=pytest.mark.slow)])
def test_the_density_is_pymcs_own(which, request):
    model, target = request.getfixturevalue(which)
    x = 0.3 * jax.random.normal(jax.random.key(1), (target.dim,))
    point = {name: np.asarray(leaf) for name, leaf in target.layout.unravel(x).items()}
    values, forces = jax.jit(target.density.batched)(x[None, :])
    assert values.dtype == forces.dtype == target.dtype == jnp.float32
    np.testing.assert_allclose(values[0], model.compile_logp(mode="FAST_COMPILE")(point), rtol=1e-5)
    variables = {value.name: rv for value, rv in model.values_to_rvs.items()}
    order = [variables[name] for name in target.layout.paths]
    force = model.compile_dlogp(order, mode="FAST_COMPILE")(point)
    np.testing.assert_allclose(forces[0], force, rtol=1e-3, atol=1e-4)


def test_names_dims_and_data_are_kept(schools):
    _, target = schools
    assert target.layout.paths == ("mu", "tau_log__", "z")
    expected = {"mu": [], "tau": [], "z": ["school"], "theta": ["school"], "y": ["school"], "sigma": ["school"]}
    assert target.model.dims == expected
    assert list(target.model.coords["school"]) == SCHOOLS
    np.testing.assert_array_equal(target.model.observed["y"], Y)
    np.testing.assert_array_equal(target.model.constant["sigma"], SIGMA)


def test_constrained_values_likelihood_and_predictions(schools):
    """Predictions: mean and sd of 4,000 within 5 standard errors; fails by chance with probability below 2e-5."""
    _, target = schools
    position = {"mu": jnp.array(1.0), "tau_log__": jnp.array(0.5), "z": jnp.arange(8.0)}
    theta = 1 + np.exp(0.5) * np.arange(8.0)
    values = target.constrain(position)
    assert set(values) == {"mu", "tau", "z", "theta"}
    np.testing.assert_allclose(values["theta"], theta, rtol=1e-5)
    expected = stats.norm.logpdf(Y, theta, SIGMA)
    np.testing.assert_allclose(target.model.log_likelihood(position)["y"], expected, rtol=1e-5)
    keys = jax.random.split(jax.random.key(0), 4000)
    draws = np.asarray(jax.jit(jax.vmap(target.model.predictive, (None, 0)))(position, keys)["y"])
    assert np.all(np.abs((draws.mean(axis=0) - theta) / (SIGMA / np.sqrt(4000))) < 5)
    assert np.all(np.abs(draws.std(axis=0) / SIGMA - 1) < 5 / np.sqrt(8000))


def test_p0_has_the_priors_location_and_spread(schools, supports):
    """1,000 draws: a quantile has a standard error of about 4 % of the spread, so 20 % is five of them."""
    _, target = schools
    scale = dict(zip(target.names, np.exp(target.prior.log_scale), strict=True))
    assert abs(scale["mu"] / 5 - 1) < 0.2 and abs(scale["z[3]"] - 1) < 0.2
    assert abs(target.prior.mean[1] - np.log(5)) < 0.3  # the median of log |Cauchy(5)|
    _, target = supports
    prior = dict(zip(target.names, zip(target.prior.mean, np.exp(target.prior.log_scale), strict=True), strict=True))
    assert prior["flat"] == prior["positive_log__"] == pytest.approx((0, np.sqrt(3)))
    assert abs(prior["child"][1] / 2 - 1) < 0.2  # a proper site, below an improper one at its support point


def test_what_cannot_be_drawn_is_left_out():
    with pm.Model() as model:
        pm.CustomDist("x", logp=lambda value: -(value**2) / 2)
        pm.CustomDist("y", pm.Normal("mean"), logp=lambda value, mean: -((value - mean) ** 2) / 2, observed=np.ones(2))
    target = eg.from_pymc(model)
    assert target.prior is None and target.model.predictive is None
    assert target.density(jnp.ones(2)) == pytest.approx(-0.5 - 0.5 - 0.5 * np.log(2 * np.pi))


def test_double_precision_when_it_is_jaxs_default(x64):
    with pm.Model() as model:
        pm.HalfNormal("x", 1)
    target = eg.from_pymc(model)
    assert target.dtype == np.float64 and target.density(jnp.ones(1)).dtype == jnp.float64


def test_what_cannot_be_sampled_is_said():
    with pm.Model() as discrete:
        pm.Poisson("k", pm.Gamma("rate", 1, 1))
    with pytest.raises(eg.TargetError, match="discrete free random variables, 'k'"):
        eg.from_pymc(discrete)
    with pm.Model() as empty:
        pm.Normal("y", 0, 1, observed=1.0)
    with pytest.raises(eg.TargetError, match="no free random variable"):
        eg.from_pymc(empty)
    with pytest.raises(eg.TargetError, match=r"needs a pymc\.Model; it was given a function"):
        eg.from_pymc(lambda: None)


def test_a_graph_that_jax_cannot_have_is_said(monkeypatch, schools):
    def refuse(**_):
        raise NotImplementedError("No JAX conversion for the given `Op`: Odd")

    monkeypatch.setattr("pymc.sampling.jax.get_jaxified_graph", refuse)
    with pytest.raises(eg.TargetError, match="into JAX: NotImplementedError: No JAX conversion"):
        eg.from_pymc(schools[0])


def test_pymc_may_be_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "pymc", None)
    with pytest.raises(MissingExtra, match=r"from_pymc needs pymc, .*pip install 'ergodic-inference\[pymc\]'"):
        _pymc()


def test_importing_pymc_leaves_jax_as_it_was():
    script = (
        "import os, warnings; os.environ.pop('XLA_FLAGS', None)\n"
        "import jax, ergodic as eg\n"
        "before = dict(jax.config.values)\n"
        "from ergodic.adapters.pymc import _pymc; _pymc()\n"
        "assert dict(jax.config.values) == before, 'importing changed the configuration'\n"
        "assert 'XLA_FLAGS' not in os.environ\n"
        "assert len(jax.devices()) == 1\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_what_the_model_says_drives_what_is_a_hint():
    """β_i ~ N(μ, τ λ_i) names λ_i, and μ and τ for all of them, by their value variables."""
    pm = pytest.importorskip("pymc")
    with pm.Model() as model:
        mu, tau, lam = pm.Normal("mu"), pm.HalfCauchy("tau", 0.1), pm.HalfCauchy("lam", 1, shape=3)
        pm.Normal("beta", mu, tau * lam, shape=3)
    target = eg.from_pymc(model)
    named = {(target.names[j], target.names[i]) for j, i in target.hints}
    drivers = {(f"lam_log__[{i}]", i) for i in range(3)} | {(name, i) for name in ("mu", "tau_log__") for i in range(3)}
    assert named == {(name, f"beta[{i}]") for name, i in drivers}


def test_missing_values_are_imputed_and_models_travel():
    """What is NaN among observed data becomes a latent value; the density is the joint one, by hand."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyMC says that it imputes
        with pm.Model() as model:
            mu = pm.Normal("mu", 0, 1)
            pm.Normal("y", mu, 1.0, observed=np.array([1.0, np.nan, 2.0]))
    with pytest.raises(eg.ConfigError, match=r"it is a model: eg.from_pymc\(model\)"):
        eg.fit(model, jax.random.key(0))
    target = pickle.loads(pickle.dumps(eg.from_pymc(model)))
    assert target.names == ("mu", "y_unobserved[0]")
    exact = stats.norm.logpdf([1, 2, 0.7], 0.3).sum() + stats.norm.logpdf(0.3)
    assert float(target.density(jnp.asarray([0.3, 0.7]))) == pytest.approx(exact, abs=1e-5)
    values = target.constrain({"mu": jnp.asarray(0.3), "y_unobserved": jnp.asarray([0.7])})
    np.testing.assert_allclose(values["y"], [1, 0.7, 2], rtol=1e-6)
