"""NumPyro models as targets: the density is NumPyro's own, and nothing of the model is lost on the way."""

import functools
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import ergodic as eg
from ergodic.adapters.languages import tracing
from ergodic.runtime.errors import MissingExtra

numpyro = pytest.importorskip("numpyro")
dist = pytest.importorskip("numpyro.distributions")

Y = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
SIGMA = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
DATA = np.random.default_rng(0).normal(size=20)


def eight_schools(sigma, y=None):
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("school", len(sigma)):
        theta = numpyro.sample("theta", dist.Normal(mu, tau))
        numpyro.sample("y", dist.Normal(theta, sigma), obs=y)


@pytest.fixture(scope="module")
def schools():
    return eg.from_numpyro(eight_schools, SIGMA, Y)


def supports(y):
    """One site of every kind of support, one of which depends on another site."""
    simplex = numpyro.sample("simplex", dist.Dirichlet(jnp.ones(3)))
    low = numpyro.sample("low", dist.Uniform(0, 1))
    numpyro.sample("high", dist.Uniform(low, 2))
    scale = numpyro.sample("scale", dist.HalfNormal(1))
    numpyro.sample("improper", dist.ImproperUniform(dist.constraints.positive, (), (2,)))
    numpyro.factor("penalty", -(low**2))
    numpyro.sample("y", dist.StudentT(4, simplex[0], scale), obs=y)


def nested(y):
    with numpyro.plate("row", 3, dim=-2):
        a = numpyro.sample("a", dist.Normal(0, 1))
        with numpyro.plate("column", 4, dim=-1):
            b = numpyro.sample("b", dist.Normal(a, 1))
            numpyro.deterministic("both", jnp.stack([b, b + 1], axis=-1))
            numpyro.sample("pair", dist.Normal(0, 1).expand([2]).to_event(1), infer={"event_dims": ["side"]})
            numpyro.sample("y", dist.Poisson(jnp.exp(b)), obs=y)


def parametrised(y):
    centre = numpyro.param("centre", jnp.array(2.0))
    numpyro.sample("y", dist.Normal(numpyro.sample("x", dist.Normal(centre, 1)), 1), obs=y)


@pytest.mark.parametrize(
    ("model", "data"),
    [
        (functools.partial(eight_schools, SIGMA), Y),
        (supports, DATA),
        (nested, np.ones((3, 4), int)),
        (parametrised, DATA),
    ],
    ids=["eight schools", "supports", "plates", "param"],
)
def test_the_density_is_numpyros_own(model, data):
    target = eg.from_numpyro(model, data)
    x = 0.3 * jax.random.normal(jax.random.key(1), (target.dim,))

    @jax.jit
    @jax.value_and_grad
    def potential(position):
        initialize = functools.partial(numpyro.infer.util.initialize_model, validate_grad=False)
        return initialize(jax.random.key(0), model, model_args=(data,)).potential_fn(position)

    with tracing(target.dtype):
        expected, force = potential(target.layout.unravel(x))
    values, forces = jax.jit(target.density.batched)(x[None, :])
    assert values.dtype == jnp.float32
    np.testing.assert_allclose(values[0], -expected, rtol=1e-5)
    np.testing.assert_allclose(forces[0], -target.layout.ravel(force), rtol=1e-3, atol=1e-4)


def test_plates_and_events_name_dimensions():
    target = eg.from_numpyro(nested, np.ones((3, 4), int), dims={"a": ["row", "one"]}, coords={"row": ["x", "y", "z"]})
    assert dict(target.model.dims) == {
        "a": ("row", "one"),
        "b": ("row", "column"),
        "both": ("row", "column", "both_dim_2"),
        "pair": ("row", "column", "side"),
        "y": ("row", "column"),
    }
    assert target.model.coords == {"row": ["x", "y", "z"]}
    assert target.names[:3] == ("a[0,0]", "a[1,0]", "a[2,0]")


def test_data_are_observed_or_constant(schools):
    model = schools.model
    np.testing.assert_array_equal(model.observed["y"], Y)
    np.testing.assert_array_equal(model.constant["sigma"], SIGMA)
    assert set(model.observed) == {"y"} and set(model.constant) == {"sigma"}

    def with_defaults(x=SIGMA, y=Y):
        numpyro.sample("y", dist.Normal(numpyro.sample("slope", dist.Normal(0, 1)) * x, 1), obs=y)

    assert set(eg.from_numpyro(with_defaults).model.constant) == {"x"}


