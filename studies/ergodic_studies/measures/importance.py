"""The importance-weighted bound (Burda, Grosse & Salakhutdinov 2016) of models that have an encoder.

    L_K(y) = E_{x_1..x_K ~ q(x|y)} log 1/K Σ_k p(x_k, y)/q(x_k | y) <= log p(y)

Tight as K grows, the sooner the nearer q is to the posterior; its distance from the annealed estimate shows how far the
encoder is from the posterior.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ergodic.generative.decoders import Decoder
from ergodic.generative.encoders import ImageGaussians
from ergodic.generative.joint import log_prior
from ergodic.runtime.programs import compiled

_ROWS = 500
_AT_ONCE = 50
"""Draws per image in one pass."""
Encode = Callable[[Float[Array, "n pixels"]], ImageGaussians]
"""From images to q(x | y): an encoder network, or another pytree that can be called like one."""


def importance_bound(
    decoder: Decoder, encoder: Encode, images: np.ndarray, key: Array, draws: int = 1000
) -> Float[np.ndarray, "images"]:
    """The bound L_K of every image.

    Args:
      decoder: p(y | x).
      encoder: q(x | y).
      images: binary images, one per row.
      key: a JAX random key.
      draws: K, draws of q per image.
    """
    size, passes = min(_ROWS, len(images)), max(1, -(-draws // _AT_ONCE))
    values = []
    for first in range(0, len(images), size):
        part = images[first : first + size]
        batch = jnp.asarray(np.resize(part, (size, images.shape[1])), jnp.float32)
        args = (decoder, encoder, batch, jax.random.fold_in(key, first))
        values.append(np.asarray(compiled(_bound, (passes,), *args)(*args))[: len(part)])
    return np.concatenate(values)


def _bound(passes: int, decoder: Decoder, encoder: Encode, images: Array, key: Array) -> Array:
    posterior, loglikelihood = encoder(images), decoder.loglikelihood()

    def one(key: Array) -> Array:
        x = posterior.draw(key)
        return loglikelihood(x, images) + log_prior(x) - posterior.logdensity(x)

    def some(total: Array, key: Array) -> tuple[Array, None]:
        weights = jax.lax.map(one, jax.random.split(key, _AT_ONCE))
        return jnp.logaddexp(total, jax.nn.logsumexp(weights, axis=0)), None

    nothing = jnp.full(images.shape[0], -jnp.inf)
    total, _ = jax.lax.scan(some, nothing, jax.random.split(key, passes))
    return total - jnp.log(jnp.asarray(passes * _AT_ONCE, total.dtype))
