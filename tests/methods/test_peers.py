"""NUTS, ChEES, MEADS and LAPS through BlackJAX: the adapters, not the algorithms, are under test.

Fits are small and shared by the module. Keys are fixed, so a test gives the same answer on the same platform; the
failure rates below are those of another key.
"""

import subprocess
import sys
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodic as eg
from ergodic.methods import METHODS, peers
from ergodic.methods.chees import ChEES
from ergodic.methods.laps import LAPS
from ergodic.methods.meads import MEADS
from ergodic.methods.nuts import NUTS

SMALL = {
    "NUTS": NUTS(chains=4, warmup=300),
    "ChEES": ChEES(chains=32, warmup=300),
    "MEADS": MEADS(chains=64, warmup=300),
    "LAPS": LAPS(chains=512, unadjusted=200, adjusted=300),
}
N = 20_480


@pytest.fixture(scope="module")
def fitted():
    """Each method fitted once to the correlated Gaussian, when first asked for, with N draws."""
    target = eg.targets.get("gaussian")
    made = {}

    def get(name):
        if name not in made:
            sampler = eg.fit(target, jax.random.key(0), SMALL[name], progress=False)
            made[name] = sampler, sampler.sample(jax.random.key(1), N, progress=False)
        return made[name]

    return get


@pytest.mark.parametrize("name", SMALL)
def test_the_gaussians_mean_and_variance_are_recovered(name, fitted):
    """|error| < 5 sd / √ESS for two means and two variances: 2e-6 a method were ESS exact, 1e-4 were it 20 % too high.

    ESS is the smallest over coordinates and log π*, which is quadratic as the variance is.
    """
    _, draws = fitted(name)
    truth = draws.target.require_truth()
    ess = draws.effective_size()
    assert ess > 500
    x = draws.unconstrained.astype(np.float64)
    assert np.all(np.abs(x.mean(axis=0) - truth.mean) < 5 * x.std(axis=0) / np.sqrt(ess))
    square = (x - truth.mean) ** 2
    assert np.all(np.abs(square.mean(axis=0) - np.diag(truth.covariance)) < 5 * square.std(axis=0) / np.sqrt(ess))


