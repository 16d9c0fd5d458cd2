"""GEI in coordinates that it learns: Neal's funnel, files, programs, and where there are none to learn."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import ergodic as eg
from ergodic.initial.pushed import Pushed
from ergodic.runtime import sampler_files
from ergodic.targets.classics import funnel
from statistics_ergodic import z_of_mean

DRAWS = 10_000
TRACES: list[int] = []
"""One for every time that the funnel is traced for a program."""


def traced(x):
    TRACES.append(1)
    return funnel(x)


@pytest.fixture(scope="module")
def sampler():
    """The default on v ~ N(0, 3²), x1..x9 given v ~ N(0, e^v)."""
    target = eg.Target(traced, like=jnp.zeros(10), name="funnel")
    return eg.fit(target, jax.random.key(0), progress=False)


@pytest.fixture(scope="module")
def draws(sampler):
    return sampler.sample(jax.random.key(1), DRAWS, progress=False)


def test_the_funnel_passes_its_certificate(sampler, draws):
    """A sound sampler fails it with probability 0.02; the seed is fixed (it passed with five of five)."""
    assert sampler.certificate.passed, str(sampler.certificate)
    assert draws.independent
    assert sampler.depth < 60 and sampler.cost.depth < 1000


def test_the_neck_is_as_wide_and_as_deep_as_it_is(draws):
    """The spread of v, its mean, and P(v < -5): five standard errors each, probability of failure 2e-6."""
    v = draws.unconstrained[:, 0].astype(np.float64) / 3
    assert abs(v.std() - 1) < 5 / np.sqrt(2 * DRAWS)
    assert abs(z_of_mean(v, 0.0)) < 5
    assert abs(z_of_mean((v < -5 / 3).astype(float), stats.norm.cdf(-5 / 3))) < 5


def test_what_the_neck_narrows_is_right_at_every_width(draws):
    """x e^{-v/2} ~ N(0, 1) for all v and below its first quartile: four Kolmogorov-Smirnov tests at 1e-5 each."""
    x = draws.unconstrained.astype(np.float64)
    v, rest = x[:, 0], x[:, 1:] * np.exp(-0.5 * x[:, :1])
    low = v < np.quantile(v, 0.25)
    for part in (rest[:, 0], rest[:, 8], rest[low, 0], rest[low, 8]):
        assert stats.kstest(part, "norm").pvalue > 1e-5


def test_draws_and_their_density_are_those_of_x(sampler, draws):
    """Nothing of the volume is left in it."""
    x = draws.unconstrained[:500]
    expected = jax.jit(sampler.target.density.batched)(jnp.asarray(x))[0]
    np.testing.assert_allclose(draws.logdensity[:500], expected, rtol=1e-3, atol=5e-3)
    inside = sampler.params.coordinates.on_host().inverse(x)
    assert inside[:, 1:].std() < 20 < x[:, 1:].max()  # the centres of P0 are in u, where there is no neck
    np.testing.assert_allclose(np.asarray(sampler.params.initial.centres)[:, 1:].std(), inside[:, 1:].std(), rtol=0.5)


def test_v_drives_the_others_and_nothing_else_does(sampler):
    first, second = sampler.params.coordinates.on_host().layers
    np.testing.assert_array_equal(np.flatnonzero(first.drivers), [0])
    np.testing.assert_array_equal(first.moves(), [False] + 9 * [True])
    assert not second.moves().any()
    u = np.zeros((2, 10), np.float32)
    u[:, 0] = -4, 4
    volume = np.diff(first.forward(u)[1])
    np.testing.assert_allclose(volume, 9 * 4, rtol=0.1)  # log scales differ by (4 + 4)/2 for nine of them


def test_p0_is_known_in_x(sampler):
    """log p0 of its own draws averages to minus its entropy: |z| < 4.5, both being averages: 7e-6."""
    initial = sampler.method.start(sampler.params)
    assert isinstance(initial, Pushed)
    x = initial.sample_on_host(np.random.default_rng(1), 2048)
    level = np.asarray(jax.jit(Pushed.logdensity)(initial, jnp.asarray(x)), np.float64)
    assert np.isfinite(level).all()
    error = level.std() * np.sqrt(1 / len(x) + 1 / 1024)
    assert abs(level.mean() + float(initial.entropy())) < 4.5 * error


def test_the_chain_in_one_program_has_the_same_law_as_step_by_step(sampler, draws):
    """`go_on`, as compiled runs have it: v of 2,000 runs against the draws, Kolmogorov-Smirnov at 1e-5."""
    method, params = sampler.method, sampler.params
    start = jnp.asarray(method.start(params).sample_on_host(np.random.default_rng(0), 2000))
    batch = jax.jit(lambda x, key: method.go_on(sampler.target.density, params, x, key))(start, jax.random.key(3))
    v = np.asarray(batch.position)[:, 0]
    assert stats.ks_2samp(v, draws.unconstrained[:, 0]).pvalue > 1e-5
    expected = jax.jit(sampler.target.density.batched)(batch.position)[0]
    np.testing.assert_allclose(batch.logdensity, expected, rtol=1e-3, atol=5e-3)


def test_a_saved_sampler_is_the_same_to_the_bit(sampler, draws, tmp_path):
    path = tmp_path / "sampler"
    sampler.save(path)
    back = eg.load(path, sampler.target)
    assert back.method == sampler.method and back.certificate.verdict == sampler.certificate.verdict
    assert jax.tree.structure(back.params) == jax.tree.structure(sampler.params)
    for one, two in zip(jax.tree.leaves(back.params), jax.tree.leaves(sampler.params), strict=True):
        assert one.dtype == two.dtype
        np.testing.assert_array_equal(one, two)
    again = back.sample(jax.random.key(1), DRAWS, progress=False)
    np.testing.assert_array_equal(again.unconstrained, draws.unconstrained)
    np.testing.assert_array_equal(again.logdensity, draws.logdensity)


LAYERS = "params/coordinates/layers"


@pytest.mark.parametrize(
    ("name", "array"),
    [
        (f"{LAYERS}/0/scale", None),
        (f"{LAYERS}/0/spread", None),
        (f"{LAYERS}/1/kind", None),
        (f"{LAYERS}/0/directions/out", None),
        (f"{LAYERS}/0/mean", np.zeros((3, 3), np.float32)),
        (f"{LAYERS}/1/centre", np.zeros(9, np.float32)),
        (f"{LAYERS}/0/spread", np.zeros((), np.float32)),
    ],
)
def test_damage_is_a_storage_error(sampler, tmp_path, name, array):
    path = tmp_path / "sampler"
    sampler.save(path)
    header, arrays = sampler_files.read(path)
    if array is None:
        arrays.pop(name)
    else:
        arrays[name] = array
    sampler_files.write(path, header, arrays)
    with pytest.raises(eg.StorageError):
        eg.load(path, sampler.target)


def test_another_chart_compiles_nothing(sampler):
    """Another key finds other numbers; the density is traced no more for them, and no program is made."""
    before = len(TRACES)
    assert before
    other = eg.GEI(certify=False).fit(sampler.target, jax.random.key(5), progress=False)
    mine, its = (each.params.coordinates.layers[0] for each in (sampler, other))
    assert np.any(np.asarray(mine.scale) != np.asarray(its.scale)) and np.asarray(its.scale).any()
    other.sample(jax.random.key(1), 100, progress=False)
    assert len(TRACES) == before


def test_the_same_key_gives_the_same_chart(sampler):
    again = sampler.method.fit(sampler.target, jax.random.key(0), progress=False)
    for one, two in zip(jax.tree.leaves(again.params), jax.tree.leaves(sampler.params), strict=True):
        np.testing.assert_array_equal(one, two)


def test_without_a_chart_there_are_no_layers(sampler):
    method = eg.GEI(chart=False, certify=False, pilot=8, steps=8, particles=64)
    plain = method.fit(sampler.target, jax.random.key(0), progress=False)
    assert plain.params.coordinates.layers == () and sampler.params.coordinates.layers
    assert not isinstance(method.start(plain.params), Pushed)


def test_one_dimension_has_none_and_a_gaussian_learns_none():
    method = eg.GEI(certify=False, particles=64)
    line = eg.Target(lambda x: -0.5 * jnp.sum(x**2), like=jnp.zeros(1))
    assert method.fit(line, jax.random.key(0), progress=False).params.coordinates.layers == ()
    plane = eg.Target(lambda x: -0.5 * (x[0] ** 2 + (x[1] - 0.9 * x[0]) ** 2), like=jnp.zeros(2))
    layers = method.fit(plane, jax.random.key(0), progress=False).params.coordinates.on_host().layers
    assert layers and not any(layer.moves().any() for layer in layers)


@pytest.mark.parametrize("bad", ["yes", None, 2])
def test_the_setting_is_checked(bad):
    with pytest.raises(eg.ConfigError, match="chart"):
        eg.GEI(chart=bad)
