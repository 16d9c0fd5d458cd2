"""Encoders: their estimates and gradients, the chain's coordinates, and that bounds are bounds."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from decoders_ergodic import LinearGaussian
from ergodic.generative import ErgodicEncoder, HVAEEncoder, HVIEncoder, VAEEncoder
from ergodic.generative.architectures import architecture
from ergodic.generative.coordinates import ImageCoordinates
from ergodic.generative.encoders import ImageGaussians
from ergodic.generative.ergodic_encoder import carried
from ergodic.generative.joint import joint, log_prior
from ergodic.generative.layers import DenseLayer
from ergodic.runtime.errors import ConfigError
from ergodic_studies.measures.importance import importance_bound

ARCHITECTURE = architecture(64)
ENCODERS = (
    VAEEncoder(),
    HVIEncoder(leapfrogs=2, hidden=8),
    HVAEEncoder(leapfrogs=2, tempering="fixed"),
    ErgodicEncoder(2, 1, adjusted=False),
    ErgodicEncoder(2, 1, gradient="full"),
    ErgodicEncoder(2, 1, start="encoder", whitened=True, tuning="acceptance"),
)


@pytest.fixture(scope="module")
def model():
    decoder = ARCHITECTURE.decoder(jax.random.key(0))
    return decoder, decoder.sample(jax.random.key(1), jax.random.normal(jax.random.key(2), (6, 8)))


def label(encoder):
    return repr(encoder)[:60]


@pytest.mark.parametrize("encoder", ENCODERS, ids=label)
def test_gradients_are_finite_and_of_the_parameters_shapes(model, encoder):
    decoder, images = model
    parameters = encoder.init(ARCHITECTURE, jax.random.key(3))
    row, of_decoder, gradient = jax.jit(encoder.estimate)(decoder, parameters, images, jax.random.key(4))
    assert jax.tree.structure(gradient) == jax.tree.structure(parameters)
    assert jax.tree.structure(of_decoder) == jax.tree.structure(decoder)
    leaves = jax.tree.leaves((of_decoder, gradient))
    assert all(np.all(np.isfinite(leaf)) for leaf in leaves)
    assert any(np.any(np.asarray(leaf) != 0) for leaf in jax.tree.leaves(of_decoder))
    assert np.isfinite(row["objective"])
    latents = encoder.infer(decoder, parameters, images, jax.random.key(5))
    assert latents.shape == (6, 8) and np.all(np.isfinite(latents))


def test_untuned_chains_stay_as_they_are(model):
    decoder, images = model
    encoder = ErgodicEncoder(2, 2, tuning="none")
    parameters = encoder.init(ARCHITECTURE, jax.random.key(3))
    gradient = encoder.estimate(decoder, parameters, images, jax.random.key(4)).parameters
    assert all(np.all(np.asarray(leaf) == 0) for leaf in jax.tree.leaves(gradient))


def test_the_decoder_follows_the_draw_and_not_the_chain(model):
    """∂θ log p(x_T, y) with x_T held: that of the objective at the chain's own end."""
    decoder, images = model
    encoder = ErgodicEncoder(3, 2)
    parameters, key = encoder.init(ARCHITECTURE, jax.random.key(3)), jax.random.key(4)
    estimate = encoder.estimate(decoder, parameters, images, key)

    noise_key, chain_key, _ = jax.random.split(key, 3)
    from ergodic.kernels import start
    from ergodic.tuning.emlbo import frozen_runs

    density = joint(decoder, images)
    begin = start(density, jax.random.normal(noise_key, (6, 8)))
    runs = frozen_runs(density, encoder.kernel, parameters["transitions"], begin, jax.random.split(chain_key, 3))
    x = runs.end.position
    expected = jax.grad(lambda d: jnp.mean(d.loglikelihood()(x, images) + log_prior(x)))(decoder)
    for found, wanted in zip(jax.tree.leaves(estimate.decoder), jax.tree.leaves(expected), strict=True):
        assert np.allclose(found, wanted, rtol=1e-4, atol=1e-5)
    assert np.isclose(estimate.row["objective"], np.mean(runs.end.logdensity), rtol=1e-5)


