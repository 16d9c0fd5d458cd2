"""Families of posteriors: what they are, and one schedule for all of their members."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodic as eg
from ergodic.charts.coordinates import Coordinates
from ergodic.family import divisor
from ergodic.tuning.greedy_settings import GreedySettings

KEY = jax.random.key(0)
# Means and scales of six Gaussians, wildly different: only a frame of its own makes them alike.
MEANS = np.array([[0.0, 1], [5, -3], [0, 0], [-20, 4], [1, 1], [0.01, 0]], np.float32)
SCALES = np.array([[1.0, 1], [0.1, 3], [0.01, 0.02], [4, 0.5], [1, 30], [0.5, 0.5]], np.float32)


def gaussian(position, datum):
    return -0.5 * jnp.sum(((position["a"] - datum["mean"]) / datum["scale"]) ** 2)


def family():
    return eg.Family(gaussian, {"mean": MEANS, "scale": SCALES}, like={"a": jnp.zeros(2)}, name="gaussians")


def closed_over(index):
    """As users write them: one function makes a target from each data set."""
    mean, scale = jnp.asarray(MEANS[index]), jnp.asarray(SCALES[index])
    return eg.Target(lambda p: gaussian(p, {"mean": mean, "scale": scale}), like={"a": jnp.zeros(2)}, name=f"g{index}")


def under_jit(index):
    """The array is a constant of the inner function: as an argument of the family's program it would not be seen."""
    mean, slope = jnp.asarray(MEANS[index]), jnp.asarray(SCALES[index])
    inner = jax.jit(lambda p: -0.5 * jnp.sum((p["a"] - mean) ** 2))
    return eg.Target(lambda p: inner(p) + jnp.sum(slope * p["a"]), like={"a": jnp.zeros(2)})


@pytest.fixture(scope="module")
def samplers():
    return eg.fit_many(family(), KEY)


@pytest.fixture(scope="module")
def draws(samplers):
    return samplers.sample(jax.random.key(1), 3_000)


def test_members_are_ordinary_targets():
    made = family()
    assert len(made) == 6 and made[2] is made[2] and made[-1].name == "gaussians[5]"
    assert [target.dim for target in made] == [2] * 6
    value = made[1].density(jnp.asarray(MEANS[1] + SCALES[1]))
    np.testing.assert_allclose(value, -1.0, rtol=1e-4)
    with pytest.raises(IndexError):
        made[6]


def test_targets_that_differ_in_arrays_are_a_family():
    targets = [closed_over(index) for index in range(6)]
    made = eg.Family.of(targets)
    assert len(made) == 6 and made[3] is targets[3]
    x = jax.random.normal(KEY, (6, 2))
    for index, row in enumerate(x):
        datum = jax.tree.map(lambda leaf, index=index: leaf[index], made.data)
        np.testing.assert_allclose(made.density.of(datum)(row), targets[index].density(row), rtol=1e-6)


def test_targets_that_are_all_alike_are_a_family():
    target = eg.Target(jax.jit(lambda x: -jnp.sum((x - MEANS[1]) ** 2)), like=jnp.zeros(2))
    made = eg.Family.of([target] * 3)
    datum = jax.tree.map(lambda leaf: leaf[2], made.data)
    assert len(made) == 3 and made.density.of(datum)(jnp.asarray(MEANS[1])) == 0


def test_batched_density_is_every_members_own():
    made = family()
    x = jax.random.normal(KEY, (6 * 7, 2))
    value, gradient = made.density.of_members(made.data, Coordinates())(x)
    for index, target in enumerate(made):
        rows = slice(7 * index, 7 * index + 7)
        expected = target.density.batched(x[rows])
        np.testing.assert_allclose(value[rows], expected[0], rtol=1e-5)
        np.testing.assert_allclose(gradient[rows], expected[1], rtol=1e-5)


def test_divisor():
    assert [divisor(50, most) for most in (0, 1, 4, 8, 30, 100)] == [1, 1, 2, 5, 25, 50]


def test_every_member_is_served_by_one_schedule(samplers, draws):
    assert len(samplers) == 6 and samplers.settled.all()
    assert samplers.params.schedule.step.ndim == 1 and 2 <= samplers.depth < 60
    assert "6 members" in repr(samplers) and "6 x 3,000" in repr(draws)
    assert draws.unconstrained.shape == (6, 3_000, 2) and draws.position["a"].shape == (6, 3_000, 2)
    # 24 averages of 3,000 independent draws each: |z| > 4.5 happens to one family in 6,000
    z = (draws.unconstrained - MEANS[:, None, :]) / SCALES[:, None, :]
    assert np.abs(z.mean(axis=1)).max() < 4.5 / np.sqrt(3_000)
    assert np.abs((z**2).mean(axis=1) - 1).max() < 4.5 * np.sqrt(2 / 3_000)


