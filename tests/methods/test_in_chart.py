"""Methods in a given chart: draws of x whatever the chart is, files, names, certificates, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import ergodic as eg
from ergodic.charts.coordinates import Coordinates, plain
from ergodic.charts.driven import ALONG, FEATURES, blank
from ergodic.charts.telling import ToldChart
from ergodic.initial import diagonal
from ergodic.initial.pushed import Pushed
from ergodic.methods.in_chart import InChartParams, in_chart
from ergodic.runtime import sampler_files
from stationarity_ergodic import changes_by_noise, gumbel_target
from statistics_ergodic import two_sample_p

SD = 1.5
TRACES: list[int] = []
"""One for every time that the neck is traced for a program."""


def driven(dim, along, *, rate=0.0, bend=0.0):
    """One layer in which coordinate ``along`` drives all others: log scale ``rate`` v, and mean ``bend`` v²."""
    free = (np.arange(dim) != along).astype(float)
    drivers, mean, scale = np.zeros((dim, 2)), np.zeros((2 * FEATURES, dim)), np.zeros((2 * FEATURES, dim))
    drivers[along, 0] = 1
    scale[0], mean[FEATURES - 1] = rate * free, bend * free
    layer = blank(dim, 2, True, np.dtype(np.float64))
    return layer._replace(kind=np.asarray(float(ALONG)), drivers=drivers, mean=mean, scale=scale)


def wrong(dim):
    """Two layers that fit nothing here."""
    return Coordinates((driven(dim, 0, rate=0.4, bend=0.2), driven(dim, dim - 1, rate=-0.3, bend=-0.1)))


def neck(x):
    """v ~ N(0, SD²), and four of N(0, e^(2v)) given v."""
    TRACES.append(1)
    v, rest = x["v"], x["rest"]
    return -0.5 * (v / SD) ** 2 - 0.5 * jnp.sum(rest**2) * jnp.exp(-2 * v) - 4 * v


def neck_target(**more):
    like = {"v": 0.0, "rest": jnp.zeros(4)}
    return eg.Target(
        neck, like=like, name="neck", constrain=lambda x: {"scale": jnp.exp(x["v"]), "rest": x["rest"]}, **more
    )


RIGHT = Coordinates((driven(5, 4, rate=1.0),))
"""In which the neck is N(0, I) but for v, the last of the flat coordinates."""
CHAIN = eg.HEI(steps=5, leapfrogs=5, iterations=40, particles=50, step_size=(0.2, 0.4), initial_scale=2.0)


@pytest.fixture(scope="module")
def target():
    return neck_target()


@pytest.fixture(scope="module")
def sampler(target):
    return eg.fit(target, jax.random.key(0), CHAIN, chart=RIGHT, progress=False)


# What is left unchanged ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chart", [wrong(2), Coordinates((driven(2, 0, bend=0.25),))], ids=["wrong", "right"])
def test_the_chain_leaves_the_target_unchanged(chart):
    """50,000 exact draws and where the chain takes them: a two-sample test at 1e-4, and four means at 4.5 errors."""
    target, draw = gumbel_target()
    method = in_chart(eg.HEI(steps=4, leapfrogs=3, step_size=(0.4, 0.5)))
    inside = method.method.begin(target, jax.random.key(0))
    params = InChartParams(inside, chart.on_device(target.dtype))
    before = draw(jax.random.key(1), 50_000)
    after = jax.jit(lambda x, key: method.go_on(target.density, params, x, key))(before, jax.random.key(2))
    moved = np.abs(np.asarray(after.position - before)).mean()
    assert moved > 0.3 and 0.5 < np.mean(after.stats["acceptance_rate"]) < 0.995  # so that the test means something
    assert two_sample_p(after.position, draw(jax.random.key(3), 50_000)) > 1e-4
    changes_by_noise(after._replace(position=before), after)
    np.testing.assert_allclose(after.logdensity, jax.vmap(target.density)(after.position), rtol=1e-3, atol=5e-3)


def test_the_neck_is_right_in_its_chart_and_wrong_without(sampler, target):
    """v and what it narrows, of 4,000 draws, by Kolmogorov-Smirnov at 1e-5 each: five tests fail with 5e-5."""

    def p_values(sampler):
        x = sampler.sample(jax.random.key(1), 4000, progress=False).unconstrained.astype(np.float64)
        v, rest = x[:, 4] / SD, x[:, :4] * np.exp(-x[:, 4:])
        low = v < np.quantile(v, 0.25)
        return [stats.kstest(part, "norm").pvalue for part in (v, rest[:, 0], rest[:, 3], rest[low, 0], rest[low, 3])]

    assert min(p_values(sampler)) > 1e-5
    assert min(p_values(eg.fit(target, jax.random.key(0), CHAIN, progress=False))) < 1e-5


def test_annealing_in_a_wrong_chart_finds_the_same_log_z():
    """4,000 runs: log Z = ½ log 2π to 4.5 of its errors, 7e-6. A density without the volume has another."""
    target, _ = gumbel_target()
    method = eg.HAIS(temperatures=40, leapfrogs=3, pilots=5, initial_scale=2.0)
    sampler = eg.fit(target, jax.random.key(0), method, chart=wrong(2), progress=False)
    found, error = sampler.sample(jax.random.key(1), 4000, weighted=True, progress=False).log_z()
    assert error < 0.1 and abs(found - 0.5 * np.log(2 * np.pi)) < 4.5 * error


# Every method -------------------------------------------------------------------------------------------------------

SMALL = {
    "HEI": eg.HEI(steps=3, leapfrogs=2, iterations=5, particles=20),
    "LongChain": eg.LongChain(steps=3, leapfrogs=2, iterations=5, particles=4, vi_iterations=20),
    "MeanField": eg.MeanField(iterations=10, particles=20),
    "HVI": eg.HVI(steps=3, leapfrogs=2, hidden=4, iterations=5, particles=20),
    "HVAE": eg.HVAE(leapfrogs=4, iterations=5, particles=20, tempering="fixed"),
    "HAIS": eg.HAIS(temperatures=20, leapfrogs=2, pilots=3, particles=20),
}


@pytest.mark.parametrize("name", SMALL)
def test_draws_are_of_x_and_a_file_gives_them_again(name, target, tmp_path):
    sampler = eg.fit(target, jax.random.key(0), SMALL[name], chart=wrong(5), progress=False)
    draws = sampler.sample(jax.random.key(1), 64, progress=False)
    assert sampler.method.name == draws.attributes["method"] == f"{name} in a chart"
    assert draws.attributes["chart"] and "expected_logdensity" not in draws.trace
    assert draws.position["rest"].shape == (64, 4) and np.all(draws.position["scale"] > 0)
    value = jax.vmap(target.density)(jnp.asarray(draws.unconstrained))
    np.testing.assert_allclose(draws.logdensity, value, rtol=1e-3, atol=5e-3)

    sampler.save(tmp_path / "s")
    back = eg.load(tmp_path / "s", target)
    assert back.method == sampler.method and hash(back.method) == hash(sampler.method)
    assert jax.tree.structure(back.params) == jax.tree.structure(sampler.params)
    again = back.sample(jax.random.key(1), 64, progress=False)
    np.testing.assert_array_equal(again.unconstrained, draws.unconstrained)
    np.testing.assert_array_equal(again.logdensity, draws.logdensity)
    assert back.chart.summary() == sampler.chart.summary() != "no chart: coordinates are the target's own"


def test_the_chart_of_another_sampler_is_taken_as_it_is(sampler, target):
    small = SMALL["MeanField"]
    first = eg.fit(target, jax.random.key(0), small, chart=sampler.chart, progress=False)
    second = eg.fit(target, jax.random.key(0), first.method, chart=sampler.params.coordinates, progress=False)
    assert isinstance(sampler.chart, ToldChart) and second.method == first.method
    for one, two in zip(jax.tree.leaves(first.params), jax.tree.leaves(second.params), strict=True):
        np.testing.assert_array_equal(one, two)
    assert "v drives the scale of rest[0..3]" in first.chart.summary()


def test_it_can_be_certified(sampler):
    """Where the chain has settled: a sound sampler fails with probability 0.02, and the seed is fixed."""
    certificate = sampler.certify(jax.random.key(3), draws=2000)
    assert certificate.passed, str(certificate)
    assert {"stationarity", "the chain again"} < {finding.name for finding in certificate.findings}
    assert sampler.draws is not None and sampler.chart.divergences()[1] < 0.1 < sampler.chart.divergences()[0]


# P0 -----------------------------------------------------------------------------------------------------------------


def test_p0_is_the_methods_own_inside(sampler):
    initial = sampler.method.start(sampler.params)
    assert isinstance(initial, Pushed) and initial.inside is sampler.params.inside.initial
    x = initial.sample(jax.random.key(0), 100)
    level = initial.inside.logdensity(RIGHT.on_device(np.dtype(np.float32)).inverse(x)) - 4 * x[:, 4]
    np.testing.assert_allclose(initial.logdensity(x), level, rtol=1e-4, atol=1e-3)


def test_a_prior_is_taken_into_the_chart():
    """Of v it stays, to 10 % of its spread (4,096 draws: 5 errors); θ, whose scale v multiplies, is wider in u."""
    prior = diagonal(np.array([1.0, 1.0, 1.0, 1.0, 0.5]), np.array([2.0, 2.0, 2.0, 2.0, 0.7]), 5, np.float32)
    target = neck_target(prior=prior)
    found = eg.fit(target, jax.random.key(0), eg.HEI(steps=1, iterations=1, tune_initial=False), chart=RIGHT)
    p0 = found.params.inside.initial
    assert abs(float(p0.mean[4]) - 0.5) < 0.07 and abs(float(np.exp(p0.log_scale[4])) - 0.7) < 0.07
    assert np.all(np.isfinite(p0.log_scale)) and np.all(np.abs(p0.mean[:4]) < 1)


# Off by default -----------------------------------------------------------------------------------------------------


def test_without_a_chart_nothing_changes_and_nothing_is_compiled_again(target):
    method = SMALL["HEI"]
    alone = method.fit(target, jax.random.key(0), progress=False)
    draws = alone.sample(jax.random.key(1), 64, progress=False)
    eg.fit(target, jax.random.key(0), method, chart=wrong(5), progress=False).sample(jax.random.key(1), 64)
    again = eg.fit(target, jax.random.key(0), method, progress=False)
    same = again.sample(jax.random.key(1), 64, progress=False)
    assert again.method.name == "HEI" and again.cost.compile_seconds == same.cost.compile_seconds == 0
    np.testing.assert_array_equal(same.unconstrained, draws.unconstrained)


def test_drawing_in_another_chart_compiles_nothing(sampler, target):
    other = Coordinates((driven(5, 4, rate=0.7, bend=0.1),))
    second = eg.fit(target, jax.random.key(4), CHAIN, chart=other, progress=False)
    sampler.sample(jax.random.key(1), 100, progress=False)
    before = len(TRACES)
    assert second.sample(jax.random.key(1), 100, progress=False).cost.compile_seconds == 0
    assert len(TRACES) == before


# What is refused ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "chart", "words"),
    [
        (CHAIN, wrong(3), "chart has 3 coordinates, but 'neck' has 5"),
        (CHAIN, plain(2, 512, 7, np.dtype(np.float32)), "chart has 7 coordinates, but 'neck' has 5"),
        (CHAIN, True, "HEI in a chart needs the chart of a sampler.*not True"),
        (None, RIGHT, "GEI learns a chart of its own"),
        (eg.NUTS(), RIGHT, "NUTS cannot run in a given chart"),
        (in_chart(CHAIN), None, "HEI in a chart needs the chart of a sampler"),
    ],
)
def test_what_cannot_be_is_refused(target, method, chart, words):
    with pytest.raises(eg.ConfigError, match=words):
        eg.fit(target, jax.random.key(0), method, chart=chart)


def test_there_is_no_budget(target):
    with pytest.raises(eg.ConfigError, match="HEI in a chart keeps no budget"):
        eg.fit(target, jax.random.key(0), CHAIN, chart=RIGHT, max_seconds=1.0)


def test_a_damaged_chart_is_a_storage_error(target, tmp_path):
    sampler = eg.fit(target, jax.random.key(0), SMALL["MeanField"], chart=wrong(5), progress=False)
    sampler.save(tmp_path / "s")
    header, arrays = sampler_files.read(tmp_path / "s")
    for name in ("layers/0/spread", "layers/1/mean"):
        left = {key: array for key, array in arrays.items() if key != f"params/coordinates/{name}"}
        sampler_files.write(tmp_path / "s", header, left)
        with pytest.raises(eg.StorageError, match=name):
            eg.load(tmp_path / "s", target)
