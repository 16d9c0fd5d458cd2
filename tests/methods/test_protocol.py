"""Every method through the same calls: fit, sample, save, load, costs, reproducible by key, errors."""

from dataclasses import asdict, fields

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodic as eg
from ergodic.methods import METHODS

SMALL = {
    "GEI": eg.GEI(particles=64, steps=16, pilot=24, anneal=False),
    "HEI": eg.HEI(steps=3, leapfrogs=2, iterations=5, particles=20),
    "LongChain": eg.LongChain(steps=3, leapfrogs=2, iterations=5, particles=4, vi_iterations=20),
    "MeanField": eg.MeanField(iterations=10, particles=20),
    "HVI": eg.HVI(steps=3, leapfrogs=2, hidden=4, iterations=5, particles=20),
    "HVAE": eg.HVAE(leapfrogs=4, iterations=5, particles=20, tempering="fixed"),
    "GHMC": eg.GHMC(chains=20, leapfrogs=2, iterations=5, burn_in=5),
    "HAIS": eg.HAIS(temperatures=20, leapfrogs=2, pilots=3, particles=20),
    "SGHMC": eg.SGHMC(chains=20, burn_in=20, thin=3),
    "Rejection": eg.Rejection(low=-6.0, high=6.0, proposals=4096),
    "NUTS": eg.NUTS(chains=4, warmup=100),
    "ChEES": eg.ChEES(chains=16, warmup=50),
    "MEADS": eg.MEADS(chains=16, warmup=50),
    "LAPS": eg.LAPS(chains=64),
    "Pathfinder": eg.Pathfinder(paths=3, elbo_draws=20),
}
INDEPENDENT = {"GEI", "HEI", "LongChain", "MeanField", "HVI", "HVAE", "Rejection"}

WEIGHTED = {"HAIS", "Pathfinder"}

N = 64  # draws, everywhere: another number would be another program


def target():
    """A two-leaf pytree with a correlated, skewed density."""
    return eg.Target(
        lambda p: -0.5 * jnp.sum(p["a"] ** 2) - jnp.cosh(p["b"]) + 0.3 * p["b"] * p["a"][0],
        like={"a": jnp.zeros(2), "b": 0.0},
        name="two leaves",
    )


@pytest.fixture(scope="module")
def shared_target():
    return target()


@pytest.fixture(scope="module")
def broken():
    """NaN everywhere."""
    return eg.Target(lambda x: jnp.sum(jnp.log(-(x**2))), like=jnp.zeros(2), name="broken")


@pytest.fixture(scope="module", params=list(METHODS))
def fitted(request, shared_target):
    """One fitted sampler a method, shared by the tests below."""
    return SMALL[request.param].fit(shared_target, jax.random.key(0), progress=False)


def test_the_list_is_complete():
    assert set(SMALL) == set(METHODS)


def test_draws_have_the_targets_shape_and_density(fitted):
    draws = fitted.sample(jax.random.key(1), N, progress=False)
    assert draws.position["a"].shape == (N, 2) and draws.position["b"].shape == (N,)
    assert draws.unconstrained.dtype == np.float32 and np.all(np.isfinite(draws.unconstrained))
    value = jax.vmap(fitted.target.density)(jnp.asarray(draws.unconstrained))
    np.testing.assert_allclose(draws.logdensity, value, rtol=1e-3, atol=1e-3)
    for column in draws.stats.values():
        assert column.shape == (N,)


def test_draws_say_what_they_are(fitted):
    draws = fitted.sample(jax.random.key(1), N, progress=False)
    name = fitted.method.name
    assert draws.independent == (name in INDEPENDENT)
    assert draws.attributes["method"] == name
    assert draws.kind == ("independent" if name in INDEPENDENT else "resampled" if name in WEIGHTED else "correlated")
    assert 0 < draws.effective_size() <= N * (1 if draws.kind != "correlated" else 5)  # antithetic chains may exceed n
    data = draws.to_arviz()
    assert data.posterior.attrs["independent_draws"] == int(draws.independent)
    assert data.posterior.sizes["chain"] == draws.chains


def test_the_same_key_gives_the_same_draws(fitted):
    one, same, other = (fitted.sample(jax.random.key(k), N, progress=False).unconstrained for k in (3, 3, 4))
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)


def test_a_saved_sampler_draws_the_same(fitted, tmp_path):
    fitted.save(tmp_path / "s")
    back = eg.load(tmp_path / "s", fitted.target)
    assert back.method == fitted.method and back.cost == fitted.cost
    one, two = (s.sample(jax.random.key(5), N, progress=False) for s in (fitted, back))
    np.testing.assert_array_equal(one.unconstrained, two.unconstrained)


def test_a_second_fit_is_the_same_and_compiles_nothing(fitted):
    again = fitted.method.fit(fitted.target, jax.random.key(0), progress=False)
    assert again.cost.compile_seconds == 0
    for one, two in zip(jax.tree.leaves(again.params), jax.tree.leaves(fitted.params), strict=True):
        np.testing.assert_array_equal(jax.device_get(one), jax.device_get(two))


def test_costs_are_counted(fitted):
    draws = fitted.sample(jax.random.key(6), N, progress=False)
    assert draws.cost.gradients >= N and draws.cost.depth >= 1 and draws.cost.run_seconds > 0
    assert fitted.cost.run_seconds > 0


def test_chunks_do_not_leave_gaps(fitted):
    draws = fitted.sample(jax.random.key(7), 150, chunk=N, progress=False)
    assert len(draws) == 150 and np.all(np.isfinite(draws.logdensity))


def test_settings_are_plain_and_checked(fitted):
    method = fitted.method
    assert type(method)(**asdict(method)) == method
    assert hash(method) == hash(type(method)(**asdict(method)))
    whole = [f.name for f in fields(method) if f.type == "int" and "seed" not in f.name]
    for name in whole:
        for bad in (0, -1, 2.5):
            with pytest.raises(eg.ConfigError, match=name):
                type(method)(**{**asdict(method), name: bad})


def test_a_target_that_cannot_be_sampled_is_refused(fitted, broken):
    method = fitted.method if fitted.method.name != "Rejection" else eg.Rejection(low=-6.0, high=6.0)
    with pytest.raises(eg.ErgodicError, match="broken"):
        method.fit(broken, jax.random.key(0), progress=False)
