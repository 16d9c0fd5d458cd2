"""Decoders and encoders: the fast transposed convolution is the plain one, and likelihoods are what they say."""

import importlib
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodic.generative
from decoders_ergodic import LinearGaussian
from ergodic.generative.architectures import architecture
from ergodic.generative.decoders import deconv_decoder, mlp_decoder
from ergodic.generative.deconvolution import Convolution, Deconvolution, init_kernel
from ergodic.generative.encoders import conv_encoder
from ergodic.generative.layers import DenseLayer
from ergodic.runtime.errors import ConfigError, MissingExtra

TILES = ((4, 7, (4, 4)), (4, 8, (1, 4)), (7, 14, (1, 1)), (7, 13, (1, 7)), (14, 28, (1, 14)), (14, 28, (2, 7)))


def plain(kernel, x, out):
    numbers = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_transpose(x, kernel, (2, 2), "SAME", dimension_numbers=numbers)[:, :out, :out]


@pytest.mark.parametrize(("size", "out", "tile"), TILES)
def test_every_tile_is_the_plain_transposed_convolution(x64, size, out, tile):
    kernel = init_kernel(jax.random.key(0), 3, 2, jnp.float64)
    x = jax.random.normal(jax.random.key(1), (2, size, size, 3), jnp.float64)

    def fast(kernel, x):
        layer = Deconvolution(kernel, jnp.zeros(2), size, out, tile)
        return layer.apply(layer.matrix(), x)

    @jax.jit
    def both(kernel, x, cotangent):
        """Value and what is pulled back through it, of the fast one and of the plain one."""
        value, pull = jax.vjp(fast, kernel, x)
        expected, pull_plain = jax.vjp(lambda kernel, x: plain(kernel, x, out), kernel, x)
        return (value, *pull(cotangent)), (expected, *pull_plain(cotangent))

    cotangent = jax.random.normal(jax.random.key(2), (2, out, out, 2), jnp.float64)
    (value, *pulled), (expected, *pulled_plain) = both(kernel, x, cotangent)
    np.testing.assert_allclose(value, expected, rtol=0, atol=1e-12)
    for found, wanted in zip(pulled, pulled_plain, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-11)


@pytest.mark.parametrize(("size", "out", "tile"), TILES)
def test_the_mirrored_convolution_is_the_transpose(x64, size, out, tile):
    kernel = init_kernel(jax.random.key(0), 3, 2, jnp.float64)
    x = jax.random.normal(jax.random.key(1), (2, size, size, 3), jnp.float64)
    y = jax.random.normal(jax.random.key(2), (2, out, out, 2), jnp.float64)
    forward = plain(kernel, x, out)
    back = Convolution(kernel, jnp.zeros(3), size, out, tile)(y)
    assert np.isclose(jnp.sum(forward * y), jnp.sum(x * back), rtol=1e-12)


def test_tiles_that_do_not_fit_are_refused():
    with pytest.raises(ConfigError, match="tile of 3 by 3"):
        Deconvolution(init_kernel(jax.random.key(0), 1, 1), jnp.zeros(1), 7, 14, (3, 3))
    with pytest.raises(ConfigError, match="tile of 7 by 1"):
        Deconvolution(init_kernel(jax.random.key(0), 1, 1), jnp.zeros(1), 7, 14, (7, 1))


def test_shapes_of_the_papers_pair():
    decoder, encoder = jax.jit(lambda a, b: (deconv_decoder(a), conv_encoder(b)))(*jax.random.split(jax.random.key(0)))
    x = jax.random.normal(jax.random.key(2), (3, 32))
    y = jax.jit(lambda decoder, x: decoder.sample(jax.random.key(3), x))(decoder, x)
    assert y.shape == (3, 784) and set(np.unique(y)) == {0.0, 1.0}
    posterior = jax.jit(lambda encoder, y: encoder(y))(encoder, y)
    assert posterior.mean.shape == posterior.log_scale.shape == (3, 32)
    assert decoder.latents() == 32 and decoder.hidden.weight.shape == (32, 500)


def test_bernoulli_likelihood():
    decoder = mlp_decoder(jax.random.key(0))
    x = jax.random.normal(jax.random.key(1), (4, 8))
    y = decoder.sample(jax.random.key(2), x)
    p = np.asarray(decoder.mean(x), np.float64)
    expected = np.sum(np.where(np.asarray(y) == 1, np.log(p), np.log1p(-p)), axis=1)
    assert np.allclose(decoder.loglikelihood()(x, y), expected, rtol=1e-5)


def test_linear_gaussian_likelihood_is_exact(x64):
    from scipy.stats import multivariate_normal

    weight = jax.random.normal(jax.random.key(0), (2, 3), jnp.float64)
    decoder = LinearGaussian(DenseLayer(weight, jnp.array([1.0, 2.0, 3.0])), 0.5)
    y = decoder.sample(jax.random.key(1), jax.random.normal(jax.random.key(2), (5, 2), jnp.float64))
    w = np.asarray(weight)
    expected = multivariate_normal([1, 2, 3], w.T @ w + 0.25 * np.eye(3)).logpdf(np.asarray(y))
    assert np.allclose(decoder.exact(y), expected, rtol=1e-10)


def test_a_missing_equinox_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "equinox", None)
    with pytest.raises(MissingExtra, match=r"equinox.*ergodic-inference\[networks\]"):
        importlib.reload(ergodic.generative)


def test_images_of_another_size_are_refused():
    with pytest.raises(ConfigError, match="not of 100 pixels"):
        architecture(100)