def test_reparameterised_sites_come_back():
    model = numpyro.handlers.reparam(eight_schools, config={"theta": numpyro.infer.reparam.LocScaleReparam(0)})
    target = eg.from_numpyro(model, SIGMA, y=Y)
    assert target.layout.paths == ("mu", "tau", "theta_decentered")
    assert target.model.dims["theta"] == ("school",)
    values = target.constrain({"mu": jnp.array(1.0), "tau": jnp.array(0.5), "theta_decentered": jnp.arange(8.0)})
    np.testing.assert_allclose(values["tau"], np.exp(0.5), rtol=1e-6)
    np.testing.assert_allclose(values["theta"], 1 + np.exp(0.5) * np.arange(8.0), rtol=1e-6)

    def scaled():
        scale = numpyro.sample("scale", dist.HalfNormal(1))
        affine = dist.transforms.AffineTransform(0.0, scale)
        numpyro.sample("x", dist.TransformedDistribution(dist.Normal(0, 1), affine))

    config = {"x": numpyro.infer.reparam.TransformReparam()}
    target = eg.from_numpyro(numpyro.handlers.reparam(scaled, config=config))
    assert target.layout.paths == ("scale", "x_base")
    values = target.constrain({"scale": jnp.array(0.5), "x_base": jnp.array(2.0)})
    np.testing.assert_allclose(values["x"], 2 * np.exp(0.5), rtol=1e-6)


def test_likelihood_and_predictions(schools):
    """Predictions: mean and sd of 4,000 within 5 standard errors; fails by chance with probability below 2e-5."""
    position = {"mu": jnp.array(1.0), "tau": jnp.array(0.0), "theta": jnp.arange(8.0)}
    expected = stats.norm.logpdf(Y, np.arange(8.0), SIGMA)
    np.testing.assert_allclose(schools.model.log_likelihood(position)["y"], expected, rtol=1e-5)
    keys = jax.random.split(jax.random.key(0), 4000)
    draws = np.asarray(jax.jit(jax.vmap(schools.model.predictive, (None, 0)))(position, keys)["y"])
    assert draws.shape == (4000, 8)
    assert np.all(np.abs((draws.mean(axis=0) - np.arange(8.0)) / (SIGMA / np.sqrt(4000))) < 5)
    assert np.all(np.abs(draws.std(axis=0) / SIGMA - 1) < 5 / np.sqrt(8000))


def test_one_distribution_may_stand_for_many_data():
    def coin(y):
        numpyro.sample("y", dist.Bernoulli(numpyro.sample("p", dist.Beta(1, 1))), obs=y)

    model = eg.from_numpyro(coin, np.array([0, 1, 1])).model
    predicted = model.predictive({"p": jnp.array(0.0)}, jax.random.key(0))["y"]
    assert predicted.shape == (3,) and jnp.issubdtype(predicted.dtype, jnp.integer)
    np.testing.assert_allclose(model.log_likelihood({"p": jnp.array(0.0)})["y"], np.log([0.5] * 3), rtol=1e-5)


def test_p0_has_the_priors_location_and_spread():
    """1,000 draws: a quantile has a standard error of about 4 % of the spread, so 20 % is five of them."""

    def priors():
        numpyro.sample("gaussian", dist.Normal(3, 5).expand([2]))
        numpyro.sample("cauchy", dist.Cauchy(-2, 1))
        numpyro.sample("lognormal", dist.LogNormal(1, 0.5))
        numpyro.sample("improper", dist.ImproperUniform(dist.constraints.real, (), ()))

    target = eg.from_numpyro(priors)
    prior = dict(zip(target.names, zip(target.prior.mean, np.exp(target.prior.log_scale), strict=True), strict=True))
    cauchy = np.tan(np.pi * 0.3413)  # half the range between the 15.87 % and 84.13 % quantiles
    expected = {"gaussian[0]": (3, 5), "gaussian[1]": (3, 5), "cauchy": (-2, cauchy), "lognormal": (1, 0.5)}
    for name, (mean, scale) in expected.items():
        assert abs(prior[name][0] - mean) < 0.2 * scale, name
        assert abs(prior[name][1] / scale - 1) < 0.2, name
    assert prior["improper"] == pytest.approx((0, np.sqrt(3)))
    np.testing.assert_array_equal(eg.from_numpyro(priors).prior.mean, target.prior.mean)
    assert np.any(eg.from_numpyro(priors, seed=1).prior.mean != target.prior.mean)


