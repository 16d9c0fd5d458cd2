"""What is GHMC's own; fit, sample, save, load and costs as every method's are in test_protocol.py."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodic as eg
from ergodic.methods import METHODS
from ergodic.methods.ghmc import GHMC
from ergodic.runtime import programs
from statistics_ergodic import two_sample_p

SMALL = GHMC(chains=20, leapfrogs=2, iterations=6, burn_in=5)


def two_leaves(p):
    return -0.5 * jnp.sum(p["a"] ** 2) - jnp.cosh(p["b"]) + 0.3 * p["b"] * p["a"][0]


def target():
    return eg.Target(two_leaves, like={"a": jnp.zeros(2), "b": 0.0}, name="two leaves")


@pytest.fixture(scope="module")
def fitted():
    return SMALL.fit(target(), jax.random.key(0), progress=False)


def test_the_defaults_are_the_papers_run_and_the_authors_code():
    method = GHMC()
    assert (method.chains, method.leapfrogs, method.iterations, method.burn_in) == (100, 5, 1000, 100)
    assert (method.hidden, method.step_size, method.jump_scale) == (10, 0.1, 0.1)
    assert (method.initial_mean, method.initial_scale) == (0.0, 1.0)
    assert [method.rate(i) for i in (0, 999, 1000, 2500)] == pytest.approx([1e-3, 1e-3, 0.96e-3, 0.96**2 * 1e-3])
    kernel = method.kernel
    assert (kernel.leapfrogs, kernel.hidden, kernel.head_factor) == (5, 10, 0.001)


def test_what_it_fits_and_what_that_cost(fitted):
    assert fitted.params.state.position.shape == (20, 3)
    assert fitted.record["objective"].shape == (6,)
    # Chains start (1); an iteration starts fresh states (1) and decides, repeats and sweeps back 2 L for both (12).
    assert fitted.cost.gradients == 20 * (1 + 6 * (1 + 2 * 6) + 5 * 2)
    assert fitted.cost.depth == 1 + 6 * (1 + 6) + 5 * 2


def test_draws_are_correlated_and_say_so(fitted):
    draws = fitted.sample(jax.random.key(1), 2000, progress=False)
    assert not draws.independent and draws.chains == 20
    said = {"method": "GHMC", "independent_draws": False, "chains": 20, "leapfrogs": 2, "burn_in": 5}
    assert said.items() <= draws.attributes.items()
    assert set(draws.stats) == {"acceptance_rate", "diverging", "energy_error", "gradients"}
    assert draws.stats["gradients"].dtype == np.int32 and np.all(draws.stats["gradients"] == 2)
    assert (draws.cost.gradients, draws.cost.depth) == (2000 * 2, 100 * 2)
    assert 0 < draws.effective_size() < 2000
    x = draws.by_chain(draws.unconstrained.astype(np.float64))
    assert np.mean([np.corrcoef(c[:-1, 0], c[1:, 0])[0, 1] for c in x]) > 0.3


def test_a_saved_sampler_draws_the_same_bits(fitted, tmp_path, monkeypatch):
    monkeypatch.setitem(METHODS, "GHMC", GHMC)
    fitted.save(tmp_path / "s")
    back = eg.load(tmp_path / "s", target())
    for one, two in zip(jax.tree.leaves(fitted.params), jax.tree.leaves(back.params), strict=True):
        np.testing.assert_array_equal(one, two)
    one, two = (sampler.sample(jax.random.key(3), 100, progress=False) for sampler in (fitted, back))
    np.testing.assert_array_equal(one.unconstrained, two.unconstrained)


def test_it_is_reproducible_and_a_second_fit_compiles_nothing(fitted):
    kept = len(programs._programs)
    again, other = (SMALL.fit(fitted.target, jax.random.key(k), progress=False) for k in (0, 1))
    assert len(programs._programs) == kept
    assert again.cost.compile_seconds == other.cost.compile_seconds == 0
    for one, two in zip(jax.tree.leaves(again.params), jax.tree.leaves(fitted.params), strict=True):
        np.testing.assert_array_equal(one, two)
    assert not np.array_equal(again.params.state.position, other.params.state.position)


def test_chains_that_would_start_outside_the_support_join_the_others():
    half = eg.Target(lambda x: jnp.sum(jnp.log(x) - x), like=jnp.ones(1), name="gamma")
    state = jax.jit(lambda key: SMALL.begin(half, key))(jax.random.key(0)).state
    assert np.all(np.asarray(state.position) > 0) and np.all(state.usable())
    assert 2 < len(np.unique(state.position)) < 20


BAD = {
    **{
        f"{name}={value}": ({name: value}, name)
        for name in ("chains", "leapfrogs", "iterations", "burn_in", "hidden", "decay_every")
        for value in (0, 2.5)
    },
    **{
        f"{name}={value}": ({name: value}, name)
        for name in ("step_size", "jump_scale", "learning_rate", "decay", "initial_scale")
        for value in (0.0, float("nan"), "fast")
    },
    "decay=1.1": ({"decay": 1.1}, "decay"),
    "initial_mean": ({"initial_mean": float("inf")}, "initial_mean"),
    "mask_seed=-1": ({"mask_seed": -1}, "mask_seed"),
    "mask_seed=0.5": ({"mask_seed": 0.5}, "mask_seed"),
    "adam": ({"adam": (0.9,)}, "adam"),
}


@pytest.mark.parametrize(("settings", "message"), BAD.values(), ids=BAD.keys())
def test_silly_settings_are_refused_by_name(settings, message):
    with pytest.raises(eg.ConfigError, match=message):
        GHMC(**settings)


@pytest.mark.slow
def test_a_trained_kernel_still_has_the_target_as_its_law():
    """From N(0, I), 40 iterations and 60 steps: KS of one draw a chain against exact draws; failure rate 1e-4."""
    gaussian = eg.targets.get("gaussian")
    method = GHMC(chains=5000, leapfrogs=3, iterations=40, burn_in=60, learning_rate=0.01)
    draws = method.fit(gaussian, jax.random.key(0), progress=False).sample(jax.random.key(1), 5000, progress=False)
    assert two_sample_p(draws.unconstrained, gaussian.draw_exact(jax.random.key(2), 5000)) > 1e-4
    assert draws.stats["acceptance_rate"].mean() < 0.98  # not the plain leapfrog with tiny steps


@pytest.mark.slow
def test_it_mixes_on_the_authors_correlated_gaussian_as_theirs_does():
    """ESS a step, their estimator: theirs 0.261 against HMC's 0.0056. Ours must be 20 times HMC's at ε = 0.1.

    Fixed seed: 8 of seeds 0 to 9 are; the other two are still on training's plateau after 5,000 iterations.
    """
    from ergodic_studies.bench.l2hmc import hmc_effective_size, l2hmc_effective_size

    learned, plain = l2hmc_effective_size(seed=0)["ess_per_step"], hmc_effective_size(0.1)["ess_per_step"]
    assert learned > 0.2
    assert learned > 20 * plain