def test_costs_are_counted(samplers, draws):
    particles, members = samplers.method.particles, len(samplers)
    assert samplers.cost.depth > samplers.depth and samplers.cost.compile_seconds > 0
    assert samplers.cost.gradients > samplers.cost.depth * particles * members  # starts were raced
    assert draws.cost.depth == samplers.depth and draws.cost.gradients >= 6 * 3_000 * samplers.depth
    assert samplers[0].cost.gradients == samplers.cost.gradients // 6


def test_a_members_sampler_and_draws_are_ordinary(samplers, draws, tmp_path):
    sampler = samplers[3]
    alone = sampler.sample(jax.random.key(2), 2_000, progress=False)
    z = (alone.unconstrained - MEANS[3]) / SCALES[3]
    assert np.abs(z.mean(axis=0)).max() < 4.5 / np.sqrt(2_000)
    sampler.save(tmp_path / "member.ergodic")
    loaded = eg.load(tmp_path / "member.ergodic", samplers.family[3])
    again = loaded.sample(jax.random.key(2), 2_000, progress=False)
    np.testing.assert_array_equal(again.unconstrained, alone.unconstrained)
    mine = draws[3]
    assert mine.independent and mine.target is sampler.target and len(mine) == 3_000
    assert mine.attributes["method"] == "GEI" and mine.stats["acceptance_rate"].shape == (3_000,)
    value = jax.vmap(sampler.target.density)(jnp.asarray(mine.unconstrained))
    np.testing.assert_allclose(mine.logdensity, value, rtol=1e-3, atol=1e-3)
    assert len(list(draws)) == len(list(samplers)) == 6


def test_a_family_is_saved_as_one_file(samplers, tmp_path):
    samplers.save(tmp_path / "family.ergodic")
    loaded = eg.load(tmp_path / "family.ergodic", family())
    assert loaded.method == samplers.method and loaded.cost == samplers.cost and loaded.depth == samplers.depth
    np.testing.assert_array_equal(loaded.settled, samplers.settled)
    np.testing.assert_array_equal(loaded.memory, samplers.memory)
    one, two = (each.sample(jax.random.key(6), 100) for each in (samplers, loaded))
    np.testing.assert_array_equal(one.unconstrained, two.unconstrained)
    one, two = (each[2].sample(jax.random.key(6), 100, progress=False) for each in (samplers, loaded))
    np.testing.assert_array_equal(one.unconstrained, two.unconstrained)


def test_a_file_is_of_a_family_or_of_a_target(samplers, tmp_path):
    samplers.save(tmp_path / "family.ergodic")
    samplers[0].save(tmp_path / "member.ergodic")
    fewer = eg.Family(gaussian, {"mean": MEANS[:2], "scale": SCALES[:2]}, like={"a": jnp.zeros(2)})
    for name, other, message in (
        ("family.ergodic", samplers.family[0], r"a family of 6, but 'gaussians\[0\]' is one target"),
        ("family.ergodic", fewer, "a family of 6, but 'gaussian' is a family of 2"),
        ("member.ergodic", samplers.family, "one target, but 'gaussians' is a family of 6"),
        ("member.ergodic", list(samplers.family), "not a list"),
    ):
        with pytest.raises(eg.StorageError, match=message):
            eg.load(tmp_path / name, other)


def test_members_may_have_a_map_each(samplers):
    """As a model's deterministic sites, which depend on its data."""
    targets = [
        eg.Target(closed_over(by).density.function, {"a": jnp.zeros(2)}, constrain=lambda p, by=by: {"b": by * p["a"]})
        for by in range(6)
    ]
    mapped = replace(samplers, family=eg.Family.of(targets)).sample(jax.random.key(8), 10)
    by = np.arange(6, dtype=np.float32)[:, None, None]
    np.testing.assert_allclose(mapped.position["b"], by * mapped.unconstrained, rtol=1e-6)
    np.testing.assert_array_equal(mapped.position["b"][5], mapped[5].position["b"])


def test_draws_that_are_nowhere_are_warned_of(samplers):
    lost = eg.Family(lambda p, d: jnp.log(d["mean"][0] - 9) + 0 * p["a"][0], samplers.family.data, {"a": jnp.zeros(2)})
    with pytest.warns(eg.DrawsWarning, match="60 of 60 draws"):
        replace(samplers, family=lost).sample(jax.random.key(1), 10)


def test_draws_follow_from_the_key_and_more_do_not_change_the_first(samplers):
    one, two = (samplers.sample(jax.random.key(4), n, chunk=64) for n in (64, 150))
    np.testing.assert_array_equal(one.unconstrained, two.unconstrained[:, :64])
    other = samplers.sample(jax.random.key(5), 64, chunk=64)
    assert not np.any(np.all(one.unconstrained == other.unconstrained, axis=(1, 2)))
    assert len(np.unique(two.unconstrained[0], axis=0)) == 150


