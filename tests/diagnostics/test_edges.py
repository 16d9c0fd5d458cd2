"""What log π* is where no chain can tell: +inf and NaN are found, and where the support ends is said."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodic as eg
from ergodic.certificate import Finding
from ergodic.diagnostics.edges import edges

FAILED = [Finding("stein", "Stein identities", "failed", "words")]


def normal(x):
    return -0.5 * jnp.sum(x**2)


def found(logdensity, others=(), dim=3, seed=0):
    target = eg.Target(logdensity, like=jnp.zeros(dim))
    rng = np.random.default_rng(seed)
    draws = rng.normal(size=(500, dim)).astype(np.float32)

    def finite(x):
        values, forces = target.density.batched(jnp.asarray(x))
        return np.isfinite(values) & np.isfinite(forces).all(axis=1)

    return {finding.name: finding for finding in edges(target, draws, finite, others, rng)}


def test_a_density_that_is_finite_everywhere_is_not_asked_twice():
    assert found(normal) == {} == found(normal, FAILED)
    nowhere, rng = np.zeros((0, 2), np.float32), np.random.default_rng(0)
    assert edges(eg.targets.get("gaussian"), nowhere, lambda x: x[:, 0] > 0, (), rng) == []


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "where", [lambda x: (x[0] > 1) & (x[0] < 1.05), lambda x: x[0] > 5, lambda x: x[2] < -4, lambda x: x[1] == x[1]]
)
def test_plus_infinity_fails_wherever_it_is(where, seed):
    """Seeds are fixed; a slab of 0.05 is missed by 1,024 points with probability below 1e-5."""
    (finding,) = found(lambda x: jnp.where(where(x), jnp.inf, normal(x)), seed=seed).values()
    assert (finding.name, finding.verdict) == ("infinite values", "failed") and "+inf at" in finding.words


def test_nan_is_inconclusive_among_the_draws_and_noted_beyond_them():
    near = found(lambda x: jnp.where(x[1] > 1, jnp.nan, normal(x)))["NaN"]
    assert near.verdict == "inconclusive" and "x[1] from 1" in near.words and "jnp.where" in near.advice
    far = found(lambda x: jnp.where(x[1] > 5, jnp.nan, normal(x)))["NaN"]
    assert far.verdict == "noted" and "0 of 1,024 points among the draws" in far.words
    force = found(lambda x: normal(x) + jnp.where(x[0] > 0, jnp.sqrt(jnp.maximum(x[0], 0)), 0.0))["NaN"]
    assert force.verdict == "inconclusive" and force.words.startswith("its gradient is NaN")


def test_where_the_support_ends_there_is_advice_but_only_for_what_failed():
    def half(x):
        return jnp.where(x[2] > 0, normal(x), -jnp.inf)

    assert found(half) == {}
    finding = found(half, FAILED)["support"]
    assert finding.verdict == "failed" and "for x[2] > a, x = a + exp(u)" in finding.advice


def test_a_certificate_fails_a_density_that_is_infinite_far_out():
    """N(0, 1) but for x > 5, where no chain ever is: it used to pass."""
    target = eg.Target(lambda x: jnp.where(x[0] > 5, jnp.inf, normal(x)), like=jnp.zeros(2))
    certificate = eg.fit(target, jax.random.key(0), progress=False).certificate
    assert certificate.passed is False and "infinite values" in {finding.name for finding in certificate.findings}
