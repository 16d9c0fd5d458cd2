"""Bayesian networks: the posterior, predictions, and chains on several splits at once."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import ergodic as eg
from ergodic.bnn.chain import from_network_start, long_chain, network_chain
from ergodic.bnn.network import Data, RegressionNetwork
from ergodic.bnn.prediction import Mixture, predict, score
from ergodic.bnn.scaling import Scaling
from ergodic.runtime.errors import ConfigError

NETWORK = RegressionNetwork(2, (3,))


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(24, 2))
    return x, 3 + 2 * np.sin(x[:, 0]) + 0.1 * rng.normal(size=24)


@pytest.fixture(scope="module")
def data(rows):
    return Scaling.of(*rows).data(*rows)


def test_the_posterior_is_prior_times_likelihood(data):
    """Against SciPy, up to the prior's constant, at two positions."""
    flat = [jax.random.normal(jax.random.key(k), (NETWORK.dim,)) for k in range(2)]

    def by_hand(flat):
        p = {name: np.asarray(value, float) for name, value in NETWORK.layout.unravel(flat).items()}
        hidden = np.maximum(np.asarray(data.x, float) @ p["weights_1"] + p["biases_1"], 0)
        mean = (hidden @ p["weights_2"] + p["biases_2"])[:, 0]
        precision = np.exp(p["log_precision"])
        total = stats.norm(mean, precision**-0.5).logpdf(np.asarray(data.y, float)).sum()
        total += stats.gamma(1, scale=100).logpdf(precision) + p["log_precision"]
        return total + sum(stats.norm.logpdf(v).sum() for name, v in p.items() if name != "log_precision")

    ours = [float(NETWORK.logdensity(x, data)) for x in flat]
    assert np.isclose(ours[0] - ours[1], by_hand(flat[0]) - by_hand(flat[1]), rtol=1e-5)
    assert NETWORK.dim == 2 * 3 + 3 + 3 + 1 + 1


def test_it_is_a_target_like_any_other(data):
    target = NETWORK.target(data, minibatches=4)
    assert target.dim == NETWORK.dim and target.prior is not None
    flat = jax.random.normal(jax.random.key(0), (NETWORK.dim,))
    assert np.isclose(target.density(flat), NETWORK.logdensity(flat, data), rtol=1e-6)
    keys = jax.random.split(jax.random.key(5), 400)
    estimates = jax.vmap(lambda key: target.density.estimated(flat, key))(keys)
    # Unbiased: the mean of 400, of known spread. Fails once in 1e6.
    error = float(np.std(estimates)) / 20
    assert abs(float(np.mean(estimates)) - float(target.density(flat))) < 4.9 * error
    draws = eg.HEI(steps=2, leapfrogs=1, iterations=2, particles=4).fit(target, jax.random.key(1), progress=False)
    assert draws.sample(jax.random.key(2), 10, progress=False).position["noise"].shape == (10,)


def test_wider_and_deeper_networks():
    deep = RegressionNetwork(4, (6, 5))
    assert deep.dim == 4 * 6 + 6 + 6 * 5 + 5 + 5 + 1 + 1
    inputs = deep.layout.unravel(deep.inputs_of())
    assert np.all(inputs["weights_1"] == 4) and np.all(inputs["biases_2"] == 6) and np.all(inputs["weights_3"] == 5)
    with pytest.raises(ConfigError, match="hidden layer"):
        RegressionNetwork(3, ())


def test_scaling_goes_there_and_back(rows):
    x, y = rows
    scaling = Scaling.of(x, y)
    data = scaling.data(x, y)
    assert np.allclose(data.x.mean(axis=0), 0, atol=1e-6) and np.allclose(data.x.std(axis=0), 1, atol=1e-6)
    assert np.allclose(np.asarray(data.y, float) * scaling.y_scale + scaling.y_mean, y, atol=1e-5)
    flat = np.concatenate([x, np.ones((24, 1))], axis=1)
    assert np.all(Scaling.of(flat, y).inputs(flat)[:, 2] == 0)


def test_predictions_are_a_mixture_in_the_targets_units(rows):
    x, y = rows
    scaling = Scaling.of(x, y)
    positions = np.asarray(jax.random.normal(jax.random.key(0), (5, NETWORK.dim)))
    mixture = predict(NETWORK, positions, scaling, x)
    one = NETWORK.layout.unravel(jnp.asarray(positions[2]))
    mean = scaling.y_mean + scaling.y_scale * np.asarray(NETWORK.mean(one, jnp.asarray(scaling.inputs(x))))
    assert np.allclose(mixture.means[2], mean, rtol=1e-5)
    assert np.isclose(mixture.scales[2], scaling.y_scale * np.exp(-0.5 * float(one["log_precision"])), rtol=1e-5)
    assert set(score(mixture, y)) == {"log_likelihood", "rmse", "coverage_50", "coverage_90"}


