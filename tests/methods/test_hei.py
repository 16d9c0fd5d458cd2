from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodic as eg
from ergodic.statistics.wasserstein import noise_floor, sliced_wasserstein

# What the issue asks of one setting on the paper's targets (a) to (d): |-E[log π*] - exact|, median of 5 seeds.
BARS = {"laplace": 0.10, "dual-moon": 0.02, "ring": 0.08, "gaussian": 0.03}


def test_the_defaults_are_the_papers():
    method = eg.HEI()
    assert (method.steps, method.leapfrogs, method.iterations) == (10, 5, 50)
    assert method.step_size == (0.01, 0.025)
    assert method.adam == (0.9, 0.999, 1e-8)
    assert (method.gradient, method.constraint, method.entropy_floor) == ("frozen-force", "keep", "initial")
    assert method.adjusted


@pytest.mark.parametrize("name", BARS)
def test_the_default_comes_close_on_the_papers_targets(name):
    """Fixed seeds 0 to 4. Over 20 seeds the medians are 0.075, 0.002, 0.002, 0.004 (docs/results.md)."""
    target = eg.targets.get(name)
    errors = []
    for seed in range(5):
        fit_key, sample_key, _ = jax.random.split(jax.random.key(seed), 3)
        draws = eg.fit(target, fit_key, eg.HEI()).sample(sample_key, 20_000)
        errors.append(-draws.logdensity.mean(dtype=np.float64) + target.require_truth().expected_logdensity)
    assert abs(np.median(errors)) <= BARS[name]


def test_a_valid_p0_reaches_the_noise_floor_on_the_gaussian(gaussian_sampler):
    n = 20_000
    target = gaussian_sampler.target
    draws = gaussian_sampler.sample(jax.random.key(1), n)
    distance = sliced_wasserstein(draws.unconstrained, target.draw_exact(jax.random.key(2), n))
    assert distance < 2.5 * noise_floor(target.draw_exact, jax.random.key(3), n)


def test_training_speeds_convergence(gaussian_sampler):
    untuned = gaussian_sampler.method.untuned(gaussian_sampler.target, jax.random.key(0))
    truth = gaussian_sampler.target.require_truth().expected_logdensity
    error = [
        abs(sampler.sample(jax.random.key(1), 5000).logdensity.mean() - truth)
        for sampler in (untuned, gaussian_sampler)
    ]
    assert error[1] < 0.1 * error[0]


def test_a_floor_at_the_targets_entropy_is_not_enough():
    """docs/equations.md: at h = H(π) the chain overshoots; at P0 = N(0, 3 I) it does not."""
    target = eg.targets.get("gaussian")
    narrow = eg.fit(target, jax.random.key(0), eg.HEI(initial_scale=1.0)).sample(jax.random.key(1), 10_000)
    assert narrow.logdensity.mean() > target.require_truth().expected_logdensity + 0.1


def test_the_priors_entropy_sets_p0():
    target = eg.Target(lambda x: -0.5 * jnp.sum(x**2), like=jnp.zeros(4), prior_entropy=7.0)
    assert float(eg.HEI().initial(target).entropy()) == pytest.approx(7.0, rel=1e-5)
    assert float(eg.HEI(initial_scale=1.0).initial(target).log_scale[0]) == 0.0


def test_mean_and_scale_can_be_given_per_coordinate():
    target = eg.Target(lambda p: -0.5 * jnp.sum(p["b"] ** 2) - p["a"] ** 2, like={"a": 0.0, "b": jnp.zeros(2)})
    p0 = eg.HEI(initial_mean=np.arange(3.0), initial_scale=[1.0, 2.0, 3.0]).initial(target)
    np.testing.assert_array_equal(p0.mean, [0, 1, 2])
    np.testing.assert_allclose(p0.log_scale, np.log([1, 2, 3]), rtol=1e-6)
    with pytest.raises(eg.ConfigError, match="2 values for a target of dimension 3"):
        eg.HEI(initial_mean=(1.0, 2.0)).initial(target)


@pytest.mark.parametrize(
    "variant",
    [
        {"gradient": "full"},
        {"adjusted": False},
        {"constraint": "project"},
        {"entropy_floor": None},
        {"entropy_floor": 0.5},
    ],
    ids=str,
)
def test_every_variant_fits_samples_and_survives_saving(variant, tmp_path):
    target = eg.Target(lambda p: -0.5 * jnp.sum(p["a"] ** 2) - jnp.cosh(p["b"]), like={"a": jnp.zeros(2), "b": 0.0})
    method = replace(eg.HEI(steps=3, leapfrogs=2, iterations=4, particles=20), **variant)
    sampler = eg.fit(target, jax.random.key(0), method)
    sampler.save(tmp_path / "s")
    draws = eg.load(tmp_path / "s", target).sample(jax.random.key(1), 30)
    np.testing.assert_array_equal(draws.unconstrained, sampler.sample(jax.random.key(1), 30).unconstrained)
    assert draws.position["a"].shape == (30, 2) and draws.position["b"].shape == (30,)
    assert draws.attributes["independent_draws"] is True


