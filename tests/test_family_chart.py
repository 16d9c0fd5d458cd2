"""Families in coordinates that they learn: necks whose drivers are the family's and whose curves are each member's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodic as eg
from ergodic.charts.coordinates import Coordinates, of_member, of_members
from ergodic.charts.driven import ALONG, FEATURES, blank
from ergodic.charts.fitting import identity
from ergodic.kernels import start
from ergodic.kernels.affine import AffineHMC, AffineParams
from ergodic.methods import GEI
from ergodic.runtime import sampler_files
from ergodic.tuning.forgetting import Particles
from ergodic.tuning.stepping import Way, in_one
from statistics_ergodic import two_sample_p, z_of_mean

WIDTHS = np.array([1.0, 1.5, 2.0, 2.5, 3.0, 3.0], np.float32)
DRAWS = 4_000
TRACES: list[int] = []
"""One for every time that the funnel is traced for a program."""


def funnel(position, width):
    """v ~ N(0, s²), six x ~ N(0, e^v)."""
    TRACES.append(1)
    v, x = position["v"], position["x"]
    return -0.5 * ((v / width) ** 2 + jnp.sum(x**2) * jnp.exp(-v) + 6 * v)


def funnels():
    return eg.Family(funnel, WIDTHS, {"v": jnp.zeros(()), "x": jnp.zeros(6)}, name="funnels")


@pytest.fixture(scope="module")
def samplers():
    return eg.fit_many(funnels(), jax.random.key(0))


@pytest.fixture(scope="module")
def draws(samplers):
    return samplers.sample(jax.random.key(1), DRAWS)


def test_every_neck_is_straightened(samplers):
    """Without a chart the same family takes more than a thousand gradients a draw."""
    assert samplers.settled.all() and samplers.depth < 60
    for sampler in samplers:
        layer = sampler.params.coordinates.on_host().layers[0]
        np.testing.assert_array_equal(np.flatnonzero(layer.drivers.any(axis=1)), [0])
        u = np.zeros((2, 7), np.float32)
        u[:, 0] = -2, 2
        np.testing.assert_allclose(
            np.diff(layer.forward(u)[1]), 6 * 2, rtol=0.15
        )  # log scales are v/2, for six of them


def test_draws_are_right_at_every_width(samplers, draws):
    """Means and variances of v/s and of x e^{-v/2}, 14 averages of six members: |z| < 5 fails with 5e-5."""
    x = draws.unconstrained.astype(np.float64)
    v = x[:, :, :1]
    z = np.concatenate([v / WIDTHS[:, None, None], x[:, :, 1:] * np.exp(-0.5 * v)], axis=2)
    for power, expected in ((1, 0.0), (2, 1.0)):
        assert np.abs([z_of_mean(member**power, expected) for member in z]).max() < 5
    value = jax.vmap(jax.vmap(lambda x, s: funnel({"v": x[0], "x": x[1:]}, s), (0, None)))(draws.unconstrained, WIDTHS)
    np.testing.assert_allclose(draws.logdensity, value, rtol=1e-3, atol=2e-2)  # nothing of the volume is left in it


def test_a_members_sampler_lives_in_its_coordinates(samplers, draws):
    """Its draws have the family's law, |z| < 5 for two averages: 1e-6; and it passes its certificate, as 98 % do."""
    sampler = samplers[5]
    own = sampler.sample(jax.random.key(2), DRAWS, progress=False).unconstrained[:, 0].astype(np.float64) / 3
    assert abs(z_of_mean(own, 0.0)) < 5 and abs(z_of_mean(own**2, 1.0)) < 5
    assert "v drives the scale of x[0..5]" in sampler.chart.summary()
    assert sampler.certify(jax.random.key(3)).passed, str(sampler.certificate)
    assert [draws[5].kind, draws[5].independent] == ["independent", True]


def test_a_saved_family_is_the_same_to_the_bit(samplers, tmp_path):
    samplers.save(tmp_path / "family")
    samplers[2].save(tmp_path / "member")
    back, member = eg.load(tmp_path / "family", funnels()), eg.load(tmp_path / "member", samplers.family[2])
    assert jax.tree.structure(back.params) == jax.tree.structure(samplers.params)
    for one, two in zip(jax.tree.leaves(back.params), jax.tree.leaves(samplers.params), strict=True):
        assert one.dtype == two.dtype
        np.testing.assert_array_equal(one, two)
    first, *others = (each.sample(jax.random.key(4), 300, progress=False) for each in (samplers[2], back[2], member))
    for other in others:
        np.testing.assert_array_equal(first.unconstrained, other.unconstrained)


@pytest.mark.parametrize("array", [None, np.zeros((5, 7), np.float32), np.zeros(7, np.float32)])
def test_damage_is_a_storage_error(samplers, tmp_path, array):
    path, name = tmp_path / "family", "params/coordinates/layers/0/centre"
    samplers.save(path)
    header, arrays = sampler_files.read(path)
    arrays.pop(name)
    arrays |= {} if array is None else {name: array}
    sampler_files.write(path, header, arrays)
    with pytest.raises(eg.StorageError):
        eg.load(path, funnels())


def test_another_chart_compiles_nothing(samplers):
    before = len(TRACES)
    other = eg.fit_many(samplers.family, jax.random.key(5))
    assert before and len(TRACES) == before and other.settled.all()
    mine, its = (np.asarray(each.params.coordinates.layers[0].scale) for each in (samplers, other))
    assert np.abs(mine - its).max() > 1e-3


