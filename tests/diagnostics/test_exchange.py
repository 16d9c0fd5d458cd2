"""Label switching is named where draws keep labels apart, and nowhere else."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodic as eg
from ergodic.diagnostics.exchange import label_switching


def mixture(p):
    """Two unit Gaussians at ±4 whose order is open, with their log scales and a parameter of both."""
    pair = -0.5 * jnp.sum((jnp.sort(p["mu"]) - jnp.asarray([-4.0, 4.0])) ** 2)
    return pair - 0.5 * jnp.sum(p["log_sigma"] ** 2) - 0.5 * p["rate"] ** 2 + 0.1 * jnp.sum(p["mu"] * p["log_sigma"])


def levels(target):
    """log π* of positions."""
    return lambda x: np.asarray(target.density.batched(jnp.asarray(x))[0])


def look(logdensity, draws, **options):
    target = eg.Target(logdensity, like={k: jnp.asarray(v[0]) for k, v in draws.items()}, **options)
    x = np.concatenate([draws[k].reshape(len(draws[k]), -1) for k in sorted(draws)], axis=1).astype(np.float32)
    return label_switching(target, x, levels(target)(x), "failed", levels(target))


def some(n=400, **shapes):
    rng = np.random.default_rng(0)
    return {name: rng.normal(size=(n, *shape)).astype(np.float32) for name, shape in shapes.items()}


def test_exchangeable_components_that_are_kept_apart_are_named():
    draws = some(mu=(2,), log_sigma=(2,), rate=())
    draws["mu"] += np.asarray([-4, 4], np.float32)
    (found,) = look(mixture, draws)
    assert found.verdict == "failed" and "OrderedTransform" in found.advice
    assert "exchange of (log_sigma[0], mu[0]) and (log_sigma[1], mu[1])" in found.words


def test_components_that_meet_or_differ_are_not():
    draws = some(mu=(2,), log_sigma=(2,), rate=())
    assert look(mixture, draws) == []  # on top of one another: one mode
    draws["mu"] += np.asarray([-4, 4], np.float32)
    assert look(lambda p: mixture(p) - 0.1 * (p["mu"][0] + 4) ** 2, draws) == []  # the data tell them apart
    assert look(lambda p: -0.5 * p["a"] ** 2, some(a=())) == []


def test_a_variable_alone_and_columns_of_a_matrix_are_exchanged():
    draws = some(loading=(5, 2), scale=(2,))
    draws["loading"][:, :, 1] += 8
    own = jnp.asarray([0.0, 2.0])

    def factors(p):
        away = jnp.sort(p["loading"], axis=1) - 8 * jnp.arange(2.0)[None, :]
        return -0.5 * jnp.sum(away**2) - jnp.sum((p["scale"] - own) ** 2)

    (found,) = look(factors, draws)
    assert "loading[:,0] and loading[:,1]" in found.words


def test_a_simplex_goes_along():
    numpyro = pytest.importorskip("numpyro")
    dist = pytest.importorskip("numpyro.distributions")
    y = np.concatenate([np.random.default_rng(0).normal(m, 0.4, 30) for m in (-3, 0, 3)]).astype(np.float32)

    def model(y):
        weight = numpyro.sample("weight", dist.Dirichlet(jnp.ones(3)))
        mu = numpyro.sample("mu", dist.Normal(0, 5).expand([3]))
        z = dist.Categorical(weight)
        numpyro.sample("y", dist.MixtureSameFamily(z, dist.Normal(mu, 0.4)).expand([90]), obs=y)

    target = eg.from_numpyro(model, y)
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.normal([-3, 0, 3], 0.1, (200, 3)), rng.normal(0, 0.3, (200, 2))], axis=1)
    x = x.astype(np.float32)
    (found,) = label_switching(target, x, levels(target)(x), "inconclusive", levels(target))
    assert "(mu[0], weight[0]) and (mu[1], weight[1])" in found.words and found.verdict == "inconclusive"


@pytest.mark.slow
def test_a_certificate_that_fails_for_labels_says_so():
    """A chain that is not annealed between two modes that no particle crosses: the advice comes first."""
    target = eg.Target(mixture, like={"mu": jnp.zeros(2), "log_sigma": jnp.zeros(2), "rate": 0.0})
    chain = eg.fit(target, jax.random.key(0), eg.GEI(particles=128, anneal=False), progress=False)
    assert chain.certificate.passed is not True
    assert "the same under exchange" in chain.certificate.summary() and "order them" in chain.certificate.advice()[0]
