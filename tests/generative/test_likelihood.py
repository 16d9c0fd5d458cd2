"""Annealed likelihoods against the exact ones of a linear Gaussian decoder, and the sandwich around them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from decoders_ergodic import LinearGaussian
from ergodic.generative.layers import DenseLayer
from ergodic.generative.likelihood import Annealing, likelihood_gap, log_likelihood, spaced


@pytest.fixture(scope="module")
def linear():
    """32 latents seen through 64 correlated pixels: the posterior's condition number is about 30."""
    weight = 0.5 * jax.random.normal(jax.random.key(0), (32, 64))
    decoder = LinearGaussian(DenseLayer(weight, jnp.ones(64)), 1.0)
    images = decoder.sample(jax.random.key(1), jax.random.normal(jax.random.key(2), (100, 32)))
    return decoder, np.asarray(images)


@pytest.mark.parametrize(
    ("images", "temperatures", "error", "off"),
    [
        pytest.param(30, 1000, 0.06, 0.2, id="in small"),
        pytest.param(100, 2500, 0.02, 0.05, id="the bar", marks=pytest.mark.slow),
    ],
)
def test_close_to_the_exact_value(linear, images, temperatures, error, off):
    """The bar, a twentieth of a nat, is four of its own errors (0.013) wide: it fails by chance once in 10,000.

    In small the error is 0.04, and the tolerance five of it.
    """
    decoder, images = linear[0], linear[1][:images]
    found = log_likelihood(decoder, images, jax.random.key(3), Annealing(temperatures, 2, 16))
    summary = found.summary()
    gap = float(np.mean(found.value - np.asarray(decoder.exact(jnp.asarray(images)))))
    assert summary["error"] < error and summary["effective"] > 8
    assert abs(gap) < off
    # Weighted draws have the posterior's mean: known, and 32 latents are tested at once.
    weight, noise = np.asarray(decoder.layer.weight, float), decoder.noise
    covariance = np.linalg.inv(np.eye(32) + weight @ weight.T / noise**2)
    mean = (images - 1) @ weight.T @ covariance / noise**2
    w = np.exp(found.log_weight - found.log_weight.max(axis=0))
    estimate = np.einsum("cn,cnd->nd", w, found.draws) / w.sum(axis=0)[:, None]
    error = np.sqrt(np.diag(covariance))[None, :] / np.sqrt(found.effective)[:, None]
    assert np.mean(((estimate - mean) / error) ** 2) < 1.5  # about 1, over 32 latents an image


def test_the_sandwich_holds_the_truth_between(linear):
    decoder, _ = linear
    width = likelihood_gap(decoder, jax.random.key(4), 40, Annealing(400, 2, 8))
    assert width.lower < width.upper and 0 < width.width < 5
    latents, pixels = (jax.random.split(jax.random.key(4), 4)[i] for i in (0, 1))
    exact = decoder.exact(decoder.sample(pixels, jax.random.normal(latents, (40, 32))))
    assert width.lower < float(exact.mean()) < width.upper


def test_batches_cover_every_image_once(linear):
    """An odd number of images in small batches: a value each, near the exact ones, in order."""
    decoder, images = linear
    found = log_likelihood(decoder, images[:7], jax.random.key(5), Annealing(400, 2, 8, particles=24))
    exact = np.asarray(decoder.exact(jnp.asarray(images[:7])))
    assert found.value.shape == (7,) and found.draws.shape == (8, 7, 32)
    assert np.corrcoef(found.value, exact)[0, 1] > 0.95


def test_temperatures_lie_where_the_spread_is():
    betas = np.linspace(0, 1, 101)
    moved = spaced(betas, np.where(betas[1:] < 0.1, 10.0, 0.1))
    assert np.all(np.diff(moved) > 0) and moved[0] == 0 and moved[-1] == 1
    assert np.sum(moved < 0.1) > 70
