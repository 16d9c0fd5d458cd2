"""The layer in which every coordinate has its own driver: a map, its inverse, its volume, and the force in it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ergodic.charts.coordinates import Coordinates
from ergodic.charts.driven import FEATURES
from ergodic.charts.fitting import identity
from ergodic.charts.paired import alone
from ergodic.kernels import start
from ergodic.kernels.affine import AffineHMC, AffineParams
from ergodic.kernels.pulled_back import pulled_back
from stationarity_ergodic import gumbel_target
from statistics_ergodic import two_sample_p

N = 50_000
DIM = 6
DRIVER = np.array([0, 0, 2, 2, 2, 5])
DRIVEN = np.array([1, 3, 4])
"""Coordinate 0 drives 1, coordinate 2 drives 3 and 4, and 5 drives them all."""


def made(seed=0):
    """A layer that nobody fitted."""
    rng = np.random.default_rng(seed)
    moved = np.isin(np.arange(DIM), DRIVEN).astype(float)
    parts = {name: moved * rng.normal(size=DIM) for name in ("own", "share", "shift", "slope", "rise")}
    mean, scale = 0.2 * rng.normal(size=(2, FEATURES, DIM)) * moved
    scale[-1] = 0  # only means have v²
    layer = alone(DIM, np.dtype(np.float64))._replace(moving=np.ones(()), driver=DRIVER.astype(float))
    return layer._replace(centre=rng.normal(size=DIM), common=np.eye(DIM)[5], mean=mean, scale=scale, **parts)


def rows(seed, n=9):
    return np.random.default_rng(seed).normal(size=(n, DIM))


def test_inverse_undoes_forward_and_drivers_stay():
    layer, u = made(), rows(1)
    x, _ = layer.forward(u)
    np.testing.assert_allclose(layer.inverse(x), u, rtol=1e-10, atol=1e-10)
    np.testing.assert_array_equal(x[:, [0, 2, 5]], u[:, [0, 2, 5]])
    assert np.abs(x - u)[:, DRIVEN].min(axis=0).max() > 0.01
    np.testing.assert_array_equal(layer.moves(), np.isin(np.arange(DIM), DRIVEN))
    assert layer.drivers() == [0, 2, 5]


def test_volume_and_force_are_those_of_autodiff(x64):
    layer, u = jax.tree.map(jnp.asarray, made()), jnp.asarray(rows(2))

    def logdensity(x):
        return jnp.sum(jnp.sin(x) * jnp.arange(1.0, DIM + 1.0)) - 0.1 * jnp.prod(x)

    def inside(u):
        x, volume = layer.forward(u[None])
        return logdensity(x[0]) + volume[0]

    @jax.jit
    def both(u):
        x, volume = layer.forward(u)
        jacobian = jax.vmap(jax.jacfwd(lambda u: layer.forward(u[None])[0][0]))(u)
        return volume, jacobian, layer.pull_back(u, jax.vmap(jax.grad(logdensity))(x)), jax.vmap(jax.grad(inside))(u)

    volume, jacobian, force, expected = both(u)
    np.testing.assert_allclose(volume, np.linalg.slogdet(np.asarray(jacobian))[1], rtol=1e-10)
    np.testing.assert_allclose(force, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("moving", [True, False])
def test_numpy_and_jax_give_the_same(x64, moving):
    layer, u, force = made(), rows(1), rows(2)
    layer = layer if moving else layer.unmoved()

    def everything(layer, u, force):
        return *layer.forward(u), layer.inverse(u), layer.pull_back(u, force)

    host = everything(layer, u, force)
    program = jax.jit(everything)(jax.tree.map(jnp.asarray, layer), jnp.asarray(u), jnp.asarray(force))
    for one, two in zip(host, program, strict=True):
        assert isinstance(one, np.ndarray)
        np.testing.assert_allclose(one, two, rtol=1e-11, atol=1e-12)
    if not moving:
        for same, other in zip(host, (u, np.zeros(len(u)), u, force), strict=True):
            np.testing.assert_array_equal(same, other)


def test_single_precision_stays_single():
    layer = jax.tree.map(lambda leaf: leaf.astype(np.float32), made())
    u = rows(1).astype(np.float32)
    for part in (*layer.forward(u), layer.inverse(u), layer.pull_back(u, u)):
        assert part.dtype == np.float32


@pytest.mark.parametrize("dropped", [False, True])
def test_the_target_is_left_unchanged_at_wrong_numbers_but_not_without_the_volume(dropped):
    """Two-sample test; a right transition fails it with probability 1e-4 (fixed seed), one without log|det| passes it
    with less than 1e-12."""
    target, draw = gumbel_target()
    layer = alone(2, np.dtype(np.float32))._replace(
        moving=np.ones(()),
        driver=np.zeros(2),
        own=np.array([0, 0.7]),
        shift=np.array([0, 0.4]),
        rise=np.array([0, 0.3]),
    )
    scale = np.zeros((FEATURES, 2))
    scale[:4, 1] = 0.3, 0.15, -0.1, 0.1
    layer = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), layer._replace(scale=scale))
    coordinates = Coordinates((), layer)

    def density(u):
        if not dropped:
            return pulled_back(target.density.batched, coordinates)(u)
        value, force = target.density.batched(layer.forward(u)[0])
        return value, layer.pull_back(u, force) - layer.pull_back(u, jnp.zeros_like(u))

    kernel = AffineHMC()
    params = AffineParams(jnp.float32(0.5), jnp.int32(3), jax.tree.map(jnp.asarray, identity(N, 2, 16, target.dtype)))

    @jax.jit
    def once(x, key):
        ensemble, _ = kernel.transition(density, params, start(density, coordinates.inverse(x)), key)
        return coordinates.forward(ensemble.position)[0]

    p_value = two_sample_p(once(draw(jax.random.key(0), N), jax.random.key(1)), draw(jax.random.key(2), N))
    assert p_value < 1e-12 if dropped else p_value > 1e-4
