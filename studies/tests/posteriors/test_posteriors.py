"""The built-in posteriors against their reference draws."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

import ergodic as eg
from data_ergodic import data_folder
from ergodic.runtime.errors import DataError
from ergodic_studies.posteriors import eight_schools, gp_poisson, time_series
from ergodic_studies.posteriors.bayesian import half_cauchy, half_normal, half_t3
from ergodic_studies.posteriors.linear_models import LeastSquares
from ergodic_studies.posteriors.registry import POSTERIORS
from statistics_ergodic import z_of_mean

WITH_DRAWS = [name for name in POSTERIORS if name != "german-credit"]


@pytest.fixture(autouse=True)
def data(monkeypatch, request):
    if "without_" not in request.node.name or "with_and_without" in request.node.name:
        monkeypatch.setenv("ERGODIC_DATA", data_folder())


@functools.cache
def in_double(name):
    """Positions that float32 can hold, 2,000 of them, with log π* and its force in float64, and constrained."""
    with jax.enable_x64(True):
        target = eg.targets.get(name)
        assert target.dtype == np.float64 and target.dim == POSTERIORS[name].dim
        u = target.reference.unconstrained
        if u is None:
            u = target.reference.mean + target.reference.sd * np.random.default_rng(0).normal(size=(2000, 25))
        x = jnp.asarray(u.astype(np.float32), float)
        value, force = jax.jit(target.density.batched)(x)
        constrained = jax.jit(jax.vmap(lambda x: target.constrain(target.layout.unravel(x))))(jnp.asarray(u))
        return np.asarray(x), np.asarray(value), np.asarray(force), jax.device_get(constrained)


@pytest.mark.parametrize("name", WITH_DRAWS)
def test_stein_identities_hold_on_the_reference_draws(name):
    """E[∂ log π] = 0 and E[(u - E u) ∂ log π] = -1 for every coordinate of the unconstrained position, |z| < 4.5.

    Of 196 z-scores by the normal law one lies beyond with probability 1.3e-3; the draws are fixed, the largest is 2.7.
    Also: constrain undoes the map that made the unconstrained draws.
    """
    u, _, force, constrained = in_double(name)
    reference = eg.targets.get(name).reference
    assert np.abs(z_of_mean(force, 0.0)).max() < 4.5
    assert np.abs(z_of_mean((u - u.mean(axis=0)) * force, -1.0)).max() < 4.5
    np.testing.assert_allclose(reference.columns(constrained), reference.draws, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", POSTERIORS)
def test_float32_log_densities_are_good_to_a_hundredth(name):
    """Differences of log π* between 2,000 draws; the largest error measured is 2e-3 (diamonds)."""
    u, exact, exact_force, _ = in_double(name)
    target = eg.targets.get(name)
    assert target.dtype == np.float32
    value, force = jax.jit(target.density.batched)(jnp.asarray(u, np.float32))
    assert np.ptp(np.asarray(value, float) - exact) < 0.01
    assert np.max(np.abs(np.asarray(force, float) - exact_force) / exact_force.std(axis=0)) < 2e-3


@pytest.mark.parametrize("name", POSTERIORS)
def test_constrained_draws_have_the_published_names(name):
    target = eg.targets.get(name)
    reference = target.reference
    value = jax.eval_shape(lambda x: target.constrain(target.layout.unravel(x)), jnp.zeros(target.dim))
    assert set(value) == set(reference.variables)
    assert len(reference.names) == sum(int(np.prod(leaf.shape)) for leaf in value.values()) == len(reference.mean)
    assert {name.partition("[")[0] for name in reference.names} == set(value)
    if reference.draws is not None:  # the stored 2,000 are every fifth of the 10,000 behind the moments
        assert np.abs((reference.draws.mean(axis=0) - reference.mean) / reference.sd).max() < 4.5 / np.sqrt(2000)
        np.testing.assert_allclose(reference.draws.std(axis=0), reference.sd, rtol=0.15)
        assert np.all(reference.mean_squared >= reference.mean**2)


def test_german_credit_has_its_published_moments(x64):
    """Importance sampling from a widened Laplace approximation: every mean within 4.5 standard errors (failure
    probability 2e-4), every sd within 3 %."""
    target = eg.targets.get("german-credit")
    w = jnp.zeros(25)
    hessian, slope = jax.jit(jax.hessian(target.density)), jax.jit(jax.grad(target.density))
    for _ in range(12):
        w = w - np.linalg.solve(hessian(w), slope(w))
    root = 1.1 * np.linalg.cholesky(np.linalg.inv(-hessian(w)))
    noise = np.random.default_rng(0).normal(size=(20_000, 25))
    x = np.asarray(w) + noise @ root.T
    weight = np.asarray(jax.jit(target.density.batched)(jnp.asarray(x))[0]) + 0.5 * np.sum(noise**2, axis=1)
    weight = np.exp(weight - weight.max())
    weight /= weight.sum()
    mean = weight @ x
    error = np.sqrt(weight**2 @ (x - mean) ** 2)
    reference = target.reference
    assert reference.draws is None and reference.names[-1] == "w[25]" and 1 / np.sum(weight**2) > 5000
    assert np.max(np.abs(mean - reference.mean) / np.hypot(error, reference.mcse_mean)) < 4.5
    np.testing.assert_allclose(np.sqrt(weight @ (x - mean) ** 2), reference.sd, rtol=0.03)
    with pytest.raises(eg.TargetError, match="no draws"):
        reference.expected_logdensity(target.density)


def test_expected_logdensity_over_reference_draws(x64):
    target = eg.targets.get("kidiq")
    value, error = target.reference.expected_logdensity(target.density)
    assert value == pytest.approx(-3.52, abs=0.15) and 0.02 < error < 0.06


def test_least_squares_is_the_sum_over_rows(x64):
    rng = np.random.default_rng(0)
    design, response = rng.normal(size=(40, 3)) + 5, rng.normal(size=40)
    fit = LeastSquares.of(design, response)
    for scale, coefficients in ((0.4, rng.normal(size=3)), (2.0, np.zeros(3))):
        direct = stats.norm.logpdf(response, design @ coefficients, scale).sum()
        best = stats.norm.logpdf(response, design @ fit.best, np.exp(fit.log_scale)).sum()
        ours = fit.loglikelihood(jnp.asarray(coefficients), jnp.log(jnp.asarray(scale)))
        assert float(ours) == pytest.approx(direct - best, rel=1e-9)


def test_recursions_are_what_loops_give(x64):
    rng = np.random.default_rng(1)
    shocks, errors = rng.normal(size=9), [0.0]
    for shock in shocks:
        errors.append(-0.7 * errors[-1] + shock)
    np.testing.assert_allclose(time_series._decaying(jnp.asarray(-0.7), jnp.asarray(shocks)), errors[1:])
    transition, emission = rng.uniform(size=(2, 2)), rng.uniform(size=(7, 2))
    paths = emission[0]
    for here in emission[1:]:
        paths = (paths @ transition) * here
    ours = time_series._forward(jnp.log(transition), jnp.log(emission))
    assert float(ours) == pytest.approx(np.log(paths.sum()), rel=1e-12)


@pytest.mark.parametrize(("rho", "alpha"), [(3.0, 1.0), (5.7, 2.9), (8.0, 1.2)])
def test_the_gp_factor_is_the_cholesky_factor(rho, alpha, x64):
    x = np.arange(11) * 2.0
    kernel = alpha**2 * np.exp(-((x[:, None] - x) ** 2) / (2 * rho**2)) + 1e-10 * np.eye(11)
    factor = jax.jit(gp_poisson.cholesky_factor, static_argnums=(2, 3))
    ours = factor(jnp.log(jnp.asarray(rho)), jnp.log(jnp.asarray(alpha)), 11, 2.0)
    np.testing.assert_allclose(ours, np.linalg.cholesky(kernel), atol=1e-8)
    # and far outside of the prior it stays finite
    assert jnp.all(jnp.isfinite(factor(jnp.float32(4.0), jnp.float32(-2.0), 11, 2.0)))


def test_scale_priors(x64):
    """Densities of log σ against SciPy, and the mean and sd that P0 starts with by quadrature."""
    u = np.linspace(-60, 60, 400_001)
    for ours, theirs in (
        (half_cauchy(2.5), stats.halfcauchy(scale=2.5)),
        (half_normal(10.0), stats.halfnorm(scale=10.0)),
        (half_t3(10.0), stats.t(3, scale=10.0)),
    ):
        shift = np.asarray(ours.logdensity(jnp.asarray(u[180_000:220_000:500])))
        shift = shift - theirs.logpdf(np.exp(u[180_000:220_000:500])) - u[180_000:220_000:500]
        np.testing.assert_allclose(shift, shift[0], atol=1e-9)
        weight = np.exp(np.asarray(ours.logdensity(jnp.asarray(u))))
        weight /= weight.sum()
        mean = weight @ u
        np.testing.assert_allclose(ours.start, (mean, np.sqrt(weight @ (u - mean) ** 2)), rtol=1e-5)
    np.testing.assert_allclose(
        gp_poisson._LOG_RHO, (special.digamma(25) - np.log(4), np.sqrt(special.polygamma(1, 25))), rtol=1e-5
    )


def test_a_proper_prior_gives_p0(monkeypatch):
    prior = eg.targets.get("eight-schools").prior
    names = eg.targets.get("eight-schools").names
    assert names[:2] == ("log_tau", "mu")  # JAX lays dictionaries out by sorted keys
    np.testing.assert_allclose(prior.mean[:2], [np.log(5), 0], rtol=1e-6)
    np.testing.assert_allclose(jnp.exp(prior.log_scale)[:3], [np.pi / 2, 5, 1], rtol=1e-6)
    assert eg.targets.get("kidiq").prior is None
    assert eight_schools.centred({"y": np.ones(1), "sigma": np.ones(1)}).prior["mu"] == (0.0, 5.0)


def test_without_data_names_are_listed_and_get_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.delenv("ERGODIC_DATA", raising=False)
    assert set(POSTERIORS) <= set(eg.targets.names())
    with pytest.raises(DataError, match=r"set ERGODIC_DATA to a folder that has posteriordb/.*stan-dev/posteriordb"):
        POSTERIORS["ark"].target("ark")
    with pytest.raises(DataError, match=r"inference_gym/.*Inference Gym"):
        POSTERIORS["german-credit"].target("german-credit")
    monkeypatch.setenv("ERGODIC_DATA", str(tmp_path))
    with pytest.raises(DataError, match=r"needs posteriordb/arK\.data\.json, which is not under ERGODIC_DATA"):
        POSTERIORS["ark"].target("ark")


def test_the_command_line_lists_posteriors_with_and_without_data(capsys, monkeypatch):
    from ergodic.cli.listings import list_targets

    list_targets()
    listed = capsys.readouterr().out
    assert all(name in listed for name in POSTERIORS) and "ERGODIC_DATA" not in listed
    monkeypatch.delenv("ERGODIC_DATA")
    list_targets()
    listed = capsys.readouterr().out
    assert all(name in listed for name in POSTERIORS) and "stan-dev/posteriordb" in listed


def test_the_gp_refuses_other_grids_without_equal_spacing():
    with pytest.raises(DataError, match="equally spaced"):
        gp_poisson.gp_poisson({"x": np.array([0.0, 1.0, 3.0]), "k": np.array([1, 2, 3])})
