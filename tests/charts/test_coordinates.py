"""Composed layers: densities pulled back through them are the same target, whatever the layers are."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodic as eg
from ergodic.charts.coordinates import Coordinates, plain
from ergodic.charts.driven import ACROSS, ALONG, FEATURES, Directions, blank
from ergodic.charts.fitting import identity
from ergodic.charts.paired import alone
from ergodic.kernels import start
from ergodic.kernels.affine import AffineHMC, AffineParams
from ergodic.kernels.pulled_back import pulled_back
from ergodic.runtime.programs import Stopwatch
from ergodic.tuning.forgetting import Particles
from ergodic.tuning.stepping import Way
from stationarity_ergodic import changes_by_noise, gumbel_target, stays_at
from statistics_ergodic import two_sample_p

N = 50_000
STEP, LEAPFROGS = 0.5, 3


def wrong(dtype=np.float32):
    """Two layers that nobody fitted: x1 drives the scale and the mean of x2, and inside of that x2 those of x1."""
    layers = []
    for driver, size in ((0, 1.0), (1, -0.7)):
        other = 1 - driver
        select, slope = np.zeros((2, 2)), np.zeros((2, 2))
        select[driver, 0], slope[0, other] = 1, -0.3
        mean, scale = np.zeros((2, 2 * FEATURES, 2))
        mean[:FEATURES, other] = 0.15 * size * np.array([1.0, -1.0, 0.5, 0.3, 0.0, -0.5, 0.2])
        scale[:FEATURES, other] = 0.3 * size * np.array([1.0, 0.5, -0.4, 0.3, -0.2, 0.1, 0.0])
        parts = {"drivers": select, "centre": np.array([0.3, -0.2]), "spread": np.array([1.5, 1.0])}
        parts |= {"shift": np.eye(2)[other] * 0.4, "slope": slope, "mean": mean, "scale": scale}
        layer = blank(2, 2, True, np.dtype(np.float64))
        layers.append(layer._replace(kind=np.asarray(float(ALONG)), **parts))
    return Coordinates(tuple(layers)).on_device(np.dtype(dtype))


def across(seed, dim=4):
    """A layer in directions of its own: one driver, which is not the first coordinate."""
    rng = np.random.default_rng(seed)
    driver = 1 + seed % (dim - 1)
    free = [j for j in range(dim) if j != driver]
    matrix = rng.normal(size=(dim - 1, dim - 1))
    out, into = np.zeros((dim, dim)), np.zeros((dim, dim))
    out[np.ix_(range(dim - 1), free)], into[np.ix_(free, range(dim - 1))] = matrix, np.linalg.inv(matrix)
    mean, scale = np.zeros((2, 2 * FEATURES, dim))
    mean[:, :-1], scale[:, :-1] = 0.1 * rng.normal(size=(2, 2 * FEATURES, dim - 1))
    scale[FEATURES - 1 :: FEATURES] = 0  # only means have v²
    select = np.zeros((dim, 2))
    select[driver, 0] = 1
    layer = blank(dim, 2, True, np.dtype(np.float64))
    parts = {"drivers": select, "centre": rng.normal(size=dim), "mean": mean, "scale": scale}
    return layer._replace(kind=np.asarray(float(ACROSS)), directions=Directions(out, into), **parts)


def rows(seed, dim, n=8):
    return np.random.default_rng(seed).normal(size=(n, dim))


def test_the_first_layer_is_the_outermost():
    outer, inner = across(0), across(1)
    both, u = Coordinates((outer, inner)), rows(0, 4)
    middle, one = inner.forward(u)
    x, two = outer.forward(middle)
    np.testing.assert_allclose(both.forward(u)[0], x, rtol=1e-12)
    np.testing.assert_allclose(both.forward(u)[1], one + two, rtol=1e-12)
    np.testing.assert_allclose(both.inverse(x), u, rtol=1e-8, atol=1e-8)
    assert np.abs(Coordinates((inner, outer)).forward(u)[0] - x).max() > 0.1  # the order does matter


def test_volume_and_force_are_those_of_the_composition(x64):
    coordinates = Coordinates((across(0), across(1))).on_device(np.dtype(np.float64))
    u = jnp.asarray(rows(1, 4))

    def logdensity(x):
        return jnp.sum(jnp.sin(x) * jnp.arange(1.0, 5.0)) - 0.1 * jnp.prod(x)

    def inside(u):
        x, volume = coordinates.forward(u[None])
        return logdensity(x[0]) + volume[0]

    @jax.jit
    def both(u):
        density = pulled_back(jax.vmap(jax.value_and_grad(logdensity)), coordinates)
        jacobian = jax.vmap(jax.jacfwd(lambda u: coordinates.forward(u[None])[0][0]))(u)
        return density(u), jax.vmap(jax.value_and_grad(inside))(u), coordinates.forward(u)[1], jacobian

    (value, force), (expected, slope), volume, jacobian = both(u)
    np.testing.assert_allclose(volume, np.linalg.slogdet(np.asarray(jacobian))[1], rtol=1e-9)
    np.testing.assert_allclose(value, expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(force, slope, rtol=1e-8, atol=1e-8)


def test_numpy_and_jax_give_the_same(x64):
    host = Coordinates((across(0), across(1)))
    device, u, force = host.on_device(np.dtype(np.float64)), rows(1, 4), rows(2, 4)

    def everything(coordinates, u, force):
        return *coordinates.forward(u), coordinates.inverse(u), coordinates.pull_back(u, force)

    program = jax.jit(everything)(device, jnp.asarray(u), jnp.asarray(force))
    for one, two in zip(everything(host, u, force), program, strict=True):
        assert isinstance(one, np.ndarray)
        np.testing.assert_allclose(one, two, rtol=1e-10, atol=1e-11)
    back = device.on_host()
    assert all(isinstance(leaf, np.ndarray) for leaf in jax.tree.leaves(back))
    np.testing.assert_array_equal(back.forward(u)[0], host.forward(u)[0])


def test_without_layers_u_is_x():
    nothing, u = Coordinates(), rows(0, 3)
    x, volume = nothing.forward(u)
    for same in (x, nothing.inverse(u), nothing.pull_back(u, u)):
        np.testing.assert_array_equal(same, u)
    np.testing.assert_array_equal(volume, 0)
    density = gumbel_target()[0].density.batched
    assert pulled_back(density, nothing) is density


@pytest.mark.parametrize(("particles", "rotated"), [(512, True), (16, True), (15, False)])
def test_plain_ones_do_nothing_in_the_shapes_of_learned_ones(particles, rotated):
    """Directions of their own where dense charts are: in no more than particles/4 dimensions."""
    coordinates, u = plain(2, particles, 4, np.dtype(np.float32)), rows(0, 4).astype(np.float32)
    assert len(coordinates.layers) == 2
    assert all((layer.directions is not None) == rotated for layer in coordinates.layers)
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(coordinates))
    for same in (coordinates.on_host(), coordinates.on_host().unmoved()):
        x, volume = same.forward(u)
        np.testing.assert_array_equal(x, u)
        np.testing.assert_array_equal(volume, 0)
        np.testing.assert_array_equal(same.pull_back(u, u), u)


def test_unmoved_ones_have_the_shapes_of_those_that_move():
    coordinates, u = wrong().on_host(), rows(0, 2).astype(np.float32)
    still = coordinates.unmoved()
    assert jax.tree.structure(still) == jax.tree.structure(coordinates)
    assert [leaf.shape for leaf in jax.tree.leaves(still)] == [leaf.shape for leaf in jax.tree.leaves(coordinates)]
    np.testing.assert_array_equal(still.forward(u)[0], u)
    assert np.abs(coordinates.forward(u)[0] - u).max() > 0.1


def test_a_coordinate_that_is_moved_has_another_name():
    names = ("a", "b", "c", "d")
    assert Coordinates((across(0),)).names(names) == ("a in the chart", "b", "c in the chart", "d in the chart")
    assert Coordinates((across(0), across(1))).names(names) == tuple(f"{name} in the chart" for name in names)
    assert plain(2, 512, 4, np.dtype(np.float32)).names(names) == Coordinates().names(names) == names


# Exactness at wrong numbers ------------------------------------------------------------------------------------------


def outside(coordinates, ensemble):
    """The ensemble with its positions in x, on the host."""
    return ensemble._replace(position=coordinates.on_host().forward(np.asarray(ensemble.position))[0])


@pytest.fixture(scope="module")
def moved_by_the_program():
    """Exact draws, once through the step of tuning, drawing and probing, in coordinates that nobody fitted."""
    target, draw = gumbel_target()
    coordinates = wrong()
    way, x = Way.on(target, coordinates=coordinates), draw(jax.random.key(0), N)
    chart = identity(N, 2, way.settings.chart_rank, target.dtype)
    before = way.evaluated(coordinates.on_host().inverse(np.asarray(x)), chart)
    after, info = way.applied(before, chart, STEP, LEAPFROGS, 0, jax.random.key(1))
    return target, draw, coordinates, before, after, info


def test_the_target_is_left_unchanged_by_the_step_in_wrong_coordinates(moved_by_the_program):
    """Two-sample test against fresh exact draws; fails for a right step with probability 1e-4 (fixed seed)."""
    _, draw, coordinates, _, after, info = moved_by_the_program
    stays_at(outside(coordinates, after), info, draw(jax.random.key(2), N))


def test_the_change_of_moments_is_noise_in_wrong_coordinates(moved_by_the_program):
    """Paired differences of x and x² average to zero: |z| < 4.5 for four of them, probability of failure 3e-5."""
    _, _, coordinates, before, after, _ = moved_by_the_program
    changes_by_noise(outside(coordinates, before), outside(coordinates, after))


def test_what_is_carried_belongs_to_the_position_in_u(moved_by_the_program):
    target, _, coordinates, before, after, _ = moved_by_the_program
    value, force = jax.jit(pulled_back(target.density.batched, coordinates))(after.position[:500])
    np.testing.assert_allclose(after.logdensity[:500], value, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(after.gradient[:500], force, rtol=1e-3, atol=1e-3)
    went = np.abs(np.asarray(after.position) - np.asarray(before.position)).mean()
    assert went > 0.3


def without_volume(density, coordinates):
    """log π*(x(u)) and its force, as if coordinates kept volume."""

    def batched(u):
        x, _ = coordinates.forward(u)
        value, force = density(x)
        volume_force = coordinates.pull_back(u, jnp.zeros_like(u))
        return value, coordinates.pull_back(u, force) - volume_force

    return batched


@pytest.mark.parametrize("dropped", [False, True])
def test_the_target_is_left_unchanged_by_the_kernel_but_without_the_volume_it_is_not(dropped):
    """The same test, of one transition that is right (it fails with 1e-4, fixed seed) and of one without log|det|."""
    target, draw = gumbel_target()
    coordinates = wrong()
    density = (without_volume if dropped else pulled_back)(target.density.batched, coordinates)
    kernel, chart = AffineHMC(), identity(N, 2, 16, target.dtype)
    params = AffineParams(jnp.float32(STEP), jnp.int32(LEAPFROGS), jax.tree.map(jnp.asarray, chart))

    @jax.jit
    def once(x, key):
        ensemble, _ = kernel.transition(density, params, start(density, coordinates.inverse(x)), key)
        return coordinates.forward(ensemble.position)[0]

    after = once(draw(jax.random.key(0), N), jax.random.key(1))
    p_value = two_sample_p(after, draw(jax.random.key(2), N))
    assert p_value < 1e-12 if dropped else p_value > 1e-4


# The step program in coordinates -------------------------------------------------------------------------------------


def test_particles_enter_coordinates_and_leave_them():
    target, draw = gumbel_target()
    way = Way.on(target, coordinates=wrong())
    x = np.asarray(draw(jax.random.key(0), 200))
    value, force = (np.asarray(part) for part in target.density.batched(jnp.asarray(x)))
    inside = way.entered(Particles(x, value, force))
    expected = way.evaluated(inside.position, way.plain(len(x)))  # by the program
    np.testing.assert_allclose(inside.logdensity, expected.logdensity, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(inside.gradient, expected.gradient, rtol=1e-3, atol=1e-3)
    back, level = way.left(inside.position, inside.logdensity)
    np.testing.assert_allclose(back, x, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(level, value, rtol=1e-4, atol=1e-4)
    assert np.abs(inside.logdensity - value).max() > 0.1  # the volume is something


def test_other_coordinates_are_the_same_program():
    """Not even a small operation between programs is compiled for them, once it has been done."""
    traces = []

    def logdensity(x):
        traces.append(1)
        return -0.5 * jnp.sum(x**2)

    target = eg.Target(logdensity, like=jnp.zeros(2))
    way = Way.on(target, coordinates=plain(2, 64, 2, target.dtype))
    chart = way.plain(64)

    def once(way):
        u = np.random.default_rng(0).normal(size=(64, 2)).astype(np.float32)
        ensemble, _ = way.applied(way.evaluated(u, chart), chart, 0.5, 2, 0, jax.random.key(0))
        return np.asarray(ensemble.position)

    ends = [once(way)]
    before = len(traces)
    ends += [once(way.inside(wrong())), once(way.inside(wrong()).outside())]
    assert before and len(traces) == before
    watch, one = Stopwatch(), wrong().on_host()
    half = one.layers[0]._replace(scale=0.5 * one.layers[0].scale)
    ends += [once(way.inside(Coordinates(layers))) for layers in ((half, one.layers[1]), (half, half.unmoved()))]
    assert len(traces) == before and watch.cost(0, 0).compile_seconds == 0
    np.testing.assert_array_equal(ends[0], ends[2])
    assert all(np.abs(one - two).max() > 0.01 for one, two in itertools.combinations(ends[1:], 2))


def test_drivers_are_those_of_layers_that_move_and_of_pairs():
    pair = alone(4, np.dtype(np.float64))._replace(moving=np.ones(()), driver=np.zeros(4), own=np.eye(4)[2])
    moving, still = across(1), across(0)._replace(kind=np.zeros(()))
    assert Coordinates((moving, still), pair).drivers() == [0, 2]
    assert Coordinates((still,), pair._replace(moving=np.zeros(()))).drivers() == []
    assert plain(2, 512, 4, np.dtype(np.float32)).drivers() == Coordinates().drivers() == []
