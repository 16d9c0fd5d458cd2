from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodic as eg

SMALL = eg.HEI(steps=3, leapfrogs=2, iterations=12, particles=20)
SAFEGUARDS = {
    "acceptance floor": {"acceptance_floor": 0.8},
    "rao-blackwell": {"objective": "rao-blackwell"},
    "rao-blackwell, full": {"objective": "rao-blackwell", "gradient": "full"},
    "early stopping": {"early_stopping": True},
    "sksd": {"scale": "sksd"},
    "all": {"acceptance_floor": 0.8, "objective": "rao-blackwell", "early_stopping": True, "scale": "sksd"},
}


def test_they_are_off_by_default():
    method = eg.HEI()
    assert (method.objective, method.acceptance_floor, method.early_stopping, method.scale) == (
        "emlbo",
        None,
        False,
        None,
    )


@pytest.mark.parametrize("settings", SAFEGUARDS.values(), ids=SAFEGUARDS)
def test_every_safeguard_fits_samples_and_survives_saving(settings, tmp_path):
    target = eg.Target(lambda p: -0.5 * jnp.sum(p["a"] ** 2) - jnp.cosh(p["b"]), like={"a": jnp.zeros(2), "b": 0.0})
    method = replace(SMALL, **settings)
    sampler = eg.fit(target, jax.random.key(0), method)
    sampler.save(tmp_path / "s")
    again = eg.load(tmp_path / "s", target)
    assert again.method == method
    draws = again.sample(jax.random.key(1), 30)
    np.testing.assert_array_equal(draws.unconstrained, sampler.sample(jax.random.key(1), 30).unconstrained)


def test_the_records_say_what_was_done_and_the_cost_counts_it():
    target, key = eg.targets.get("gaussian"), jax.random.key(0)
    plain = eg.fit(target, key, SMALL)
    for settings, names in (
        ({"early_stopping": True}, ("stein_iteration", "stein_residual")),
        ({"scale": "sksd"}, ("scale", "sksd_scale", "sksd")),
        ({"acceptance_floor": 0.8}, ()),
    ):
        sampler = eg.fit(target, key, replace(SMALL, **settings))
        assert all(name in sampler.record and name not in plain.record for name in names)
        assert sampler.cost.gradients > plain.cost.gradients and sampler.cost.depth > plain.cost.depth
        np.testing.assert_array_equal(sampler.record["objective"], plain.record["objective"])  # the same runs


def test_a_floor_keeps_every_step_alive():
    """Without one, 60 iterations on Laplace leave a step below 0.7. 1,000 particles decide: an error of about 0.01."""
    target, key = eg.targets.get("laplace"), jax.random.key(1)
    least = {}
    for floor in (None, 0.8):
        sampler = eg.fit(target, key, eg.HEI(acceptance_floor=floor, iterations=60))
        least[floor] = sampler.sample(jax.random.key(2), 10_000).trace["acceptance"].min()
    assert least[None] < 0.7 and least[0.8] > 0.77


def test_early_stopping_stops_a_training_that_goes_too_far():
    target, key = eg.targets.get("dual-moon"), jax.random.key(0)
    long = eg.HEI(iterations=300)
    errors = []
    for method in (long, replace(long, early_stopping=True)):
        sampler = eg.fit(target, key, method)
        draws = sampler.sample(jax.random.key(1), 20_000)
        errors.append(abs(draws.logdensity.mean() - target.require_truth().expected_logdensity))
    assert len(sampler.record["objective"]) < 150 and errors[1] < 0.6 * errors[0]


def test_the_scale_narrows_a_p0_that_is_far_too_wide():
    """N(0, 400 I) for a unit Gaussian, and too few steps to come back from it."""
    target = eg.Target(lambda x: -0.5 * jnp.sum(x**2), like=jnp.zeros(2))
    method = eg.HEI(steps=2, leapfrogs=2, iterations=5, initial_scale=20.0, scale="sksd")
    sampler = eg.fit(target, jax.random.key(0), method)
    assert sampler.record["scale"][0] < 0.3
    assert 0.5 < sampler.sample(jax.random.key(1), 5_000).unconstrained.std() < 1.6


BAD = {
    "objective": ({"objective": "elbo"}, "rao-blackwell"),
    "floor 0": ({"acceptance_floor": 0.0}, "acceptance_floor must be between 0 and 1"),
    "floor 1": ({"acceptance_floor": 1}, "acceptance_floor must be between 0 and 1"),
    "floor word": ({"acceptance_floor": "high"}, "acceptance_floor must be a number"),
    "stopping word": ({"early_stopping": "yes"}, "early_stopping must be true or false"),
    "scale": ({"scale": "median"}, "sksd"),
    "unadjusted": ({"objective": "rao-blackwell", "adjusted": False}, "needs adjusted=True"),
}


@pytest.mark.parametrize(("settings", "message"), BAD.values(), ids=BAD.keys())
def test_silly_settings_are_refused_by_name(settings, message):
    with pytest.raises(eg.ConfigError, match=message):
        eg.HEI(**settings)