@pytest.mark.parametrize("name", SMALL)
def test_draws_say_what_they_are(name, fitted):
    sampler, draws = fitted(name)
    chains = SMALL[name].chains
    assert not draws.independent
    assert draws.attributes["method"] == name and draws.attributes["chains"] == draws.chains == chains
    assert draws.by_chain(draws.unconstrained).shape == (chains, N // chains, 2)
    np.testing.assert_allclose(draws.logdensity, draws.target.density.batched(draws.unconstrained)[0], atol=1e-4)
    assert draws.stats["gradients"].dtype == np.int32 and draws.stats["diverging"].dtype == bool
    assert draws.stats["acceptance_rate"].min() >= 0 and 0.4 < draws.stats["acceptance_rate"].mean() <= 1
    assert sampler.record["step_size"].shape == sampler.record["acceptance"].shape


@pytest.mark.parametrize("name", ["ChEES", "MEADS"])
def test_acceptance_follows_from_the_energy_error(name, fitted):
    """min(1, exp(-error)): holds only if the start's energy is put together with the right metric and momentum."""
    stats = fitted(name)[1].stats
    np.testing.assert_allclose(stats["acceptance_rate"], np.exp(-np.maximum(stats["energy_error"], 0)), atol=1e-4)


def test_costs_are_counted(fitted):
    for name, method in SMALL.items():
        sampler, draws = fitted(name)
        for cost in (sampler.cost, draws.cost):
            assert cost.gradients >= cost.depth > 0 and cost.run_seconds > 0
        assert sampler.cost.gradients == sampler.record["gradients"].sum() + method.chains
        assert draws.cost.gradients == draws.stats["gradients"].sum()
    meads, laps = fitted("MEADS")[0], fitted("LAPS")[0]
    assert (meads.cost.gradients, meads.cost.depth) == (64 * 301, 301)
    unadjusted = np.isnan(laps.record["acceptance"]).sum()
    assert 40 <= unadjusted <= 200  # it measures fluctuations over a fifth of phase one before it may end
    assert laps.cost.depth == 1 + unadjusted + 30 * (300 // 30)
    assert np.all(fitted("LAPS")[1].stats["gradients"] == 30)


def test_laps_goes_on_with_the_step_size_that_was_looked_for(fitted):
    """Acceptance 0.7 within 0.1: BlackJAX's bisection stops within 0.03 of it, seen to 0.02 over 512 chains."""
    assert abs(fitted("LAPS")[1].stats["acceptance_rate"].mean() - 0.7) < 0.1


@pytest.mark.parametrize("name", SMALL)
def test_a_second_fit_compiles_nothing_and_a_key_gives_the_same_draws(name, fitted):
    sampler, draws = fitted(name)
    again = eg.fit(sampler.target, jax.random.key(0), SMALL[name], progress=False)
    assert again.cost.compile_seconds == 0
    jax.tree_util.tree_map(np.testing.assert_array_equal, again.params, sampler.params)
    repeated = again.sample(jax.random.key(1), N, progress=False)
    assert repeated.cost.compile_seconds == 0
    np.testing.assert_array_equal(repeated.unconstrained, draws.unconstrained)
    other = eg.fit(sampler.target, jax.random.key(2), SMALL[name], progress=False)
    assert not np.array_equal(other.params.state.position, sampler.params.state.position)


@pytest.mark.parametrize("name", SMALL)
def test_a_saved_sampler_goes_on_bitwise_the_same(name, fitted, tmp_path, monkeypatch):
    monkeypatch.setitem(METHODS, name, type(SMALL[name]))
    sampler, draws = fitted(name)
    sampler.save(tmp_path / "s")
    loaded = eg.load(tmp_path / "s", sampler.target)
    assert loaded.method == sampler.method and loaded.cost == sampler.cost
    again = loaded.sample(jax.random.key(1), N, progress=False)
    assert again.cost.compile_seconds == 0
    np.testing.assert_array_equal(again.unconstrained, draws.unconstrained)


@pytest.mark.parametrize("name", SMALL)
def test_begin_has_the_shapes_of_what_is_tuned(name, fitted):
    sampler, _ = fitted(name)
    begin = jax.eval_shape(lambda key: sampler.method.begin(sampler.target, key), jax.random.key(0))
    describe = lambda tree: jax.tree_util.tree_map(lambda leaf: (leaf.shape, leaf.dtype), tree)  # noqa: E731
    assert describe(begin) == describe(sampler.params)


def test_the_jitter_is_the_one_blackjax_hands_back():
    """`ChEES.trajectory` is a restatement: held against the function that adaptation returns."""
    import optax

    method = ChEES(chains=4, warmup=3)
    with peers.lenient():
        adaptation = peers.blackjax().chees_adaptation(lambda x: -0.5 * jnp.sum(x**2), method.chains)
        start = jax.random.normal(jax.random.key(0), (method.chains, 2))
        (_, tuned), _ = adaptation.run(jax.random.key(1), start, 0.1, optax.adam(0.025), method.warmup)
        places = jnp.arange(3000)
        for longest in (1.0, 3.79, 20.0):
            theirs = jax.vmap(tuned["integration_steps_fn"], (0, None))(places, jnp.asarray(longest))
            ours = jax.vmap(method.trajectory, (0, None))(places, jnp.asarray(longest))
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.slow
def test_laps_gives_the_ensemble_of_blackjaxs_laps(x64):
    """`LAPS.warm_up` puts `blackjax.adaptation.laps.laps` together again, so that it compiles: same key, same end."""
    target = eg.Target(lambda x: -0.5 * jnp.sum((x - 1) ** 2 * jnp.array([1.0, 4.0])), like=jnp.zeros(2))
    method, key = LAPS(chains=32, unadjusted=30, adjusted=120), jax.random.key(3)
    initial = method.initial(target)
    params, row = jax.jit(lambda i, k: peers._warm_up(target.density, method, i, k))(initial, key)
    with peers.lenient(target.dtype):
        info, _, _, theirs = peers.blackjax().adaptation.laps.laps(
            target.density,
            lambda k: initial.sample(k, 1)[0],
            target.dim,
            method.unadjusted,
            method.adjusted,
            method.chains,
            jax.sharding.Mesh(jax.devices()[:1], "chains"),
            key,
            observables_for_bias=jnp.square,
        )
    np.testing.assert_allclose(params.state.position, theirs.position, atol=1e-5)
    assert np.sum(row.depth == 1) == len(info["phase_1"]["step_size"])
    np.testing.assert_allclose(row.step_size[-4:], info["phase_2"]["step_size"], rtol=1e-9)


def test_blackjax_is_imported_late_and_outside_any_trace():
    """Its import makes an array: a backend started by ``import ergodic``, or a tracer kept for ever if made in one."""
    program = """
import sys, jax, jax.numpy as jnp, ergodic as eg
from ergodic.methods import chees, laps, meads, nuts
assert "blackjax" not in sys.modules
target = eg.Target(lambda x: -0.5 * jnp.sum(x**2), like=jnp.zeros(2))
jax.eval_shape(lambda key: laps.LAPS().begin(target, key), jax.random.key(0))
from blackjax.adaptation.step_size import bisection_monotonic_fn
assert not any(isinstance(value, jax.core.Tracer) for value in bisection_monotonic_fn.__defaults__)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "method",
    [
        MEADS(chains=8, warmup=20),
        *(
            pytest.param(method, marks=pytest.mark.slow)
            for method in (NUTS(warmup=20), ChEES(chains=8, warmup=20), LAPS(chains=16, unadjusted=20, adjusted=60))
        ),
    ],
    ids=lambda method: method.name,
)
def test_dtype_follows_the_target_in_a_pytree(method, dtype, x64):
    like = {"a": jnp.zeros(2, dtype), "b": jnp.zeros((), dtype)}
    target = eg.Target(lambda p: -0.5 * jnp.sum(p["a"] ** 2) - jnp.cosh(p["b"]), like=like)
    sampler = eg.fit(target, jax.random.key(0), method, progress=False)
    draws = sampler.sample(jax.random.key(1), 50, progress=False)
    assert sampler.params.state.position.dtype == draws.position["a"].dtype == dtype
    assert draws.position["a"].shape == (50, 2) and draws.position["b"].shape == (50,)


def test_chains_start_where_they_are_told():
    target = eg.targets.get("gaussian")
    for method in SMALL.values():
        initial = replace(method, initial_mean=np.array([5.0, -5.0]), initial_scale=[0.1, 2.0]).initial(target)
        np.testing.assert_array_equal(initial.mean, [5, -5])
        np.testing.assert_allclose(initial.log_scale, np.log([0.1, 2.0]), rtol=1e-6)
        with pytest.raises(eg.ConfigError, match="3 values for a target of dimension 2"):
            replace(method, initial_mean=(1.0, 2.0, 3.0)).fit(target, jax.random.key(0))


@pytest.mark.parametrize("name", SMALL)
def test_an_unusable_target_is_refused_before_anything_runs(name):
    target = eg.Target(lambda x: jnp.log(-jnp.sum(x**2)), like=jnp.zeros(2))
    with pytest.raises(eg.TargetError, match="NaN at every one"):
        eg.fit(target, jax.random.key(0), SMALL[name])


BAD = {
    **{
        f"{method.__name__}.{field}={value}": (method, {field: value}, field)
        for method, fields in {
            NUTS: ("chains", "warmup", "max_doublings"),
            ChEES: ("chains", "warmup", "max_leapfrogs"),
            MEADS: ("chains", "warmup", "folds"),
            LAPS: ("chains", "unadjusted", "adjusted"),
        }.items()
        for field in fields
        for value in (0, 2.5)
    },
    **{
        f"{method.__name__}.initial_scale": (method, {"initial_scale": -1.0}, "initial_scale")
        for method in (NUTS, ChEES, MEADS, LAPS)
    },
    "NUTS.target_acceptance": (NUTS, {"target_acceptance": 1.0}, "target_acceptance"),
    "ChEES.target_acceptance": (ChEES, {"target_acceptance": float("nan")}, "target_acceptance"),
    "ChEES.learning_rate": (ChEES, {"learning_rate": 0.0}, "learning_rate"),
    "ChEES.step_size": (ChEES, {"step_size": "small"}, "step_size"),
    "ChEES, one chain": (ChEES, {"chains": 1}, "at least 2"),
    "MEADS, uneven folds": (MEADS, {"chains": 10}, "multiple of folds"),
    "MEADS, one a fold": (MEADS, {"chains": 4}, "at least 2"),
    "LAPS, one chain": (LAPS, {"chains": 1}, "at least 2"),
    "LAPS, short": (LAPS, {"unadjusted": 5}, "at least 10"),
}


@pytest.mark.parametrize(("method", "settings", "message"), BAD.values(), ids=BAD.keys())
def test_silly_settings_are_refused_by_name(method, settings, message):
    with pytest.raises(eg.ConfigError, match=message):
        method(**settings)


def test_laps_takes_a_log_density_with_a_scan_from_a_constant():
    """BlackJAX's `shard_map` types positions as varying over chains, and constants as not: a scan may not mix them.

    Traced only, since that is where it would be refused.
    """

    def logdensity(x):
        return jax.lax.scan(lambda carry, value: (carry - 0.5 * value**2, None), jnp.zeros(()), x)[0]

    target, method = eg.Target(logdensity, like=jnp.zeros(2)), LAPS(chains=16, unadjusted=20, adjusted=60)
    adaptation = lambda key: peers._warm_up(target.density, method, method.initial(target), key)  # noqa: E731
    params, row = jax.eval_shape(adaptation, jax.random.key(0))
    assert params.state.position.shape == (16, 2) and row.gradients.shape == (22,)


def test_laps_says_what_it_cannot_do():
    line = eg.Target(lambda x: -0.5 * jnp.sum(x**2), like=jnp.zeros(1))
    with pytest.raises(eg.ConfigError, match="dimension 2 or more"):
        eg.fit(line, jax.random.key(0), LAPS())
    with pytest.raises(eg.ConfigError, match="at least 30 gradients"):
        eg.fit(eg.targets.get("gaussian"), jax.random.key(0), LAPS(adjusted=29))
    half = eg.Target(lambda x: -0.5 * jnp.sum(x**2), like=jnp.zeros(2, jnp.float16))
    with pytest.raises(eg.ConfigError, match="float32 or float64, not float16"):
        eg.fit(half, jax.random.key(0), LAPS())
