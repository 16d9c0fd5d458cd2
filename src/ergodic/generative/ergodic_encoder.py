"""A chain as the encoder (section 4.2): for every image T transitions of HMC on log p(x, y), parameters shared.

    decoder:  ∂_θ E_{p_T(x|y)}[ log p_θ(x, y) ],    by Adam, the draw x_T held
    chain:    ∂_φ E_{p_T(x|y)}[ log p_θ(x, y) ],    the decoder held, as in `tuning/emlbo.py`

P0 is the prior, kept as it is (the paper), or, as in the authors' later work (Campbell et al. 2021), the Gaussian of an
encoder that was trained before as a variational autoencoder, its scale times one number s:

    x_0 = mean(y) + s scale(y) ε

The encoder goes on climbing ELBO(P0) at s = 1, the decoder held: it follows the decoder, and that is the other half of
equation 4. s is learned by Adam on the sliced Stein discrepancy of x_T (`tuning/sksd.py`, slices along the axes, the
batch's particles pooled) with ∂x_T/∂s through a frozen force, as theirs is.

Two things are ours, and off by default. ``whitened``: the chain moves u = (x - mean(y))/scale(y), in which posteriors
are alike and wide, so that one step size suits every image. ``tuning="acceptance"``: every transition's step size goes
where three of four moves are accepted, since the ergodic objective, which sees only E[log p(x, y)], shrinks the steps
of a chain that starts near its target.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..chain import advance
from ..kernels import HMC, Ensemble, HMCParams, start
from ..kernels.ensemble import BatchedDensity
from ..runtime.errors import ConfigError
from ..runtime.validation import choice, settle
from ..tuning.emlbo import Runs, frozen_runs, full_runs
from ..tuning.sksd import sliced_discrepancy
from .architectures import Architecture
from .coordinates import ImageCoordinates
from .decoders import Decoder
from .encoders import EncoderNetwork, ImageGaussians
from .image_encoder import ImageEncoder
from .joint import EncoderEstimate, Parameters, joint, log_prior

STARTS = ("prior", "encoder")
TUNINGS = ("ergodic", "acceptance", "none")
_ACCEPTANCE = 0.75
_RUNS: dict[str, Callable[..., Runs]] = {"frozen-force": frozen_runs, "full": full_runs}
_PAIRED = 64
"""Particles that enter the Stein discrepancy."""


@dataclass(frozen=True)
class ErgodicEncoder(ImageEncoder):
    """Settings of the ergodic encoder.

    Attributes:
      steps: T, the number of transitions.
      leapfrogs: L, sub-steps per transition.
      start: P0, ``"prior"`` or ``"encoder"``.
      adjusted: whether moves are Metropolis-corrected.
      gradient: how the chain's gradient is found, ``"frozen-force"`` or ``"full"``.
      tuning: what the chain's parameters follow, ``"ergodic"``, ``"acceptance"`` or ``"none"``.
      whitened: whether the chain moves in the encoder's coordinates.
      step_size: range from which the first step sizes are drawn.
    """

    steps: int = 30
    leapfrogs: int = 5
    start: str = "prior"
    adjusted: bool = True
    gradient: str = "frozen-force"
    tuning: str = "ergodic"
    whitened: bool = False
    step_size: tuple[float, float] = (0.02, 0.05)

    name: ClassVar[str] = "HEI"

    def __post_init__(self) -> None:
        settle(self, start=choice(*STARTS), gradient=choice(*_RUNS), tuning=choice(*TUNINGS))
        if self.whitened and self.start != "encoder":
            raise ConfigError("whitened=True needs start='encoder': the coordinates are the encoder's")

    @property
    def kernel(self) -> HMC:
        """The transition that the chain is made of: the library's HMC."""
        return HMC(self.leapfrogs, adjusted=self.adjusted)

    def init(self, architecture: Architecture, key: Array) -> Parameters:
        """Step sizes; and for a warm start an encoder network and log s = 0."""
        chain_key, encoder_key = jax.random.split(key)
        transitions = self.kernel.init(chain_key, self.steps, architecture.latents, jnp.float32, self.step_size)
        parameters: Parameters = {"transitions": transitions}
        if self.start == "encoder":
            parameters |= {"encoder": architecture.encoder(encoder_key), "log_scale": jnp.zeros(())}
        return parameters

    def estimate(
        self, decoder: Decoder, parameters: Parameters, images: Float[Array, "n pixels"], key: Array
    ) -> EncoderEstimate:
        """One estimate of E_{p_T}[log p(x, y)] and the gradients of its parts."""
        noise_key, chain_key, elbo_key = jax.random.split(key, 3)
        density = joint(decoder, images)
        where, begin = self._begin(decoder, parameters, images, noise_key)
        runs = _RUNS[self.gradient](
            where.density(density),
            self.kernel,
            parameters["transitions"],
            begin,
            jax.random.split(chain_key, self.steps),
        )
        x = where.position(runs.end.position)

        def expected(decoder: Decoder) -> Float[Array, ""]:
            return jnp.mean(decoder.loglikelihood()(x, images) + log_prior(x))

        value, decoder_gradient = jax.value_and_grad(expected)(decoder)
        row = {
            "objective": value,
            "begin": jnp.mean(begin.logdensity),
            "acceptance": jnp.mean(runs.acceptance),
            "step_size": jnp.mean(self.kernel.step_size(parameters["transitions"])),
        }
        gradient: Parameters = {"transitions": self._tuned(runs)}
        if self.start == "encoder":
            row["scale"] = jnp.exp(parameters["log_scale"])
            gradient["encoder"] = _elbo_gradient(parameters, images, density, elbo_key)
            gradient["log_scale"] = -_discrepancy_slope(begin, runs.end)
        return EncoderEstimate(row, decoder_gradient, gradient)

    def infer(
        self, decoder: Decoder, parameters: Parameters, images: Float[Array, "n pixels"], key: Array
    ) -> Float[Array, "n latents"]:
        """The end x_T of one run of the chain per image."""
        noise_key, chain_key = jax.random.split(key)
        where, begin = self._begin(decoder, parameters, images, noise_key)
        density = where.density(joint(decoder, images))
        end = advance(density, self.kernel, parameters["transitions"], begin, chain_key)[0]
        return where.position(end.position)

    def initial(self, decoder: Decoder, parameters: Parameters, images: Float[Array, "n pixels"]) -> ImageGaussians:
        """P0 of every image: the prior, or the encoder network's Gaussian with its scale times s."""
        encoded = self._encoded(decoder, parameters, images)
        return encoded._replace(log_scale=encoded.log_scale + parameters.get("log_scale", 0.0))

    def coordinates(
        self, decoder: Decoder, parameters: Parameters, images: Float[Array, "n pixels"]
    ) -> ImageCoordinates:
        """The coordinates of every image's chain: x itself, x - mean(y), or (x - mean(y))/scale(y) when whitened."""
        return self._around(self._encoded(decoder, parameters, images))

    def _encoded(self, decoder: Decoder, parameters: Parameters, images: Float[Array, "n pixels"]) -> ImageGaussians:
        """What P0 is made of: the prior, or the encoder network's Gaussian, as a constant."""
        if self.start == "encoder":
            return jax.lax.stop_gradient(parameters["encoder"](images))
        zero = jnp.zeros((images.shape[0], decoder.latents()), images.dtype)
        return ImageGaussians(zero, zero)

    def _around(self, encoded: ImageGaussians) -> ImageCoordinates:
        scale = jnp.exp(encoded.log_scale) if self.whitened else jnp.ones_like(encoded.mean)
        return ImageCoordinates(encoded.mean, scale)

    def _begin(
        self, decoder: Decoder, parameters: Parameters, images: Float[Array, "n pixels"], key: Array
    ) -> tuple[ImageCoordinates, Ensemble]:
        """The chain's coordinates, and a draw of every image's P0 in them."""
        encoded = self._encoded(decoder, parameters, images)
        where = self._around(encoded)
        u = jax.random.normal(key, encoded.mean.shape, images.dtype)
        if self.start == "encoder":
            u = jnp.exp(parameters["log_scale"]) * u
        if not self.whitened:
            u = jnp.exp(encoded.log_scale) * u
        return where, start(where.density(joint(decoder, images)), u)

    def _tuned(self, runs: Runs) -> HMCParams:
        """The direction in which the transitions' parameters should go."""
        still = jax.tree.map(jnp.zeros_like, runs.gradient)
        if self.tuning == "none":
            return still
        if self.tuning == "acceptance":
            return still._replace(log_step=still.log_step + (runs.acceptance - _ACCEPTANCE)[:, None])
        return runs.gradient


