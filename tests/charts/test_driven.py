"""A layer that drivers move: against its equation, and against automatic differentiation in double precision."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ergodic.charts.driven import ACROSS, ALONG, FEATURES, KNOTS, Directions, blank, features

DIM, SLOTS = 5, 3
DRIVERS = (3, 1)  # the third slot is not used
FREE = (0, 2, 4)
FORMS = ("across", "along", "no directions")
"""In directions of their own; in the coordinates; and in these where there is no room for directions."""


def made(form, seed=0):
    """A layer in NumPy with nothing at zero that may be other than zero."""
    rng = np.random.default_rng(seed)
    select = np.zeros((DIM, SLOTS))
    select[DRIVERS, range(len(DRIVERS))] = 1
    matrix = rng.normal(size=(3, 3))
    directions = Directions(np.zeros((DIM, DIM)), np.zeros((DIM, DIM)))
    directions.out[np.ix_(range(3), FREE)] = matrix
    directions.into[np.ix_(FREE, range(3))] = np.linalg.inv(matrix)
    driven = list(range(3)) if form == "across" else list(FREE)

    def some(rows, size):
        values = np.zeros((rows, DIM))
        values[:, driven] = size * rng.normal(size=(rows, len(driven)))
        return values

    numbers = SLOTS * FEATURES
    scale = some(numbers, 0.15)
    scale[FEATURES - 1 :: FEATURES] = 0  # only means have v²
    return blank(DIM, SLOTS, form != "no directions", np.dtype(np.float64))._replace(
        kind=np.asarray(float(ACROSS if form == "across" else ALONG)),
        drivers=select,
        centre=rng.normal(size=DIM),
        spread=np.exp(0.3 * rng.normal(size=SLOTS)),
        directions=None if form == "no directions" else directions,
        shift=some(1, 1.0)[0],
        slope=some(SLOTS, 0.7),
        mean=some(numbers, 0.3),
        scale=scale,
    )


def on_device(layer):
    return jax.tree.map(jnp.asarray, layer)


def rows(seed, n=9):
    return np.random.default_rng(seed).normal(size=(n, DIM))


def of_one(layer):
    """x(u) of one row."""
    return lambda u: layer.forward(u[None])[0][0]


@pytest.mark.parametrize("form", FORMS)
def test_it_is_its_equation(form):
    """W (x - m) = c + B v + e^{s(v)} (μ(v) + W (u - m)), written out for every direction; drivers stay."""
    layer, u = made(form), rows(1)
    x, volume = layer.forward(u)
    out = layer.directions.out if form == "across" else np.diag([1.0, 0.0, 1.0, 0.0, 1.0])
    v = np.stack([(u[:, j] - layer.centre[j]) / layer.spread[k] for k, j in enumerate(DRIVERS)], axis=1)
    mean, scale, slope = np.zeros((3, len(u), DIM))
    for k in range(len(DRIVERS)):
        hinges = [0.5 * (np.log1p(np.exp((v[:, k] - knot) / 0.5)) - np.log1p(np.exp(-knot / 0.5))) for knot in KNOTS]
        of_this = np.stack([v[:, k], *hinges, v[:, k] ** 2], axis=1)
        at = slice(k * FEATURES, (k + 1) * FEATURES)
        mean, scale = mean + of_this @ layer.mean[at], scale + of_this @ layer.scale[at]
        slope = slope + v[:, [k]] * layer.slope[k]
    expected = layer.shift + slope + np.exp(scale) * (mean + (u - layer.centre) @ out.T)
    np.testing.assert_allclose((x - layer.centre) @ out.T, expected, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(volume, scale.sum(axis=1), rtol=1e-10, atol=1e-10)
    np.testing.assert_array_equal(x[:, DRIVERS], u[:, DRIVERS])
    assert np.abs(x - u)[:, FREE].min(axis=0).max() > 0.01  # it does move the others


@pytest.mark.parametrize("form", FORMS)
def test_there_and_back(form):
    layer, u = made(form), rows(1)
    x, _ = layer.forward(u)
    np.testing.assert_allclose(layer.inverse(x), u, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(layer.forward(layer.inverse(u))[0], u, rtol=1e-9, atol=1e-9)
    assert np.abs(x - u).max() > 0.5


@pytest.mark.parametrize("form", FORMS)
def test_its_volume_is_that_of_its_derivative(x64, form):
    layer, u = on_device(made(form)), jnp.asarray(rows(1))
    jacobian, volume = jax.jit(lambda u: (jax.vmap(jax.jacfwd(of_one(layer)))(u), layer.forward(u)[1]))(u)
    sign, expected = np.linalg.slogdet(np.asarray(jacobian))
    np.testing.assert_array_equal(sign, 1)
    np.testing.assert_allclose(volume, expected, rtol=1e-9, atol=1e-10)
    assert np.ptp(expected) > 0.5


@pytest.mark.parametrize("form", FORMS)
def test_forces_are_pulled_back_with_that_of_the_volume(x64, form):
    """Against the derivative of log π(x(u)) + log|det|, for a log π that is not symmetric in anything."""
    layer, u = on_device(made(form)), jnp.asarray(rows(2))

    def logdensity(x):
        return jnp.sum(jnp.sin(x) * jnp.arange(1.0, DIM + 1)) - 0.1 * jnp.prod(x)

    def inside(u):
        x, volume = layer.forward(u[None])
        return logdensity(x[0]) + volume[0]

    @jax.jit
    def both(u):
        force = jax.vmap(jax.grad(logdensity))(layer.forward(u)[0])
        return layer.pull_back(u, force), jax.vmap(jax.grad(inside))(u)

    np.testing.assert_allclose(*both(u), rtol=1e-9, atol=1e-9)
    without = made(form).pull_back(rows(2), 0 * rows(2))  # what is left of it is the volume's own force
    assert np.abs(without[:, DRIVERS]).max() > 0.1


@pytest.mark.parametrize("form", FORMS)
def test_unmoved_it_is_the_identity_in_the_same_shapes(form):
    layer, u = made(form), rows(1)
    rotated = form != "no directions"
    for still in (layer.unmoved(), blank(DIM, SLOTS, rotated, np.dtype(np.float64))):
        assert jax.tree.structure(still) == jax.tree.structure(layer)
        for one, two in zip(jax.tree.leaves(still), jax.tree.leaves(layer), strict=True):
            assert one.shape == two.shape and one.dtype == two.dtype
        x, volume = still.forward(u)
        for same in (x, still.inverse(u), still.pull_back(u, u)):
            np.testing.assert_array_equal(same, u)
        np.testing.assert_array_equal(volume, 0)
        assert not still.moves().any()


@pytest.mark.parametrize("form", FORMS)
def test_a_slot_without_a_driver_does_nothing(form):
    """However large its numbers are: its v is 0, and so are all features there."""
    layer, u = made(form), rows(1)
    last = slice((SLOTS - 1) * FEATURES, None)
    assert np.abs(layer.scale[last]).max() > 0.1
    mean, scale, slope = layer.mean.copy(), layer.scale.copy(), layer.slope.copy()
    mean[last], scale[last], slope[-1] = 0, 0, 0
    bare = layer._replace(mean=mean, scale=scale, slope=slope)
    for one, two in zip(layer.forward(u), bare.forward(u), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(layer.pull_back(u, u), bare.pull_back(u, u), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("form", FORMS)
def test_it_says_which_coordinates_it_moves(form):
    layer, u = made(form), rows(1)
    np.testing.assert_array_equal(layer.moves(), np.any(layer.forward(u)[0] != u, axis=0))
    np.testing.assert_array_equal(layer.moves(), [True, False, True, False, True])


@pytest.mark.parametrize("form", FORMS)
def test_numpy_and_jax_give_the_same(x64, form):
    layer, u, force = made(form), rows(1), rows(2)

    def everything(layer, u, force):
        return *layer.forward(u), layer.inverse(u), layer.pull_back(u, force)

    program = jax.jit(everything)(on_device(layer), jnp.asarray(u), jnp.asarray(force))
    for one, two in zip(everything(layer, u, force), program, strict=True):
        assert isinstance(one, np.ndarray) and one.dtype == two.dtype == np.float64
        np.testing.assert_allclose(one, two, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_single_precision_stays_single(form):
    layer = jax.tree.map(lambda leaf: leaf.astype(np.float32), made(form))
    u = rows(1).astype(np.float32)
    x, volume = layer.forward(u)
    for part in (x, volume, layer.inverse(u), layer.pull_back(u, u)):
        assert part.dtype == np.float32
    np.testing.assert_allclose(layer.inverse(x), u, rtol=1e-3, atol=1e-3)


def test_features_are_nothing_in_the_middle_and_straight_beyond_the_knots(x64):
    value, slope = features(np.zeros((1, 2)))
    np.testing.assert_allclose(value, 0, atol=1e-15)
    assert value.shape == slope.shape == (1, 2 * FEATURES)
    far = np.array([[-9.0], [-7.0], [-5.0], [5.0], [7.0], [9.0]])
    straight = features(far)[0][:, :-1]  # all but v²
    np.testing.assert_allclose(straight[0] - 2 * straight[1] + straight[2], 0, atol=2e-3)
    np.testing.assert_allclose(straight[3] - 2 * straight[4] + straight[5], 0, atol=2e-3)
    assert np.ptp(straight[3:], axis=0).min() > 3.9  # and going on


def test_features_come_with_their_derivatives(x64):
    v = jnp.asarray(np.linspace(-4, 4, 23)[:, None])
    _, expected = jax.jvp(lambda at: features(at)[0], (v,), (jnp.ones_like(v),))
    np.testing.assert_allclose(features(v)[1], expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_features_far_away_are_finite_without_a_warning(dtype):
    """A hundred spreads off, where a pilot's first particles may stand: warnings are errors here."""
    value, slope = features(np.array([[-1000.0], [-100.0], [100.0], [1000.0]], dtype))
    assert np.isfinite(value).all() and np.isfinite(slope).all()
    np.testing.assert_allclose(slope[:2, 1:-1], 0, atol=1e-6)
    np.testing.assert_allclose(slope[2:, 1:-1], 1, atol=1e-6)
