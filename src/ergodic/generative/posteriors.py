"""A trained generative model in the library's own terms: its latent posteriors as a family, its chains as samplers.

    family = latent_posteriors(trained.decoder, images)             # log p(x, y) of every image: an eg.Family
    eg.fit(family[0], key); eg.fit_many(family, key)                # any method of the library
    samplers = image_samplers(trained.encoder, trained.decoder, trained.parameters, images)
    samplers[0].sample(key, 1_000); samplers[0].certify(key)        # the trained chain of an image: an eg.Sampler

The chain that an ergodic encoder has trained is Hamiltonian ergodic inference: P0 is a diagonal Gaussian per image, the
transitions are those of `HMC`. In the encoder's coordinates x = mean + scale u a step size ε of u is the step
size scale · ε of x, so that a whitened chain is one with step sizes per image.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Real

from ..chain import ChainParams
from ..family import Family
from ..initial import DiagonalGaussian
from ..methods.hei import HEI
from ..sampler import Sampler
from .decoders import Decoder
from .ergodic_encoder import ErgodicEncoder
from .joint import Parameters, log_prior


def latent_posteriors(
    decoder: Decoder, images: Real[Array | np.ndarray, "n pixels"], name: str = "latents of image"
) -> Family:
    """The posteriors p(x | y) ∝ p(y | x) N(x; 0, I) of given images y, one member per image.

    Args:
      decoder: a trained decoder, p(y | x).
      images: one image per row; binary ones for a decoder with Bernoulli pixels.
      name: what to call the family in tables; members are ``name[0]``, ``name[1]``, ...
    """
    loglikelihood, latents = decoder.loglikelihood(), decoder.latents()

    def logdensity(x: Float[Array, "latents"], image: Float[Array, "pixels"]) -> Float[Array, ""]:
        return (loglikelihood(x[None, :], image[None, :]) + log_prior(x[None, :]))[0]

    like = jnp.zeros(latents, jnp.float32)
    return Family(logdensity, jnp.asarray(images, like.dtype), like, name=name, prior=DiagonalGaussian(like, like))


def image_samplers(
    encoder: ErgodicEncoder,
    decoder: Decoder,
    parameters: Parameters,
    images: Real[Array | np.ndarray, "n pixels"],
    name: str = "latents of image",
) -> list[Sampler]:
    """The trained chain of every image as an ordinary sampler, which draws, certifies and saves.

    Args:
      encoder: the settings that the chain was trained with.
      decoder: the trained decoder.
      parameters: what the encoder has learnt.
      images: one binary image per row.
      name: what to call the targets.
    """
    family = latent_posteriors(decoder, images, name)
    initial = encoder.initial(decoder, parameters, family.data)
    method = HEI(
        steps=encoder.steps,
        leapfrogs=encoder.leapfrogs,
        gradient=encoder.gradient,
        adjusted=encoder.adjusted,
        step_size=encoder.step_size,
    )
    scale = encoder.coordinates(decoder, parameters, family.data).scale
    chain = parameters["transitions"]
    return [
        Sampler(
            target,
            method,
            ChainParams(initial.of(i), chain._replace(log_step=chain.log_step + jnp.log(scale[i])[None, :])),
        )
        for i, target in enumerate(family)
    ]
