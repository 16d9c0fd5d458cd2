"""Data as an argument of programs: nothing is compiled for others, and they may lie on several devices."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodic as eg
from ergodic.runtime.programs import compiled


def regression(w, data):
    """A logistic regression with a standard normal prior."""
    eta = data["x"] @ w
    return jnp.sum(data["y"] * eta - jax.nn.softplus(eta)) - 0.5 * jnp.sum(w**2)


def rows(seed, n=200, dim=3):
    rng = np.random.default_rng(seed)
    x, w = rng.normal(size=(n, dim)).astype(np.float32), rng.normal(size=dim)
    return {"x": x, "y": (rng.uniform(size=n) < 1 / (1 + np.exp(-x @ w))).astype(np.float32)}


def _mean(draws):
    return draws.unconstrained.mean(axis=0)


@pytest.fixture(scope="module")
def target():
    return eg.Target(regression, like=jnp.zeros(3), data=rows(0))


@pytest.fixture(scope="module")
def fitted(target):
    """A sampler of the first data, which has drawn and been certified."""
    sampler = eg.fit(target, jax.random.key(0))
    sampler.sample(jax.random.key(1), 1000)
    return sampler


@pytest.fixture(scope="module")
def other(target):
    return target.with_data(rows(1))


@pytest.fixture(scope="module")
def refitted(fitted, other):
    return eg.fit(other, jax.random.key(0))


def test_other_data_of_these_shapes_compile_nothing(fitted, other, refitted):
    """Tuning, certifying and drawing: nothing; and the draws are those of a target with those data alone."""
    assert fitted.cost.compile_seconds > 0 and refitted.cost.compile_seconds == 0
    draws = refitted.sample(jax.random.key(1), 1000)
    assert draws.cost.compile_seconds == refitted.certificate.cost.compile_seconds == 0
    data = jax.tree.map(jnp.asarray, rows(1))
    alone = eg.fit(eg.Target(lambda w: regression(w, data), like=jnp.zeros(3)), jax.random.key(0))
    # a constant may be multiplied in another order: the same to rounding, of chains that are stable
    np.testing.assert_allclose(_mean(draws), _mean(alone.sample(jax.random.key(1), 1000)), atol=0.1)
    assert np.abs(_mean(draws) - _mean(fitted.sample(jax.random.key(1), 1000))).max() > 0.3  # other data


def test_a_fit_goes_on_from_a_sampler_of_near_data(fitted, target):
    """From the other's P0 it takes fewer gradients, compiles nothing, and is certified like any other.

    Means agree within 5 standard errors, which sound draws miss with probability 1e-6 a mean.
    """
    more = rows(0)
    more["y"][:10] = 1 - more["y"][:10]
    near = target.with_data(more)
    warm, cold = eg.fit(near, jax.random.key(5), start=fitted), eg.fit(near, jax.random.key(5))
    assert warm.method == fitted.method and warm.target is near and warm.certificate.passed
    assert warm.cost.compile_seconds == 0 and warm.cost.gradients < cold.cost.gradients
    draws = [sampler.sample(jax.random.key(6), 2000).unconstrained for sampler in (warm, cold)]
    error = np.sqrt(2 / 2000) * draws[0].std(axis=0)
    assert (np.abs(draws[0].mean(axis=0) - draws[1].mean(axis=0)) < 5 * error).all()


def test_what_a_fit_cannot_go_on_from_is_refused(fitted, target):
    with pytest.raises(eg.ConfigError, match="start is for GEI alone"):
        eg.fit(target, jax.random.key(0), eg.HEI(), start=fitted)
    with pytest.raises(eg.ConfigError, match="of positions like"):
        eg.fit(eg.targets.get("gaussian"), jax.random.key(0), start=fitted)


def test_data_do_not_enter_the_program(target):
    """A program for data is as long as one for none, and is the same one for others, of any method."""

    def text(target):
        program = compiled(_logdensity, (target.density,), jnp.zeros(3))
        return program.func.as_text()

    many = target.with_data(rows(2, n=20_000))
    assert len(text(many)) < 2 * len(text(target)) < 100_000
    method = eg.HEI(steps=2, leapfrogs=2, iterations=5)
    eg.fit(target, jax.random.key(0), method)
    assert eg.fit(target.with_data(rows(3)), jax.random.key(0), method).cost.compile_seconds == 0


def _logdensity(density, x):
    return density(x)


def test_rows_sharded_over_devices_are_one_data_set(target):
    """Two devices, half of the rows each: gradients are summed, in a density that closes over rows and in data.

    Means are within 5 standard errors, which sound draws miss with probability 1e-6 a mean.
    """
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    mesh = Mesh(np.array(jax.devices()[:2]), ("rows",))
    data = jax.device_put(rows(0), NamedSharding(mesh, PartitionSpec("rows")))
    assert len(data["x"].addressable_shards) == 2 and data["x"].addressable_shards[0].data.shape == (100, 3)
    x = np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32)
    for sharded in (target.with_data(data), eg.Target(lambda w: regression(w, data), like=jnp.zeros(3))):
        for mine, its in zip(sharded.density.batched(x), target.density.batched(x), strict=True):
            np.testing.assert_allclose(mine, its, rtol=2e-5)
        sampler = eg.fit(sharded, jax.random.key(0))
        assert sampler.certificate.passed
        draws = sampler.sample(jax.random.key(1), 1000)
        exact = eg.fit(target, jax.random.key(0)).sample(jax.random.key(1), 1000)
        np.testing.assert_allclose(
            _mean(draws), _mean(exact), atol=5 * draws.unconstrained.std(axis=0).max() * np.sqrt(2 / 1000)
        )


def test_data_that_do_not_fit_are_refused(target):
    with pytest.raises(eg.TargetError, match="has no data to exchange"):
        eg.targets.get("gaussian").with_data(rows(0))
    with pytest.raises(eg.TargetError, match=r"\{'x': \*, 'y': \*\}.* not .*'z'"):
        target.with_data({**rows(0), "z": 1.0})
    with pytest.raises(eg.TargetError, match="pytree of arrays"):
        target.with_data({"x": "text", "y": 1.0})
    with pytest.raises(eg.TargetError, match="logdensity raised"):
        target.with_data(rows(0, dim=4))
