"""A trained model in the library's terms: its posteriors are a family, and its chains are HEI's, draw for draw."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodic as eg
from ergodic.datasets.images import load
from ergodic.generative import ErgodicEncoder, VAEEncoder, image_samplers, latent_posteriors
from ergodic.generative.joint import joint
from ergodic.generative.training import train
from ergodic.generative.training_settings import Budget, Recipe, Stage

CHAINS = {
    "prior": ErgodicEncoder(3, 2),
    "warm": ErgodicEncoder(2, 2, start="encoder"),
    "whitened": ErgodicEncoder(2, 2, start="encoder", whitened=True, step_size=(0.2, 0.3)),
}


@pytest.fixture(scope="module")
def digits():
    return load("digits")


@pytest.fixture(scope="module")
def trained(digits, tmp_path_factory):
    """Every chain, trained for five epochs; a warm one after a variational autoencoder."""
    found = {}
    for name, chain in CHAINS.items():
        stages = (Stage(chain),) if chain.start == "prior" else (Stage(VAEEncoder()), Stage(chain))
        folder = tmp_path_factory.mktemp(name)
        found[name] = train(digits.train, Recipe(stages), Budget(epochs=5), jax.random.key(0), folder)
    return found


def test_a_member_is_the_posterior_of_its_image(trained, digits):
    decoder, images = trained["prior"].decoder, jnp.asarray(digits.test[:3], jnp.float32)
    family = trained["prior"].posteriors(images)
    assert len(family) == 3 and family.dim == decoder.latents() and family[1].name == "latents of image[1]"
    x = jax.random.normal(jax.random.key(1), (3, family.dim))
    value, force = joint(decoder, images)(x)
    for i, target in enumerate(family):
        one_value, one_force = target.density.batched(x[i][None, :])
        assert np.isclose(one_value[0], value[i], rtol=1e-5) and np.allclose(one_force[0], force[i], atol=1e-4)


@pytest.mark.parametrize("name", CHAINS)
def test_an_image_is_encoded_by_the_librarys_chain(trained, digits, name):
    """The same key gives the same draws, by the encoder and by the sampler of that image, up to rounding."""
    model, n = trained[name], 50
    image = jnp.asarray(digits.test[:1], jnp.float32)
    (sampler,) = image_samplers(model.encoder, model.decoder, model.parameters, image)
    key = jax.random.key(2)
    encoded = model.encoder.infer(model.decoder, model.parameters, jnp.tile(image, (n, 1)), key)
    simulated = sampler.method.simulate(sampler.target.density, sampler.params, key, n)
    # A Metropolis decision may fall otherwise by rounding, once in thousands of moves.
    same = np.all(np.isclose(encoded, simulated.position, rtol=1e-3, atol=1e-3), axis=1)
    assert np.mean(same) > 0.9


def test_the_trained_chain_is_an_ordinary_sampler(trained, digits, tmp_path):
    model, images = trained["whitened"], digits.test[:2]
    samplers = image_samplers(model.encoder, model.decoder, model.parameters, images)
    draws = samplers[1].sample(jax.random.key(3), 100)
    assert draws.unconstrained.shape == (100, 8) and np.all(np.isfinite(draws.logdensity))
    samplers[1].save(tmp_path / "image.ergodic")
    again = eg.load(tmp_path / "image.ergodic", latent_posteriors(model.decoder, images)[1])
    assert np.array_equal(again.sample(jax.random.key(3), 100).unconstrained, draws.unconstrained)
    certificate = samplers[1].certify(jax.random.key(4), draws=1000)
    assert certificate.verdict == "failed"  # two short transitions do not reach the posterior


def test_the_library_samples_an_images_posterior(trained, digits):
    """Fitted from the prior, without knowing the encoder, and certified; fails by chance once in fifty fits or less."""
    target = trained["prior"].posteriors(digits.test[:2])[0]
    sampler = eg.fit(target, jax.random.key(5), eg.GEI(particles=256))
    assert sampler.certificate.verdict == "passed"
