"""Between P0 and π: levels, forces, and the way back, in double precision."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ergodic.charts import DenseChart, DiagonalChart
from ergodic.initial import DiagonalGaussian
from ergodic.initial.mixture import KernelMixture
from ergodic.kernels import Ensemble, start
from ergodic.kernels.affine import AffineHMC, AffineParams
from ergodic.kernels.tempered import log_ratio, temper, tempered, untemper, with_force

DIM = 3


def logdensity(x):
    return -0.25 * jnp.sum(x**4) + x[0] * x[1] - jnp.exp(0.3 * x[2])


def density(x):
    return jax.vmap(jax.value_and_grad(logdensity))(x)


def mixture():
    rng = np.random.default_rng(0)
    root = np.tril(rng.normal(size=(DIM, DIM))) + 2 * np.eye(DIM)
    parts = root, np.linalg.inv(root), np.linalg.slogdet(root)[1]
    return KernelMixture(jnp.asarray(rng.normal(size=(4, DIM))), DenseChart(*(jnp.asarray(part) for part in parts)))


def gaussian():
    return DiagonalGaussian(jnp.asarray([0.3, -0.2, 1.0]), jnp.asarray([0.1, 0.4, -0.3]))


@jax.jit
def at_beta(p0, beta, x):
    return tempered(density, p0, beta)(x)


INITIALS = {"one Gaussian": gaussian, "mixture": mixture}


def positions(n=6):
    return jnp.asarray(np.random.default_rng(1).normal(size=(n, DIM)))


@pytest.mark.parametrize("initial", INITIALS)
def test_the_force_of_p0_is_its_derivative(x64, initial):
    p0, x = INITIALS[initial](), positions()
    value, force = jax.jit(with_force)(p0, x)
    level = jax.jit(p0.logdensity)
    np.testing.assert_allclose(value, level(x), rtol=1e-12)
    np.testing.assert_allclose(force, differences(level, x), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("initial", INITIALS)
@pytest.mark.parametrize("beta", [0.0, 0.01, 0.5, 1.0])
def test_level_and_force_at_beta(x64, initial, beta):
    """log f_β = β log π* + (1-β) log p0, and its force against finite differences."""
    p0, x, beta = INITIALS[initial](), positions(), jnp.asarray(beta)
    value, force = at_beta(p0, beta, x)
    np.testing.assert_allclose(value, beta * density(x)[0] + (1 - beta) * p0.logdensity(x), rtol=1e-12)
    np.testing.assert_allclose(force, differences(lambda x: at_beta(p0, beta, x)[0], x), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("initial", INITIALS)
@pytest.mark.parametrize("beta", [1e-4, 0.3, 1.0])
def test_tempering_is_undone(x64, initial, beta):
    p0, beta = INITIALS[initial](), jnp.asarray(beta)
    ensemble = start(density, positions())
    there = jax.jit(temper)(p0, beta, ensemble)
    value, force = at_beta(p0, beta, ensemble.position)
    np.testing.assert_allclose(there.logdensity, value, rtol=1e-12)
    np.testing.assert_allclose(there.gradient, force, rtol=1e-12)
    back = jax.jit(untemper)(p0, beta, there)
    for one, other in zip(back, ensemble, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-8)


def test_a_transition_at_beta_gives_back_what_belongs_to_the_new_position(x64):
    p0, beta = mixture(), jnp.asarray(0.2)
    params = AffineParams(jnp.asarray(0.3), jnp.int32(3), DiagonalChart(jnp.ones(DIM)))

    @jax.jit
    def move(x, key):
        before = temper(p0, beta, start(density, x))
        there, info = AffineHMC().transition(tempered(density, p0, beta), params, before, key)
        return untemper(p0, beta, there), info

    after, info = move(positions(40), jax.random.key(0))
    assert np.asarray(info.accepted).mean() > 0.5
    value, gradient = density(after.position)
    np.testing.assert_allclose(after.logdensity, value, rtol=1e-9)
    np.testing.assert_allclose(after.gradient, gradient, rtol=1e-8, atol=1e-9)


def test_what_is_outside_the_support_weighs_nothing(x64):
    x = positions(3)
    values = jnp.asarray([0.5, -jnp.inf, jnp.nan])
    ratio = np.asarray(log_ratio(gaussian(), Ensemble(x, values, jnp.zeros_like(x))))
    np.testing.assert_allclose(ratio[0], 0.5 - gaussian().logdensity(x)[0], rtol=1e-12)
    assert np.all(np.isneginf(ratio[1:]))


def differences(function, x, h=1e-5):
    """Central differences, one coordinate at a time."""
    steps = h * np.eye(DIM)
    columns = [(function(x + step[None, :]) - function(x - step[None, :])) / (2 * h) for step in steps]
    return np.stack(columns, axis=1)