def test_double_precision_when_it_is_jaxs_default(x64):
    target = eg.from_numpyro(parametrised, DATA)
    assert target.dtype == target.prior.mean.dtype == np.float64
    assert target.density(jnp.full(target.dim, 0.1)).dtype == jnp.float64


def discrete():
    numpyro.sample("k", dist.Poisson(numpyro.sample("rate", dist.Gamma(1, 1))))


def subsampled():
    numpyro.sample("a", dist.Normal(0, 1))
    with numpyro.plate("people", 10, subsample_size=5):
        numpyro.sample("x", dist.Normal(0, 1))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: eg.from_numpyro(discrete), "'discrete' has a discrete latent site, 'k', of a Poisson"),
        (lambda: eg.from_numpyro(subsampled), "a random part of plate 'people'"),
        (lambda: eg.from_numpyro(lambda: numpyro.sample("x", dist.Delta(1.0))), "'x' from a Delta"),
        (lambda: eg.from_numpyro(lambda: numpyro.sample("y", dist.Normal(), obs=1.0)), "no latent site"),
        (lambda: eg.from_numpyro(eight_schools), "'eight_schools' raised TypeError: .* 'sigma'; check the arguments"),
        (lambda: eg.from_numpyro(3), "a function; it was given a int"),
        (
            lambda: eg.from_numpyro(eight_schools, SIGMA, coords={"school": ["A"]}),
            "'school' 1 labels, but 'theta' has 8",
        ),
        (lambda: eg.from_numpyro(eight_schools, SIGMA, dims={"mu": ["a"]}), "'mu' 1 names, but its shape is ()"),
        (lambda: eg.from_numpyro(eight_schools, SIGMA, dims={"eta": ["a"]}), "'eta', which the model does not have"),
        (lambda: eg.from_numpyro(eight_schools, SIGMA, dims={"theta": ["mu"]}), "'mu', which is also a variable"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_sampled_is_said(make, message):
    with pytest.raises(eg.TargetError, match=message.replace("()", r"\(\)")):
        make()


def test_numpyro_may_be_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "numpyro", None)
    with pytest.raises(
        MissingExtra,
        match=r"from_numpyro needs numpyro, .*pip install 'ergodic-inference\[numpyro\]'",
    ):
        eg.from_numpyro(eight_schools, SIGMA)


def test_labels_of_no_dimension_are_refused():
    with pytest.raises(eg.TargetError, match="coords labels 'shcool', which is no dimension"):
        eg.from_numpyro(lambda: numpyro.sample("x", dist.Normal(0, 1)), coords={"shcool": ["a"]})


def test_what_the_model_says_drives_what_is_a_hint():
    """β_i ~ N(0, τ λ_i) names λ_i, and τ for all; nothing is said of what has parameters that are numbers."""

    def model():
        tau = numpyro.sample("tau", dist.HalfCauchy(0.1))
        lam = numpyro.sample("lam", dist.HalfCauchy(1).expand([3]).to_event(1))
        numpyro.sample("beta", dist.Normal(0, tau * lam).to_event(1))

    target = eg.from_numpyro(model)
    named = {(target.names[j], target.names[i]) for j, i in target.hints}
    assert named == {(f"lam[{i}]", f"beta[{i}]") for i in range(3)} | {("tau", f"beta[{i}]") for i in range(3)}


def line(x, y, likelihood=dist.Normal, **options):
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    numpyro.sample("y", likelihood(slope * x, 1.0), **options, obs=y)


def test_data_that_broadcast_against_their_distribution_are_named():
    x, y = np.ones(10, np.float32), np.ones((10, 1), np.float32)
    with pytest.warns(eg.TargetWarning, match=r"'y' has data of shape \(10, 1\).*of shape \(10,\).*100 terms"):
        eg.from_numpyro(line, x, y)
    eg.from_numpyro(line, x, y[:, 0])