def test_a_mixture_of_one_is_a_gaussian():
    y = np.linspace(-3, 3, 7)
    mixture = Mixture(np.zeros((1, 7)), np.array([2.0]))
    assert np.allclose(mixture.log_likelihood(y), stats.norm(0, 2).logpdf(y))
    assert np.allclose(mixture.quantile(0.9), stats.norm(0, 2).ppf(0.9), atol=1e-9)
    assert mixture.coverage(y, 0.5) == np.mean(np.abs(y) <= stats.norm(0, 2).ppf(0.75))
    two = Mixture(np.array([[0.0], [4.0]]), np.array([1.0, 1.0]))
    assert np.isclose(two.sd[0], np.sqrt(1 + 4)) and np.isclose(two.quantile(0.5)[0], 2.0, atol=1e-6)


@pytest.mark.parametrize("count", [6, 7, 24])
def test_the_parts_of_the_rows_are_all_rows(data, count, monkeypatch):
    """The mean over parts, one after the other, is exact, also where they do not divide the rows."""
    positions = jax.random.normal(jax.random.key(0), (3, NETWORK.dim))

    def chosen(part, shape, low, high):
        assert (shape, low, high) == ((), 0, count)  # any of them, as likely as the others
        return part

    density = NETWORK.target(data, minibatches=count).density
    monkeypatch.setattr(jax.random, "randint", chosen)

    each = jax.vmap(jax.value_and_grad(density.estimated), (0, None))
    found = jax.vmap(lambda part: each(positions, part))(jnp.arange(count))
    for estimates, exact in zip(found, density.batched(positions), strict=True):
        assert np.allclose(np.mean(estimates, axis=0), exact, rtol=1e-4, atol=1e-3)


def chain(**settings):
    """A short chain in the appendix's way."""
    few = {"steps": 6, "leapfrogs": 2, "learning_rate": 0.02, "acceptance": None, "vi_iterations": 30}
    return from_network_start(eg.LongChain(**few | settings), NETWORK)


def test_chains_of_all_splits_climb(data):
    """Two splits in one program; the second has other rows. Chains end above where they start."""
    both = Data(jnp.stack([data.x, data.x[::-1]]), jnp.stack([data.y, -data.y[::-1]]))
    family = NETWORK.family(both)
    method = chain(iterations=15, particles=4, step_size=(0.02, 0.05))
    samplers = method.fit_family(family, jax.random.key(0))
    draws = samplers.sample(jax.random.key(1), 20)
    assert draws.unconstrained.shape == (2, 20, NETWORK.dim) and np.all(np.isfinite(draws.unconstrained))
    expected = draws.trace["expected_logdensity"]
    assert expected.shape == (2, 7)
    assert np.all(expected[:, -1] > expected[:, 0])
    first, last = replace(method, iterations=None).fit_family(family, jax.random.key(0)).params, samplers.params
    assert np.array_equal(first.initial.mean, last.initial.mean)
    assert not np.array_equal(first.transitions.log_step, last.transitions.log_step)
    assert not np.array_equal(first.initial.mean[0], first.initial.mean[1])


def test_step_sizes_go_where_the_acceptance_is(data):
    """From steps that are far too long; the mean of 6 transitions and 100 runs, of fixed keys."""
    target, method = NETWORK.target(data), chain(iterations=40, particles=8, acceptance=0.7, step_size=(0.5, 0.6))
    after, before = (
        each.fit(target, jax.random.key(0)).sample(jax.random.key(1), 100).trace["acceptance"].mean()
        for each in (method, replace(method, iterations=None))
    )
    assert abs(float(after) - 0.7) < 0.1 and float(before) < 0.4


def test_starts(data):
    target = NETWORK.target(data)

    def start(spread):
        return (
            from_network_start(eg.LongChain(vi_iterations=5), NETWORK, spread).begin(target, jax.random.key(0)).initial
        )

    layer, variational, narrow = start(1.0), start(None), start(0.5)
    assert np.array_equal(layer.mean, variational.mean)
    scale = NETWORK.layout.unravel(np.exp(np.asarray(layer.log_scale)))
    assert np.allclose(scale["weights_1"] ** 2, 2**-0.5) and np.allclose(scale["weights_2"] ** 2, 3**-0.5)
    assert np.allclose(scale["log_precision"], 0.1)
    assert np.allclose(NETWORK.layout.unravel(np.exp(np.asarray(narrow.log_scale)))["weights_1"], 0.5 * 2**-0.25)


def test_few_rows_get_longer_chains():
    """A fixed amount of arithmetic, more of it below 1,100 rows, and never more than 800 leapfrogs."""
    assert [long_chain(rows).leapfrogs for rows in (1439, 455, 277, 50)] == [69, 342, 719, 800]
    assert long_chain(277, 0.001).leapfrogs == 3
    method = network_chain(NETWORK, 1439)
    assert method.alone and np.isclose(method.initial_scale[-1], 0.1 * 3**-0.25)