def test_coordinates_carry_the_density_and_its_force(x64):
    where = ImageCoordinates(jnp.array([[1.0, -2.0]]), jnp.array([[0.5, 3.0]]))

    def of_x(x):
        value = lambda x: jnp.sum(-0.25 * x**4 + x, axis=-1)  # noqa: E731
        return value(x), jax.vmap(jax.grad(lambda row: value(row[None])[0]))(x)

    u = jnp.array([[0.3, 0.7]])
    value, force = where.density(of_x)(u)
    step = 1e-6
    for d in range(2):
        bump = jnp.zeros((1, 2)).at[0, d].set(step)
        slope = (where.density(of_x)(u + bump)[0] - where.density(of_x)(u - bump)[0]) / (2 * step)
        assert np.isclose(slope[0], force[0, d], rtol=1e-6)
    assert np.isclose(value[0], of_x(where.position(u))[0][0])


def test_a_longer_chain_begins_with_the_shorter_ones_transitions():
    old = ErgodicEncoder(2, 2).init(ARCHITECTURE, jax.random.key(0))["transitions"]
    new = ErgodicEncoder(4, 2).init(ARCHITECTURE, jax.random.key(1))["transitions"]
    grown = carried(new, old)
    assert grown.log_step.shape == (4, 8)
    assert np.array_equal(grown.log_step[:2], old.log_step) and np.array_equal(grown.log_step[3], old.log_step[1])


def test_whitening_needs_an_encoder():
    with pytest.raises(ConfigError, match="start='encoder'"):
        ErgodicEncoder(2, 2, whitened=True)


class Exact:
    """The posterior of a linear Gaussian decoder whose rows are orthogonal: a diagonal Gaussian."""

    def __init__(self, decoder):
        self.decoder = decoder

    def __call__(self, y):
        weight, noise = self.decoder.layer.weight, self.decoder.noise
        precision = 1 + jnp.sum(weight**2, axis=1) / noise**2
        mean = (y @ weight.T) / noise**2 / precision[None, :]
        return ImageGaussians(mean, jnp.broadcast_to(-0.5 * jnp.log(precision)[None, :], mean.shape))


jax.tree_util.register_pytree_node(Exact, lambda e: ((e.decoder,), None), lambda _, children: Exact(*children))


@pytest.fixture(scope="module")
def linear():
    rows = np.linalg.qr(np.random.default_rng(0).normal(size=(6, 3)))[0].T * np.array([[1.0], [2.0], [0.5]])
    decoder = LinearGaussian(DenseLayer(jnp.asarray(rows, jnp.float32), jnp.zeros(6)), 0.7)
    images = decoder.sample(jax.random.key(1), jax.random.normal(jax.random.key(2), (400, 3)))
    return decoder, images


def test_bounds_are_tight_for_the_exact_posterior(linear):
    """With q the posterior, the ELBO has no gap on average and the importance-weighted bound has none at all."""
    decoder, images = linear
    exact = np.asarray(decoder.exact(images))
    weighted = importance_bound(decoder, Exact(decoder), np.asarray(images), jax.random.key(3), 50)
    assert np.allclose(weighted, exact, atol=2e-4)
    elbo = np.asarray(VAEEncoder().bound(decoder, {"encoder": Exact(decoder)}, images, jax.random.key(4)))
    # The integrand's entropy is in closed form, so it varies by chi-squares: d/2 variance. Fails once in 1e6.
    assert abs(np.mean(elbo - exact)) < 4.9 * np.sqrt(1.5 / len(exact))


@pytest.mark.parametrize(
    "encoder", [HVIEncoder(leapfrogs=3, hidden=8), HVAEEncoder(leapfrogs=3), HVAEEncoder(3, "fixed")], ids=label
)
def test_hamiltonian_bounds_do_not_exceed_the_evidence(linear, encoder):
    """E[bound] <= log p(y), from the exact posterior too. The mean's standard error is measured; fails once in 1e6."""
    decoder, images = linear
    shape = ARCHITECTURE
    parameters = {**encoder.init(shape, jax.random.key(5)), "encoder": Exact(decoder)}
    if "log_step" in parameters:
        parameters["log_step"] = jnp.full(3, -2.0)
    else:
        from ergodic.kernels import HMC
        from ergodic.tuning.mlp import init_mlp

        parameters["transitions"] = HMC(3).init(jax.random.key(6), 1, 3, jnp.float32, (0.1, 0.2))
        network = init_mlp(jax.random.key(7), 9, 8, 6, jnp.float32)
        parameters["reverse"] = jax.tree.map(lambda leaf: leaf[None], network)
    gap = np.asarray(encoder.bound(decoder, parameters, images, jax.random.key(8)) - decoder.exact(images))
    assert gap.mean() < 4.9 * gap.std() / np.sqrt(len(gap))
    assert gap.mean() > -20