def carried(new: HMCParams, old: HMCParams) -> HMCParams:
    """Transitions for a chain of another length: the old ones, then the last of them again and again."""
    steps, have = new.log_step.shape[0], old.log_step.shape[0]
    rows = jnp.minimum(jnp.arange(steps), have - 1)
    return jax.tree.map(lambda leaf: leaf[rows], old)


def _elbo_gradient(
    parameters: Parameters, images: Float[Array, "n pixels"], density: BatchedDensity, key: Array
) -> EncoderNetwork:
    """∂ELBO(P0) along the encoder's weights at s = 1, the decoder held (equation 7)."""
    encoded, pull = jax.vjp(lambda encoder: encoder(images), parameters["encoder"])
    noise = jax.random.normal(key, encoded.mean.shape)
    force = density(encoded.sample(noise))[1] / images.shape[0]
    along_scale = force * noise * jnp.exp(encoded.log_scale) + 1 / images.shape[0]
    return pull(ImageGaussians(force, along_scale))[0]


def _discrepancy_slope(begin: Ensemble, end: Ensemble) -> Float[Array, ""]:
    """∂S/∂log s, with ∂u_T/∂u_0 taken as I and ∂u_0/∂log s = u_0."""
    u, force = end.position[:_PAIRED], end.gradient[:_PAIRED]
    slope = jax.grad(sliced_discrepancy, argnums=1)(jnp.eye(u.shape[1], dtype=u.dtype), u, force)
    return jnp.sum(slope * begin.position[:_PAIRED])