def test_a_family_that_needs_none_has_none():
    """Its programs are those of a family without charts, and so are its draws."""
    means = np.array([[0.0, 1], [5, -3], [0, 0], [-20, 4]], np.float32)
    family = eg.Family(lambda x, mean: -0.5 * jnp.sum((x - mean) ** 2), means, jnp.zeros(2))
    with_, without = (
        eg.fit_many(family, jax.random.key(0), GEI(particles=128, chart=chart)) for chart in (True, False)
    )
    assert with_.params.coordinates.layers == without.params.coordinates.layers == ()
    assert with_.cost.depth <= without.cost.depth + 1  # it has looked once
    one, two = (each.sample(jax.random.key(1), 100).unconstrained for each in (with_, without))
    np.testing.assert_array_equal(one, two)


# Exactness at wrong numbers ------------------------------------------------------------------------------------------

ROWS, STEP, LEAPFROGS = 25_000, 0.5, 3
SHIFTS = np.array([0.0, 1.5], np.float32)


def gumbel(x, shift):
    """x1 ~ Gumbel (skewed) about the shift, x2 ~ N(x1²/4, 1)."""
    a = x[0] - shift
    return -a - jnp.exp(-a) - 0.5 * (x[1] - 0.25 * a**2) ** 2


def exact(seed):
    """Exact draws of both members, block after block."""
    rng = np.random.default_rng(seed)
    a = rng.gumbel(size=(2, ROWS))
    rows = np.stack([a + SHIFTS[:, None], 0.25 * a**2 + rng.normal(size=a.shape)], axis=2)
    return rows.reshape(-1, 2).astype(np.float32)


def wrong():
    """What nobody fitted: x1 drives x2 in both members, with other curves in each."""
    each = []
    for size in (1.0, -0.7):
        select, mean, scale = np.zeros((2, 2)), np.zeros((2 * FEATURES, 2)), np.zeros((2 * FEATURES, 2))
        select[0, 0] = 1
        mean[:FEATURES, 1] = 0.15 * size * np.array([1.0, -1.0, 0.5, 0.3, 0.0, -0.5, 0.2])
        scale[:FEATURES, 1] = 0.4 * size * np.array([1.0, 0.5, -0.4, 0.3, -0.2, 0.1, 0.0])
        parts = {"drivers": select, "centre": np.array([0.3 * size, -0.2]), "spread": np.array([1.5, 1.0])}
        layer = blank(2, 2, True, np.dtype(np.float64))._replace(mean=mean, scale=scale, **parts)
        each.append(Coordinates((layer._replace(kind=np.asarray(float(ALONG))),)))
    return of_members(each).on_device(np.dtype(np.float32))


def swapped(coordinates):
    """Every member with the other's."""
    return of_members([of_member(coordinates.on_host(), at) for at in (1, 0)]).on_device(np.dtype(np.float32))


def both(family):
    return Way.on(family, coordinates=wrong()).inside(wrong())


@pytest.mark.parametrize("right", [True, False])
def test_every_member_is_left_unchanged_by_the_step_in_wrong_coordinates(right):
    """Two-sample tests of both members: each fails for a right step with 1e-4 (fixed seed); in the other's it must."""
    family = eg.Family(gumbel, SHIFTS, jnp.zeros(2))
    way = both(family)
    zeros = np.zeros(2 * ROWS, np.float32)
    u = way.entered(Particles(exact(0), zeros, np.zeros((2 * ROWS, 2), np.float32))).position
    chart = in_one([identity(ROWS, 2, way.settings.chart_rank, family.dtype)] * 2)
    moving = way if right else way.inside(swapped(wrong()))
    after, info = moving.applied(moving.evaluated(u, chart), chart, STEP, LEAPFROGS, 0, jax.random.key(1))
    assert 0.4 < float(jnp.mean(info.acceptance)) < 0.98
    x, _ = way.left(np.asarray(after.position), np.asarray(after.logdensity))
    p_values = [two_sample_p(*pair) for pair in zip(np.split(x, 2), np.split(exact(2), 2), strict=True)]
    assert min(p_values) > 1e-4 if right else max(p_values) < 1e-12


@pytest.mark.parametrize("dropped", [False, True])
def test_without_the_volume_no_member_is_left_unchanged(dropped):
    """The same of the kernel: with log|det| each test fails with 1e-4 (fixed seed), and without it must."""
    family, coordinates = eg.Family(gumbel, SHIFTS, jnp.zeros(2)), wrong()
    way, density = both(family), family.density.of_members(family.data, wrong())

    def without(u):
        value, force = density(u)
        each = [of_member(coordinates, at) for at in (0, 1)]
        blocks = list(zip(each, jnp.split(u, 2), strict=True))
        volume = jnp.concatenate([one.forward(block)[1] for one, block in blocks])
        slope = jnp.concatenate([one.pull_back(block, jnp.zeros_like(block)) for one, block in blocks])
        return value - volume, force - slope

    chart = in_one([identity(ROWS, 2, 16, family.dtype)] * 2)
    params = AffineParams(jnp.float32(STEP), jnp.int32(LEAPFROGS), jax.tree.map(jnp.asarray, chart))

    @jax.jit
    def once(u, key):
        used = without if dropped else density
        return AffineHMC().transition(used, params, start(used, u), key)[0].position

    zeros = np.zeros(2 * ROWS, np.float32)
    u = way.entered(Particles(exact(0), zeros, np.zeros((2 * ROWS, 2), np.float32))).position
    x, _ = way.left(np.asarray(once(u, jax.random.key(1))), zeros)
    p_values = [two_sample_p(*pair) for pair in zip(np.split(x, 2), np.split(exact(2), 2), strict=True)]
    assert max(p_values) < 1e-12 if dropped else min(p_values) > 1e-4