def test_a_second_fit_compiles_nothing(samplers):
    again = eg.fit_many(samplers.family, jax.random.key(7))
    assert again.cost.compile_seconds < 0.5 and again.settled.all()


def test_a_member_that_the_schedule_does_not_serve_is_said_to_be_so():
    """Two modes ten apart in one member of ten: its particles never forget in which they started."""
    apart = np.zeros((10, 1), np.float32)
    apart[4] = 10.0

    def modes(x, apart):
        return jnp.logaddexp(-0.5 * (x[0] - apart[0]) ** 2, -0.5 * (x[0] + apart[0]) ** 2)

    samplers = eg.fit_many(eg.Family(modes, apart, jnp.zeros(1)), KEY)
    assert not samplers.settled[4] and samplers.memory[4] > 0.5
    assert samplers.settled.sum() >= 8


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: eg.Family("f", MEANS, jnp.zeros(2)), "function of a position and a datum"),
        (lambda: eg.Family(gaussian, {"mean": MEANS, "scale": SCALES[:3]}, {"a": jnp.zeros(2)}), "first axis"),
        (lambda: eg.Family(gaussian, {"mean": 1.0}, {"a": jnp.zeros(2)}), "first axis"),
        (lambda: eg.Family(gaussian, {"mean": "x"}, {"a": jnp.zeros(2)}), "pytree of arrays"),
        (lambda: eg.Family(gaussian, {"mean": MEANS}, {"a": jnp.zeros(2)}), "KeyError"),
        (lambda: eg.Family.of([]), "at least one"),
        (lambda: eg.Family.of(closed_over(0)), "list with at least one Target"),
        (lambda: eg.Family.of([closed_over(0), "x"]), "Targets only"),
        (lambda: eg.Family.of([closed_over(0), eg.Target(lambda x: -jnp.sum(x**2), jnp.zeros(2))]), "no family"),
        (
            lambda: eg.Family.of([closed_over(0), eg.Target(lambda p: -jnp.sum(p["a"] ** 4), {"a": jnp.zeros(2)})]),
            "another function",
        ),
        (lambda: eg.Family.of([under_jit(0), under_jit(1)]), r"target 1 .* under jax\.jit"),
    ],
)
def test_what_is_no_family_is_refused(make, message):
    with pytest.raises(eg.TargetError, match=message):
        make()


def test_settings_are_refused():
    for method in (eg.HEI(), eg.GEI(anneal=True)):
        with pytest.raises(eg.ConfigError, match=r"fit_many needs a method|without annealing"):
            eg.fit_many(family(), KEY, method)
    with pytest.raises(eg.ConfigError, match="JAX random key"):
        eg.fit_many(family(), 0)
    nowhere = eg.Family(lambda x, c: jnp.log(-jnp.exp(x[0])) + c, np.zeros(2, np.float32), jnp.zeros(1))
    with pytest.raises(eg.TargetError, match=r"<lambda>\[0\]' has log-density NaN at every one"):
        eg.fit_many(nowhere, KEY)
    flat = eg.Family(lambda x, c: -c * jnp.sum(x**2), np.array([1, 0, 1], np.float32), jnp.zeros(2), name="flat")
    with pytest.raises(eg.TargetError, match=r"flat\[1\]' depends on nothing"):
        eg.fit_many(flat, KEY)


def test_a_draw_depends_on_the_key_its_member_and_its_place_alone():
    """However many draws, and members beside it, are asked for; a member's own sampler has the same distribution.

    |z| < 5 for two means of two members each: fails with probability 2e-6.
    """
    samplers = eg.fit_many(family(), KEY)
    some, more = (samplers.sample(jax.random.key(5), n, chunk=20) for n in (30, 50))
    np.testing.assert_array_equal(some.unconstrained, more.unconstrained[:, :30])
    for member in (0, 4):
        own = samplers[member].sample(jax.random.key(7), 2_000).unconstrained
        many = samplers.sample(jax.random.key(6), 2_000)[member].unconstrained
        error = np.sqrt((own.var(axis=0) + many.var(axis=0)) / 2_000)
        assert np.abs((own.mean(axis=0) - many.mean(axis=0)) / error).max() < 5
        assert samplers[member].kind == more[member].kind == "independent"


def test_a_familys_walk_is_capped_as_a_targets_is():
    """A limit on the depth of the walk that chooses the schedule holds for many members as for one."""
    details = GreedySettings(deepest=5, forgotten=1e-6)
    for what in (family(), eg.Family.of([family()[0]])):
        found = eg.fit_many(what, KEY, eg.GEI(particles=64, certify=False, details=details))
        assert len(found.params.schedule.step) <= 8 and not found.settled.any()
