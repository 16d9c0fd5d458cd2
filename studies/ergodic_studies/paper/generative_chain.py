"""Figures 6b and 6c: how the tuned chain of a trained model converges on single images, beside the untuned one.

For each of five test images: E_{p_t}[log p(x, y)] minus its value under the posterior, and MMD² to draws of the
posterior, over t = 0..T. Posterior draws are annealed ones (`generative/likelihood.py`), weighted.
"""

from __future__ import annotations

from typing import TypedDict

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ergodic.chain import ChainParams, path
from ergodic.generative.decoders import Decoder
from ergodic.generative.ergodic_encoder import ErgodicEncoder
from ergodic.generative.joint import joint
from ergodic.generative.likelihood import Annealing, log_likelihood
from ergodic.initial import DiagonalGaussian
from ergodic.protocols import Kernel
from ergodic.runtime.programs import compiled

from ..measures.mmd import squared_mmd

Curves = dict[str, list[float]]
"""Along one chain on one image: ``gap``, E[log p(x, y)] minus its value under the posterior, and ``mmd``, MMD²."""


class ChainCurves(TypedDict):
    """The curves of every image, by the chain's parameters."""

    steps: int
    images: int
    tuned: list[Curves]
    untuned: list[Curves]


def chain_curves(
    decoder: Decoder, encoder: ErgodicEncoder, transitions: PyTree, images: np.ndarray, key: Array, annealing: Annealing
) -> ChainCurves:
    """Both curves of every image, tuned and untuned, from the prior."""
    truth_key, chain_key, init_key = jax.random.split(key, 3)
    found = log_likelihood(decoder, images, truth_key, annealing)
    weights = np.exp(found.log_weight - found.log_weight.max(axis=0))
    untuned = encoder.kernel.init(init_key, encoder.steps, decoder.latents(), jnp.float32, encoder.step_size)
    curves: ChainCurves = {"steps": encoder.steps, "images": len(images), "tuned": [], "untuned": []}
    for index, image in enumerate(images):
        target = jnp.asarray(np.tile(image, (annealing.chains, 1)), jnp.float32)
        at_truth = np.asarray(joint(decoder, target)(jnp.asarray(found.draws[:, index]))[0], np.float64)
        truth = float(np.average(at_truth, weights=weights[:, index]))
        for kept, chosen in ((curves["tuned"], transitions), (curves["untuned"], untuned)):
            args = (decoder, chosen, target, jax.random.fold_in(chain_key, index))
            states, expected = compiled(_path, (encoder.kernel,), *args)(*args)
            mmd = [squared_mmd(x, found.draws[:, index], y_weights=weights[:, index]) for x in np.asarray(states)]
            gap = np.asarray(expected, float) - truth
            kept.append({"gap": np.round(gap, 5).tolist(), "mmd": np.round(mmd, 5).tolist()})
    return curves


def _path(kernel: Kernel, decoder: Decoder, transitions: PyTree, images: Array, key: Array) -> tuple[Array, Array]:
    """States and E_{p_t}[log p(x, y)] of one chain per row of images."""
    zero = jnp.zeros(decoder.latents())
    params = ChainParams(DiagonalGaussian(zero, zero), transitions)
    states, trace = path(joint(decoder, images), kernel, params, key, images.shape[0])
    return states, trace.expected_logdensity
