"""The default, end to end: right moments, certificates, files, programs, separate modes, many dimensions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

import ergodic as eg
from ergodic.charts import DenseChart, LowRankChart
from ergodic.runtime import sampler_files
from statistics_ergodic import z_of_mean

DRAWS = 10_000
CENTRES = np.array([[-8.0, 0.0], [6.0, 6.0], [5.0, -9.0]], np.float32)
WEIGHTS = np.array([0.6, 0.3, 0.1])


def skewed(p):
    """A pytree: a ~ Gumbel, two b | a ~ N(a/2, 1)."""
    return -p["a"] - jnp.exp(-p["a"]) - 0.5 * jnp.sum((p["b"] - 0.5 * p["a"]) ** 2)


def curved(x):
    """x1 ~ Gumbel, x2 | x1 ~ N(x1²/4, 1)."""
    return -x[0] - jnp.exp(-x[0]) - 0.5 * (x[1] - 0.25 * x[0] ** 2) ** 2


EULER = float(-special.digamma(1))
TARGETS = {
    "gaussian": lambda: eg.targets.get("gaussian"),
    "skewed": lambda: eg.Target(skewed, like={"a": 0.0, "b": jnp.zeros(2)}, name="skewed"),
    "far and badly scaled": lambda: eg.Target(
        lambda x: -0.5 * jnp.sum(((x - 50.0) * jnp.asarray([1e3, 1.0, 0.1], jnp.float32)) ** 2),
        like=jnp.zeros(3),
        name="far",
    ),
}
MEANS = {
    "gaussian": lambda target: target.truth.mean,
    "skewed": lambda _: EULER * np.array([1.0, 0.5, 0.5]),
    "far and badly scaled": lambda _: np.full(3, 50.0),
}


@pytest.fixture(scope="module")
def fits():
    """Default fits, made when first asked for."""
    made = {}

    def fitted(name):
        if name not in made:
            made[name] = eg.fit(TARGETS[name](), jax.random.key(0), progress=False)
        return made[name]

    return fitted


@pytest.fixture(scope="module")
def three_modes():
    """.6/.3/.1: the default on modes that no chain crosses."""

    def logdensity(x):
        distance = jnp.sum((x[None, :] - jnp.asarray(CENTRES)) ** 2, axis=1)
        return jax.nn.logsumexp(jnp.log(jnp.asarray(WEIGHTS.astype(np.float32))) - 0.5 * distance)

    return eg.fit(eg.Target(logdensity, like=jnp.zeros(2), name="modes"), jax.random.key(0), progress=False)


@pytest.fixture(scope="module")
def wide():
    """Two hundred dimensions: more than a quarter of the particles, so the chart is low-rank."""
    scale = np.geomspace(0.1, 10, 200).astype(np.float32)
    u = np.random.default_rng(0).normal(size=200).astype(np.float32)
    u /= np.linalg.norm(u)

    def logdensity(x):
        z = x / jnp.asarray(scale)
        along = jnp.sum(z * jnp.asarray(u))
        return -0.5 * (jnp.sum(z**2) - 0.99 * along**2)  # ten times as long along u

    target = eg.Target(logdensity, like=jnp.zeros(200), name="wide")
    return eg.GEI(certify=False).fit(target, jax.random.key(0), progress=False), scale, u


def test_it_is_the_default(fits):
    assert isinstance(fits("gaussian").method, eg.GEI) and fits("gaussian").method == eg.GEI()


@pytest.mark.parametrize("name", TARGETS)
def test_the_default_is_certified_and_its_means_are_right(fits, name):
    """Independent draws: |z| < 5 for up to three means, probability of failure 2e-6 where there is no bias.

    The certificate fails a sound sampler with probability 0.02; the seed is fixed.
    """
    sampler = fits(name)
    assert sampler.certificate.passed, str(sampler.certificate)
    draws = sampler.sample(jax.random.key(1), DRAWS, progress=False)
    assert draws.independent
    assert np.abs(z_of_mean(draws.unconstrained, MEANS[name](sampler.target))).max() < 5


def test_a_curved_target_is_biased_by_less_than_a_hundredth():
    """b2, the squared bias of x² over its variance, of draws whose noise adds 1e-4 to it; or it is not passed."""
    sampler = eg.fit(eg.Target(curved, like=jnp.zeros(2)), jax.random.key(0), progress=False)
    rng = np.random.default_rng(0)
    exact = rng.gumbel(size=(400_000, 1))
    squares = np.concatenate([exact, 0.25 * exact**2 + rng.normal(size=exact.shape)], axis=1) ** 2
    draws = sampler.sample(jax.random.key(1), DRAWS, progress=False)
    bias = (draws.weights @ draws.unconstrained.astype(np.float64) ** 2 - squares.mean(axis=0)) / squares.std(axis=0)
    assert np.max(bias**2) < 0.01 or sampler.certificate.passed is not True


def test_variances_are_right_where_they_are_known(fits):
    """|z| < 5 for two, and three: probability of failure 3e-6."""
    sampler = fits("gaussian")
    x = sampler.sample(jax.random.key(1), DRAWS, progress=False).unconstrained.astype(np.float64)
    truth = sampler.target.truth
    assert np.abs(z_of_mean((x - truth.mean) ** 2, np.diag(truth.covariance))).max() < 5
    sampler = fits("far and badly scaled")
    x = sampler.sample(jax.random.key(1), DRAWS, progress=False).unconstrained.astype(np.float64)
    away = x[:, 1:] - 50.0  # in single precision, 50 ± 0.001 has a spread of 250 numbers
    assert np.abs(z_of_mean(away**2, np.array([1.0, 100.0]))).max() < 5


def test_what_was_fitted_says_what_it_costs_and_how_it_came_about(fits):
    sampler = fits("skewed")
    schedule = sampler.params.schedule
    steps = schedule.step.shape[0]
    assert 8 <= steps <= sampler.method.steps and schedule.beta is None
    assert np.isfinite(sampler.params.floor)
    assert sampler.depth == 2 + int(np.sum(schedule.leapfrogs))  # a hopeless start is evaluated twice
    landing = np.asarray(schedule.varied) == 0
    assert len(sampler.record["step"]) == len(sampler.record["acceptance"]) == steps - landing.sum()
    assert landing[-1] and landing.sum() >= 2 and (np.asarray(schedule.leapfrogs)[landing] == 1).all()
    assert not (landing[1:] & landing[:-1]).any()
    assert (
        sampler.cost.depth > sampler.depth and sampler.cost.gradients >= sampler.cost.depth * sampler.method.particles
    )
    draws = sampler.sample(jax.random.key(1), 100, progress=False)
    runs = sampler.method.particles  # one program moves as many as were tuned on
    assert draws.cost.depth == sampler.depth and draws.cost.gradients == runs * sampler.depth
    assert draws.attributes["steps"] == steps and draws.attributes["depth"] == sampler.depth
    assert draws.attributes["certificate"] == "passed"


def test_the_same_key_gives_the_same_fit_and_draws(fits):
    sampler = fits("skewed")
    again = eg.fit(sampler.target, jax.random.key(0), progress=False)
    assert jax.tree.structure(again.params) == jax.tree.structure(sampler.params)
    for one, two in zip(jax.tree.leaves(again.params), jax.tree.leaves(sampler.params), strict=True):
        np.testing.assert_array_equal(one, two)
    one, two = (s.sample(jax.random.key(3), 300, progress=False) for s in (sampler, again))
    np.testing.assert_array_equal(one.unconstrained, two.unconstrained)


def test_another_fit_compiles_no_more_than_a_chain_of_another_length():
    """The density is traced for programs, of which only those of the chain depend on T."""
    traces = []

    def logdensity(x):
        traces.append(1)
        return -0.5 * jnp.sum(x**2) - 0.1 * jnp.sum(x**4)

    target, method = eg.Target(logdensity, like=jnp.zeros(2)), eg.GEI(particles=128)
    lengths, counts = [], []
    for seed in range(4):
        before = len(traces)
        sampler = method.fit(target, jax.random.key(seed), progress=False)
        lengths.append(sampler.params.schedule.step.shape[0])
        counts.append(len(traces) - before)
    a_chain = 4  # two sizes of ensemble, each with a start and a transition
    for index in range(1, 4):
        assert counts[index] <= (0 if lengths[index] in lengths[:index] else a_chain), (lengths, counts)
    assert counts[0] > 0


def saved_and_loaded(sampler, tmp_path):
    path = tmp_path / "sampler"
    sampler.save(path)
    return path, eg.load(path, sampler.target)


@pytest.mark.parametrize("which", ["plain", "annealed", "low rank"])
def test_a_saved_sampler_is_the_same_to_the_bit(fits, three_modes, wide, tmp_path, which):
    sampler = {"plain": fits("skewed"), "annealed": three_modes, "low rank": wide[0]}[which]
    _, back = saved_and_loaded(sampler, tmp_path)
    assert back.method == sampler.method and back.cost == sampler.cost and back.depth == sampler.depth
    assert jax.tree.structure(back.params) == jax.tree.structure(sampler.params)
    for one, two in zip(jax.tree.leaves(back.params), jax.tree.leaves(sampler.params), strict=True):
        np.testing.assert_array_equal(one, two)
    if sampler.certificate is not None:
        assert back.certificate.verdict == sampler.certificate.verdict
    one, two = (s.sample(jax.random.key(5), 200, progress=False) for s in (sampler, back))
    np.testing.assert_array_equal(one.unconstrained, two.unconstrained)
    assert one.kind == two.kind
    for name in one.stats:
        np.testing.assert_array_equal(one.stats[name], two.stats[name])


def damaged(path, change):
    header, arrays = sampler_files.read(path)
    change(header, arrays)
    sampler_files.write(path, header, arrays)


def drop(name):
    return lambda _, arrays: arrays.pop(name)


def put(name, array):
    return lambda _, arrays: arrays.update({name: array})


@pytest.mark.parametrize(
    "change",
    [
        drop("params/schedule/step"),
        drop("params/schedule/leapfrogs"),
        drop("params/initial/centres"),
        drop("params/initial/chart/root"),
        drop("params/charts/root"),
        drop("params/charts/inverse"),
        put("params/schedule/step", np.zeros((), np.float32)),
        put("params/schedule/leapfrogs", np.ones(3, np.int32)),
        put("params/schedule/which", np.zeros((2, 2), np.int32)),
        put("params/schedule/beta", np.ones(3, np.float32)),
        put("params/initial/centres", np.zeros((4, 7), np.float32)),
        put("params/charts/root", np.zeros((1, 9, 9), np.float32)),
        put("params/charts/root", np.zeros((), np.float32)),
        put("params/charts/vectors", np.zeros((1, 3, 2), np.float32)),
        lambda header, _: header["config"].update(particles=-3),
        lambda header, _: header["config"].update(wings=2),
    ],
)
def test_damage_is_a_storage_error(fits, tmp_path, change):
    sampler = fits("skewed")
    path, _ = saved_and_loaded(sampler, tmp_path)
    damaged(path, change)
    with pytest.raises(eg.StorageError):
        eg.load(path, sampler.target)


def test_separate_modes_are_annealed_without_being_asked(three_modes):
    draws = three_modes.sample(jax.random.key(1), DRAWS, weighted=True, progress=False)
    assert three_modes.params.schedule.beta is not None
    assert draws.kind == "weighted" and not draws.independent
    assert draws.attributes["annealed"] and draws.attributes["weighted_draws"]
    assert "log_weight" in draws.stats and draws.effective_size() > 0.15 * DRAWS


def test_separate_modes_have_their_weights_and_log_z_its_value(three_modes):
    """Delta-method z-scores of three shares and log Z: |z| < 4.5, probability of failure 3e-5 (fixed seed)."""
    draws = three_modes.sample(jax.random.key(1), DRAWS, weighted=True, progress=False)
    nearest = np.argmin(((draws.unconstrained[:, None] - CENTRES[None]) ** 2).sum(axis=-1), axis=1)
    for mode, share in enumerate(WEIGHTS):
        inside = (nearest == mode).astype(float)
        error = np.sqrt(np.sum(draws.weights**2 * (inside - draws.weights @ inside) ** 2))
        assert abs(draws.weights @ inside - share) < 4.5 * error < 0.1
    value, error = draws.log_z()
    assert abs(value - np.log(2 * np.pi)) < 4.5 * error < 0.2


def test_annealing_where_it_is_asked_for():
    target = eg.targets.get("laplace")
    sampler = eg.GEI(anneal=True, particles=256, certify=False).fit(target, jax.random.key(0), progress=False)
    draws = sampler.sample(jax.random.key(1), 4000, weighted=True, progress=False)
    assert draws.kind == "weighted" and sampler.certificate is None
    value, error = draws.log_z()
    assert abs(value - target.truth.log_z) < 4.5 * error < 0.3  # probability of failure 7e-6
    x, truth = draws.unconstrained.astype(np.float64), target.truth
    mean = draws.weights @ x
    error = np.sqrt(draws.weights**2 @ (x - mean) ** 2)
    assert np.abs((mean - truth.mean) / error).max() < 4.5


@pytest.mark.slow
def test_annealing_that_is_forbidden_is_not_done(three_modes):
    """The certificate then says that modes are separate, and the draws are not passed off as right."""
    sampler = eg.GEI(anneal=False, particles=256).fit(three_modes.target, jax.random.key(0), progress=False)
    assert sampler.params.schedule.beta is None
    assert sampler.certificate.passed is not True


def test_two_hundred_dimensions_with_a_low_rank_metric(wide):
    """Means and variances: |z| < 5.5 for 402 of them, probability of failure 1.6e-5 where there is no bias."""
    sampler, scale, u = wide
    assert isinstance(sampler.params.charts, LowRankChart) and isinstance(sampler.params.initial.chart, LowRankChart)
    draws = sampler.sample(jax.random.key(1), 4000, progress=False)
    z = draws.unconstrained.astype(np.float64) / scale
    along = z @ u.astype(np.float64)
    values = np.concatenate([z, z**2, along[:, None], along[:, None] ** 2], axis=1)
    variances = 1 + 99 * u.astype(np.float64) ** 2
    truth = np.concatenate([np.zeros(200), variances, [0.0, 100.0]])
    assert np.abs(z_of_mean(values, truth)).max() < 5.5


def test_few_dimensions_have_a_dense_metric(fits):
    assert isinstance(fits("skewed").params.charts, DenseChart)


@pytest.mark.parametrize(
    "bad",
    [{"particles": 0}, {"steps": -1}, {"pilot": 2.5}, {"anneal": "yes"}, {"certify": None}, {"particles": "many"}],
)
def test_settings_are_checked(bad):
    (name,) = bad
    with pytest.raises(eg.ConfigError, match=name):
        eg.GEI(**bad)


def test_what_has_not_settled_is_not_passed():
    """A pilot too short to find a neck, and a chain that never comes into it, however often it is gone through."""

    def logdensity(x):
        return -0.5 * (x[0] / 3) ** 2 - 0.5 * jnp.sum(x[1:] ** 2) * jnp.exp(-x[0]) - 2 * x[0]

    neck = eg.Target(logdensity, like=jnp.zeros(5), name="neck")
    method = eg.GEI(steps=1, pilot=1, particles=64, anneal=False, chart=False)
    sampler = method.fit(neck, jax.random.key(0), progress=False)
    assert sampler.certificate.passed is not True and len(sampler.draws) >= 512
    assert any(f.verdict in ("failed", "inconclusive") and f.words for f in sampler.certificate.findings)


@pytest.mark.parametrize(
    ("logdensity", "cause"),
    [
        (lambda x: jnp.sum(jnp.log(-(x**2))), "NaN"),
        (lambda x: jnp.where(x[0] > 1e6, 0.0, -jnp.inf) - jnp.sum(x**2), "-inf"),
        (lambda x: 0 * jnp.sum(x), "depends on nothing"),
    ],
    ids=["NaN", "-inf", "flat"],
)
def test_a_target_that_cannot_be_sampled_is_refused_with_its_cause(logdensity, cause):
    with pytest.raises(eg.TargetError, match=f"broken.*{cause}"):
        eg.fit(eg.Target(logdensity, like=jnp.zeros(2), name="broken"), jax.random.key(0), progress=False)


def test_the_prior_of_a_model_is_a_start():
    numpyro = pytest.importorskip("numpyro")
    dist = pytest.importorskip("numpyro.distributions")

    def model(y):
        centre = numpyro.sample("centre", dist.Normal(1e4, 20.0))
        numpyro.sample("y", dist.Normal(centre, 10.0), obs=y)

    target = eg.from_numpyro(model, np.array([10_010.0, 10_030.0]))
    prior, *others = eg.GEI().starts(target)
    assert prior is target.prior and len(others) == 2
    assert float(prior.mean[0]) == pytest.approx(1e4, abs=5)
    plain = eg.Target(lambda x: -0.5 * jnp.sum(x**2), like=jnp.zeros(2))
    assert len(eg.GEI().starts(plain)) == 2
    sampler = eg.GEI(particles=128).fit(target, jax.random.key(0), progress=False)
    x = sampler.sample(jax.random.key(1), 4000, progress=False).position["centre"].astype(np.float64)
    precision = 1 / 400 + 2 / 100
    mean = (1e4 / 400 + 20_040 / 100) / precision
    assert abs(z_of_mean(x[:, None], mean)[0]) < 4.5  # probability of failure 7e-6
    assert abs(z_of_mean((x[:, None] - mean) ** 2, 1 / precision)[0]) < 4.5