def test_observed_values_that_cannot_be_are_named_by_site_and_row():
    x = np.ones(4, np.float32)
    with pytest.raises(eg.TargetError, match=r"'line' has NaN among the observed values of 'y', at \[1\], \[3\]:"):
        eg.from_numpyro(line, x, np.array([0.0, np.nan, 1.0, np.nan]))

    def counts(y, rate=dist.Poisson):
        numpyro.sample("y", rate(jnp.exp(numpyro.sample("a", dist.Normal(0, 1)))).expand([3]).to_event(1), obs=y)

    with pytest.raises(eg.TargetError, match=r"'y' that its distribution cannot give, at \[2\]: they must be whole"):
        eg.from_numpyro(counts, np.array([1, 0, -1]))
    with pytest.raises(eg.TargetError, match=r"they must be positive"):
        eg.from_numpyro(counts, np.array([1.0, 0.5, -1]), dist.Exponential)
    assert eg.from_numpyro(counts, np.array([1, 0, 2])).dim == 1


def test_masked_values_need_not_be_numbers():
    def masked(y):
        a = numpyro.sample("a", dist.Normal(0, 1))
        with numpyro.handlers.mask(mask=~np.isnan(y)):
            numpyro.sample("y", dist.Normal(a, 1), obs=jnp.nan_to_num(y))

    assert eg.from_numpyro(masked, np.array([0.0, np.nan], np.float32)).dim == 1


def assigned(y, components=2):
    weight = numpyro.sample("weight", dist.Dirichlet(jnp.ones(components)))
    mu = numpyro.sample("mu", dist.Normal(0, 3).expand([components]).to_event(1))
    numpyro.deterministic("gap", mu[1] - mu[0])
    with numpyro.plate("row", len(y)):
        z = numpyro.sample("z", dist.Categorical(weight))
        numpyro.deterministic("centre", mu[z])
        numpyro.sample("y", dist.Normal(mu[z], 0.5), obs=y)


def test_discrete_latent_sites_are_summed_out():
    """The density is that of the mixture, by hand; deterministic sites that need the discrete one are left out."""
    y = np.concatenate([np.random.default_rng(0).normal(c, 0.5, 6) for c in (-2, 2)]).astype(np.float32)
    target = eg.from_numpyro(assigned, y)
    assert target.layout.paths == ("mu", "weight") and target.model.log_likelihood is None

    def by_hand(y):
        weight = numpyro.sample("weight", dist.Dirichlet(jnp.ones(2)))
        mu = numpyro.sample("mu", dist.Normal(0, 3).expand([2]).to_event(1))
        parts = dist.Normal(mu, 0.5).log_prob(y[:, None]) + jnp.log(weight)
        numpyro.factor("y", jnp.sum(jax.nn.logsumexp(parts, axis=1)))

    other = eg.from_numpyro(by_hand, y)
    x = jax.random.normal(jax.random.key(1), (5, target.dim))
    for mine, its in zip(target.density.batched(x), other.density.batched(x), strict=True):
        np.testing.assert_allclose(mine, its, rtol=2e-5, atol=2e-5)
    values = target.constrain(target.layout.unravel(x[0]))
    assert set(values) == {"mu", "weight", "gap"} and set(target.model.dims) == {"mu", "weight", "gap", "y"}
    predicted = target.model.predictive(target.layout.unravel(x[0]), jax.random.key(2))
    assert predicted["y"].shape == (12,)


@pytest.mark.slow
def test_a_hidden_markov_chain_is_summed_out():
    from numpyro.contrib.control_flow import scan

    y = np.asarray([0.1, 1.9, 2.2, -0.3], np.float32)
    go = jnp.asarray([[0.9, 0.1], [0.2, 0.8]])

    def model(y):
        mu = numpyro.sample("mu", dist.Normal(0, 3).expand([2]).to_event(1))

        def step(z, value):
            z = numpyro.sample("z", dist.Categorical(go[z]))
            numpyro.sample("y", dist.Normal(mu[z], 1.0), obs=value)
            return z, None

        scan(step, 0, y)

    target = eg.from_numpyro(model, y)
    mu = jnp.asarray([0.3, 2.1])
    forward = jnp.log(go[0]) + dist.Normal(mu, 1.0).log_prob(y[0])
    for value in y[1:]:
        forward = jax.nn.logsumexp(forward[:, None] + jnp.log(go), axis=0) + dist.Normal(mu, 1.0).log_prob(value)
    exact = jax.nn.logsumexp(forward) + dist.Normal(0, 3).log_prob(mu).sum()
    assert float(target.density(mu)) == pytest.approx(float(exact), abs=1e-4)