def test_an_automatic_floor_widens_a_narrow_start(tmp_path):
    """From N(0, 0.25 I), 1.4 nats below the Gaussian's entropy; without it the chain overshoots by 0.3."""
    target = eg.targets.get("gaussian")
    truth = target.require_truth()
    sampler = eg.fit(target, jax.random.key(0), eg.HEI(initial_scale=0.5, entropy_floor="auto"))
    estimate, error, floor = (sampler.record[f"entropy_{name}"] for name in ("estimate", "error", "floor"))
    assert estimate.shape == error.shape == (2,) and floor.shape == (1,)
    assert np.all(np.abs(estimate - truth.entropy) < 5 * error) and np.all(error < 0.2)
    assert 0.9 < floor[0] - truth.entropy < 1.8  # 1.22 covers it, 1.5 is the most, and the estimate has its error
    assert float(sampler.params.initial.entropy()) >= floor[0] - 1e-4
    draws = sampler.sample(jax.random.key(1), 10_000)
    assert abs(draws.logdensity.mean() - truth.expected_logdensity) < 0.06
    sampler.save(tmp_path / "s")
    np.testing.assert_array_equal(eg.load(tmp_path / "s", target).record["entropy_estimate"], estimate)
    plain = eg.fit(target, jax.random.key(0), eg.HEI(entropy_floor="initial"))
    assert sampler.cost.gradients > plain.cost.gradients and "entropy_floor" not in plain.record


def test_a_first_estimate_that_was_too_low_is_said(monkeypatch):
    from ergodic.methods import hei

    def too_low(*arguments, **settings):
        found, islands = anneal(*arguments, **settings)
        return found._replace(entropy=found.entropy - 4), islands

    anneal = hei.annealed_evidence
    monkeypatch.setattr(hei, "annealed_evidence", too_low)
    method = eg.HEI(initial_scale=0.5, entropy_floor="auto", iterations=2)
    with pytest.warns(eg.DrawsWarning, match="the first estimate was too low"):
        eg.fit(eg.targets.get("gaussian"), jax.random.key(0), method)


BAD = {
    **{
        f"{name}={value}": ({name: value}, name)
        for name in ("steps", "leapfrogs", "iterations", "particles")
        for value in (0, -1, 2.5)
    },
    "learning_rate=0": ({"learning_rate": 0.0}, "learning_rate"),
    "learning_rate=nan": ({"learning_rate": float("nan")}, "learning_rate"),
    "learning_rate=word": ({"learning_rate": "fast"}, "learning_rate"),
    "initial_scale=-1": ({"initial_scale": -1.0}, "initial_scale"),
    "one negative scale": ({"initial_scale": (1.0, 0.0)}, "initial_scale"),
    "gradient": ({"gradient": "none"}, "frozen-force"),
    "constraint": ({"constraint": "hope"}, "project"),
    "floor word": ({"entropy_floor": "high"}, "entropy_floor"),
    "step_size": ({"step_size": (0.1, 0.01)}, "step_size"),
    "step_size single": ({"step_size": (0.1,)}, "step_size"),
    "adam": ({"adam": (0.9,)}, "adam"),
    "adam out of range": ({"adam": (2.0, 0.9, 1e-8)}, "adam"),
    "step_size number": ({"step_size": 0.01}, "step_size"),
    "adjusted word": ({"adjusted": "no"}, "adjusted"),
    "floor nan": ({"entropy_floor": float("nan")}, "entropy_floor"),
    "floor list": ({"entropy_floor": [1, 2]}, "entropy_floor"),
    "mean word": ({"initial_mean": "foo"}, "initial_mean"),
    "mean nan": ({"initial_mean": float("nan")}, "initial_mean"),
}


@pytest.mark.parametrize(("settings", "message"), BAD.values(), ids=BAD.keys())
def test_silly_settings_are_refused_by_name(settings, message):
    with pytest.raises(eg.ConfigError, match=message):
        eg.HEI(**settings)


def test_numpy_and_jax_numbers_are_settings_too(tmp_path):
    method = eg.HEI(steps=np.int64(3), initial_scale=np.float32(2), initial_mean=jnp.asarray(1.0), iterations=1)
    assert method == eg.HEI(steps=3, initial_scale=2.0, initial_mean=1.0, iterations=1)
    eg.fit(eg.targets.get("gaussian"), jax.random.key(0), method).save(tmp_path / "s")


def test_a_floor_above_the_initial_entropy_stops_the_fit():
    with pytest.raises(eg.ConfigError, match="above the entropy that P0 starts with"):
        eg.fit(eg.targets.get("gaussian"), jax.random.key(0), eg.HEI(initial_scale=1.0, entropy_floor=5.0))


@pytest.mark.slow
def test_long_training_overshoots():
    """The paper's 50 iterations act as early stopping; recorded here so that a change of behaviour is seen."""
    target = eg.targets.get("gaussian")
    draws = eg.fit(target, jax.random.key(0), eg.HEI(iterations=3000)).sample(jax.random.key(1), 50_000)
    assert draws.logdensity.mean() > target.require_truth().expected_logdensity + 0.01
