"""Ranks of true values are uniform where sampler and model are right, and are seen to be uneven where they are not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodic as eg
from ergodic import calibration


def conjugate(spread=1.0, shift=0.0):
    """θ ~ N(0, I), five y ~ N(θ, 2²) each; the posterior's likelihood may be wrong in its spread or its place."""

    def joint(p, data):
        off = (data["y"] - p["theta"][:, None] - shift) / (2.0 * spread)
        return -0.5 * jnp.sum(p["theta"] ** 2) - 0.5 * jnp.sum(off**2)

    model = eg.Model(
        dims={"theta": ["place"]},
        coords={"place": ["here", "there"]},
        prior=lambda key: {"theta": jax.random.normal(key, (2,))},
        predictive=lambda p, key: {"y": p["theta"][:, None] + 2.0 * jax.random.normal(key, (2, 5))},
        joint=joint,
    )
    data = {"y": jnp.zeros((2, 5))}
    return eg.Target(lambda p: joint(p, data), like={"theta": jnp.zeros(2)}, name="conjugate", model=model)


def calibrated(target, **options):
    return eg.sbc(target, jax.random.key(0), 100, method=eg.GEI(particles=64, certify=False), **options)


def test_a_right_model_passes():
    """Fails for a sound sampler with probability 0.01 (fixed seed)."""
    found = calibrated(conjugate(), draws=49)
    assert found.passed and found.verdict == "passed" and found.unsure == 0
    assert found.names == ("theta[here]", "theta[there]", "log π*") and found.ranks.shape == (100, 3)
    assert found.ranks.min() >= 0 and found.ranks.max() <= 49 and found.cost.gradients > 0
    assert "calibration: passed (100 simulations, 49 draws each)" in found.summary()
    assert "uniform, as far as can be seen" in found.summary() and "passed" in found._repr_html_()
    figure = found.plot()
    assert len([axis for axis in figure.axes if axis.get_title()]) == 3


@pytest.mark.parametrize(
    ("wrong", "words"),
    [({"spread": 0.4}, "draws are too narrow"), ({"shift": 2.0}, "draws are too small: true values rank high")],
)
def test_a_wrong_model_fails_and_says_how(wrong, words):
    found = calibrated(conjugate(**wrong), draws=49, var_names=["theta"])
    assert not found.passed and words in found.summary()


def test_uniform_ranks_have_uniform_p_values_and_stay_in_their_bands():
    """Of 1,000 sets of uniform ranks 5 % leave 5 % bands: within 4.5 standard errors, which fails with 7e-6."""
    ranks = np.random.default_rng(1).integers(0, 50, (100, 1000))
    p_values = calibration.uniform_p(ranks, 49)
    error = 4.5 * np.sqrt(0.05 * 0.95 / 1000)
    assert np.mean(p_values < 0.05) == pytest.approx(0.05, abs=error + 0.01)  # ranks are discrete
    inside = calibration.bands(100, 49, 0.05)
    curves = np.stack([(ranks < k).mean(axis=0) for k in range(1, 50)])
    left = np.any((curves < inside.low[:, None]) | (curves > inside.high[:, None]), axis=0)
    assert np.mean(left) < 0.05 + error
    assert np.all(calibration.uniform_p(np.minimum(ranks, 40), 49) < 1e-3)


def test_the_prior_is_simulated_with_data_of_each_draw():
    """Means and spreads of 4,000 draws within 4.5 standard errors; fails by chance with probability below 1e-4."""
    target = conjugate()
    sampler = eg.HEI(steps=2, leapfrogs=2).untuned(target, jax.random.key(0))
    prior, data = sampler.prior_predictive(jax.random.key(1), 4_000)
    assert prior["theta"].shape == (4_000, 2) and data["y"].shape == (4_000, 2, 5)
    off = data["y"] - prior["theta"][:, :, None]
    assert np.all(np.abs(prior["theta"].mean(axis=0)) < 4.5 / np.sqrt(4_000))
    assert abs(off.std() - 2) < 4.5 * 2 / np.sqrt(2 * off.size)


def test_what_cannot_be_simulated_is_said():
    with pytest.raises(eg.TargetError, match=r"no prior, predictive, joint\. Use eg\.from_numpyro"):
        eg.sbc(eg.targets.get("gaussian"), jax.random.key(0))
    with pytest.raises(eg.ConfigError, match="too few to tell"):
        eg.sbc(conjugate(), jax.random.key(0), 5)
    with pytest.raises(eg.ConfigError, match="no variable 'mu'"):
        calibrated(conjugate(), var_names=["mu"])


@pytest.mark.slow
def test_a_numpyro_model_is_calibrated():
    """Eight schools, not centred. Fails for a sound sampler with probability 0.01 (fixed seed)."""
    numpyro = pytest.importorskip("numpyro")
    dist = pytest.importorskip("numpyro.distributions")
    sigma = np.asarray([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0], np.float32)

    def model(y):
        mu, tau = numpyro.sample("mu", dist.Normal(0, 5)), numpyro.sample("tau", dist.HalfNormal(5))
        with numpyro.plate("school", 8):
            z = numpyro.sample("z", dist.Normal(0, 1))
            theta = numpyro.deterministic("theta", mu + tau * z)
            numpyro.sample("y", dist.Normal(theta, sigma), obs=y)

    found = eg.sbc(eg.from_numpyro(model, np.zeros(8, np.float32)), jax.random.key(1))
    assert found.passed and "theta[0]" in found.names
