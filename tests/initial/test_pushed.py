"""P0 through coordinates: its density against quadrature and the change of variables, its draws, its entropy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ergodic.charts import DenseChart
from ergodic.charts.coordinates import Coordinates, plain
from ergodic.charts.driven import ALONG, FEATURES, blank
from ergodic.initial.mixture import KernelMixture
from ergodic.initial.pushed import Pushed
from statistics_ergodic import z_of_mean

CENTRES = np.array([[-1.0, 0.3], [0.2, -0.5], [0.9, 0.8]])
ROOT = np.array([[0.6, 0.0], [0.2, 0.5]])
GRID = np.linspace(-6, 6, 601), np.linspace(-14, 14, 1401)


def coordinates(dtype):
    """x1 drives the scale of x2, by e^{0.4 v} about, and its mean, by v²."""
    select, slope, mean, scale = np.zeros((2, 2)), np.zeros((2, 2)), *np.zeros((2, 2 * FEATURES, 2))
    select[0, 0], slope[0, 1] = 1, 0.3
    mean[0, 1], mean[FEATURES - 1, 1], scale[0, 1], scale[3, 1] = -0.2, 0.2, 0.5, -0.2
    layer = blank(2, 2, True, np.dtype(np.float64))._replace(
        kind=np.asarray(float(ALONG)),
        drivers=select,
        centre=np.array([0.1, -0.2]),
        slope=slope,
        mean=mean,
        scale=scale,
        shift=np.array([0.0, 0.5]),
    )
    return Coordinates((layer, layer.unmoved())).on_device(np.dtype(dtype))


def pushed(dtype=np.float64, centres=CENTRES):
    chart = DenseChart(*(jnp.asarray(p, dtype) for p in (ROOT, np.linalg.inv(ROOT), np.linalg.slogdet(ROOT)[1])))
    return Pushed(KernelMixture(jnp.asarray(centres, dtype), chart), coordinates(dtype))


@pytest.fixture(scope="module")
def on_a_grid():
    """log p0 on a grid that has all of it, and the integral over the grid."""
    with jax.enable_x64(True):
        x = np.stack(np.meshgrid(*GRID, indexing="ij"), axis=-1)
        level = np.asarray(jax.jit(Pushed.logdensity)(pushed(), jnp.asarray(x.reshape(-1, 2)))).reshape(x.shape[:2])

    def integral(f):
        return np.trapezoid(np.trapezoid(np.exp(level) * f, GRID[1]), GRID[0])

    return x, level, integral


def test_it_integrates_to_one(on_a_grid):
    _, level, integral = on_a_grid
    assert integral(np.ones_like(level)) == pytest.approx(1, abs=1e-5)


def test_its_density_is_that_of_the_change_of_variables(x64):
    initial = pushed()
    x = jnp.asarray(np.random.default_rng(0).normal(size=(20, 2)))

    @jax.jit
    def both(x):
        jacobian = jax.vmap(jax.jacfwd(lambda x: initial.coordinates.inverse(x[None])[0]))(x)
        return initial.logdensity(x), initial.inside.logdensity(initial.coordinates.inverse(x)), jacobian

    level, inside, jacobian = both(x)
    volume = np.linalg.slogdet(np.asarray(jacobian))[1]
    np.testing.assert_allclose(level, inside + volume, rtol=1e-9)
    assert np.ptp(volume) > 0.3  # which is not a constant


@pytest.mark.parametrize("where", ["device", "host"])
def test_draws_have_the_moments_of_the_density(on_a_grid, where):
    """Means of x, x², x1 x2 and x1² x2 of 20,000 draws: |z| < 4.8 for six of them, probability of failure 1e-5."""
    x, _, integral = on_a_grid
    initial = pushed(np.float32)
    if where == "device":
        draws = jax.jit(Pushed.sample, static_argnums=2)(initial, jax.random.key(0), 20_000)
    else:
        draws = initial.sample_on_host(np.random.default_rng(0), 20_000)
    assert draws.dtype == np.float32 and draws.shape == (20_000, 2)

    def values(x):
        first, second = x[..., 0], x[..., 1]
        return np.stack([first, second, first**2, second**2, first * second, first**2 * second], axis=-1)

    truth = [integral(each) for each in np.moveaxis(values(x), -1, 0)]
    assert np.abs(z_of_mean(values(np.asarray(draws, np.float64)), truth)).max() < 4.8


def test_its_entropy_is_that_of_the_density(x64, on_a_grid):
    """Against quadrature, within 4.5 standard errors of its 1,024 draws: 7e-6. Without the volume it would be off."""
    _, level, integral = on_a_grid
    entropy = -integral(level)
    error = np.sqrt((integral(level**2) - entropy**2) / 1024)
    initial = pushed()
    assert abs(float(initial.entropy()) - entropy) < 4.5 * error
    x = initial.sample_on_host(np.random.default_rng(0), 1024)  # those draws
    np.testing.assert_allclose(initial.entropy(), -np.mean(jax.jit(initial.logdensity)(jnp.asarray(x))), rtol=1e-9)


def test_of_one_centre_only_the_volume_is_an_average(x64):
    """The entropy of a Gaussian is exact; log|det| is linear in v but for one hinge: 4.5 standard errors, 7e-6."""
    initial = pushed(centres=CENTRES[:1])
    u = CENTRES[0] + np.random.default_rng(1).normal(size=(200_000, 2)) @ ROOT.T
    volume = initial.coordinates.on_host().forward(u)[1]
    gaussian = np.log(2 * np.pi * np.e) + np.linalg.slogdet(ROOT)[1]
    expected = gaussian + volume.mean()
    assert abs(float(initial.entropy()) - expected) < 4.5 * volume.std() * np.sqrt(1 / 1024 + 1 / len(u))
    assert abs(volume.mean()) > 0.1


def test_through_coordinates_that_do_nothing_it_is_what_is_inside():
    initial = pushed(np.float32)
    same = initial._replace(coordinates=plain(2, 64, 2, np.dtype(np.float32)))
    x = same.sample_on_host(np.random.default_rng(0), 50)
    np.testing.assert_array_equal(x, initial.inside.sample_on_host(np.random.default_rng(0), 50))
    level = jax.jit(lambda x: (same.logdensity(x), initial.inside.logdensity(x)))(jnp.asarray(x))
    np.testing.assert_array_equal(*level)
