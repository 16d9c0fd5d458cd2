"""log p(y) of images under a trained decoder, by annealed importance sampling from the prior, with its own error.

For every image C chains go from the prior to the posterior (`methods/hais.py`), and log p(y) is estimated by the
logarithm of their mean weight: in expectation too low, by an amount that vanishes with temperatures and chains. How
much too low is known on images simulated from the model itself, for which an exact draw of the posterior is at hand:
chains from there, run backwards, are in expectation too high (bidirectional Monte Carlo, Wu et al. 2017).
`likelihood_gap` gives the distance between the two, and every likelihood that is reported comes with it.

Temperatures and step sizes are learned on pilot runs. The variance of log-weights is least when temperatures are such
that sd_β(log p(y | x)) dβ is the same between all of them (Gelman & Meng 1998), sd_β being the spread of chains within
an image. There is one step size per temperature and latent: their shape over latents is the width of a Gaussian between
prior and posterior, and their size gives the wanted acceptance at each temperature.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, TypedDict

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree
from scipy.special import logsumexp

from ..initial import DiagonalGaussian
from ..kernels.annealed import Annealed, annealed_ratio, begin
from ..kernels.ensemble import BatchedDensity
from ..methods.hais import HAIS, HAISParams, schedule
from ..runtime.programs import compiled
from ..runtime.validation import choice, settle
from ..target import Density, Layout
from .decoders import Decoder
from .joint import joint

_PILOTS = 12
_PILOT_IMAGES = 16
_PILOT_CHAINS = 4
_SHORTER = 5
"""How many times fewer temperatures a pilot has."""


@dataclass(frozen=True)
class Annealing:
    """Settings of the evaluation; the paper's are 1,000 temperatures, 5 leapfrogs and 100 chains.

    Attributes:
      temperatures: moves between the prior and the posterior.
      leapfrogs: sub-steps per move.
      chains: C, annealed runs per image.
      acceptance: the mean acceptance that step sizes are adapted to.
      schedule: how temperatures are spaced: ``"learned"``, ``"sigmoid"`` or ``"linear"``.
      particles: chains, of several images, that are run together.
    """

    temperatures: int = 2500
    leapfrogs: int = 2
    chains: int = 16
    acceptance: float = 0.75
    schedule: str = "learned"
    particles: int = 2000

    def __post_init__(self) -> None:
        settle(self, schedule=choice("learned", "sigmoid", "linear"))

    @property
    def sampler(self) -> HAIS:
        """The annealed chain of one image, as a method of the library."""
        return HAIS(temperatures=self.temperatures, leapfrogs=self.leapfrogs, refresh="full")


class LikelihoodSummary(TypedDict):
    """Averages over images, for tables."""

    images: int
    log_likelihood: float
    """The mean of log p(y)."""
    error: float
    """Its Monte Carlo standard error, from the chains."""
    error_over_images: float
    """Its standard error from the choice of images."""
    effective: float
    """The mean effective number of chains."""


class Likelihood(NamedTuple):
    """What annealed chains say of every image."""

    value: Float[np.ndarray, "images"]
    """The estimate of log p(y), from below."""
    error: Float[np.ndarray, "images"]
    """The Monte Carlo standard error of ``value``."""
    effective: Float[np.ndarray, "images"]
    """Effective number of the C chains, (Σ w)²/Σ w²."""
    draws: Float[np.ndarray, "chains images latents"]
    """The chains' ends, draws of the posterior with the weights below."""
    log_weight: Float[np.ndarray, "chains images"]
    """The logarithm of every chain's weight."""

    def summary(self) -> LikelihoodSummary:
        """The mean over images, its error from the chains, and that from the choice of images."""
        n = len(self.value)
        return {
            "images": n,
            "log_likelihood": float(self.value.mean()),
            "error": float(np.sqrt(np.sum(self.error**2)) / n),
            "error_over_images": float(self.value.std(ddof=1) / np.sqrt(n)),
            "effective": float(self.effective.mean()),
        }


class LikelihoodGap(NamedTuple):
    """log p(y) of simulated images from below and from above, averaged over images."""

    lower: float
    upper: float
    width: float
    """The mean of upper minus lower."""
    error: float
    """The standard error of ``width``, from the choice of images."""


def log_likelihood(decoder: Decoder, images: np.ndarray, key: Array, annealing: Annealing) -> Likelihood:
    """Estimate log p(y) of every image, ``(n, pixels)``; temperatures and step sizes are learned on a few of them."""
    return _annealed(
        decoder, images, tune_annealing(decoder, images, key, annealing), jax.random.fold_in(key, 1), annealing
    )


def _annealed(decoder: Decoder, images: np.ndarray, params: HAISParams, key: Array, annealing: Annealing) -> Likelihood:
    weights, draws = [], []
    for index, batch, count in _batches(images, annealing):
        args = (decoder, params, batch, jax.random.fold_in(key, index))
        weight, x, _, _ = compiled(_forward, (annealing,), *args)(*args)
        weights.append(np.asarray(weight, np.float64)[:, :count])
        draws.append(np.asarray(x)[:, :count])
    return _likelihood(np.concatenate(weights, axis=1), np.concatenate(draws, axis=1))


def likelihood_gap(decoder: Decoder, key: Array, images: int, annealing: Annealing) -> LikelihoodGap:
    """How far apart lower and upper bounds are on images that the model itself makes up."""
    latent_key, image_key, forward_key, backward_key = jax.random.split(key, 4)
    exact = jax.random.normal(latent_key, (images, decoder.latents()))
    made = np.asarray(decoder.sample(image_key, exact))
    params = tune_annealing(decoder, made, forward_key, annealing)
    lower = _annealed(decoder, made, params, jax.random.fold_in(forward_key, 1), annealing).value
    weights = []
    for index, batch, count in _batches(made, annealing):
        rows = np.arange(index, index + count)
        x = jnp.asarray(np.resize(np.asarray(exact)[rows], (len(batch), exact.shape[1])))
        args = (decoder, params, batch, x, jax.random.fold_in(backward_key, index))
        weight = compiled(_backward, (annealing,), *args)(*args)
        weights.append(np.asarray(weight, np.float64)[:, :count])
    inverse = -np.concatenate(weights, axis=1)
    upper = -_log_mean(inverse)
    gap = upper - lower
    error = float(gap.std(ddof=1) / np.sqrt(len(gap)))
    return LikelihoodGap(float(lower.mean()), float(upper.mean()), float(gap.mean()), error)


def tune_annealing(decoder: Decoder, images: np.ndarray, key: Array, annealing: Annealing) -> HAISParams:
    """Temperatures and step sizes, learned on a few of the images."""
    few = jnp.asarray(np.resize(images, (_PILOT_IMAGES, images.shape[1])), jnp.float32)
    short = max(2, annealing.temperatures // _SHORTER)
    learned = annealing.schedule == "learned"
    schedule_of = partial(schedule, "sigmoid" if learned else annealing.schedule)
    plan = _Plan(schedule_of(short), np.full(short, np.log(0.2)), np.ones(decoder.latents()))
    shorter = Annealing(short, annealing.leapfrogs, _PILOT_CHAINS, annealing.acceptance)
    for k in range(_PILOTS):
        params, pilot_key = plan.params(), jax.random.fold_in(key, k)
        program = compiled(_pilot, (shorter,), decoder, params, few, pilot_key)
        x, acceptance, ratio = (np.asarray(value, np.float64) for value in program(decoder, params, few, pilot_key))
        plan = plan.resized((acceptance - annealing.acceptance) * 2 / np.sqrt(k % (_PILOTS // 3) + 1))
        if k in (_PILOTS // 3 - 1, 2 * _PILOTS // 3 - 1):
            spread = np.clip(x.std(axis=0, ddof=1).mean(axis=0), 0.01, 1.0)
            betas = spaced(plan.betas, np.sqrt(ratio.var(axis=1, ddof=1).mean(axis=1))) if learned else plan.betas
            plan = plan.moved_to(betas)._replace(spread=spread)
    count = np.linspace(0, short, annealing.temperatures + 1)
    betas = np.interp(count, np.arange(short + 1), plan.betas) if learned else schedule_of(annealing.temperatures)
    return plan.moved_to(betas).params()


def spaced(betas: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """Temperatures between which ∫ sd_β dβ is the same, given sd at ``betas[1:]``; some of the old ones mixed in."""
    length = np.concatenate([[0.0], np.cumsum(np.concatenate([spread[:1], spread[:-1]]) * np.diff(betas))])
    position = 0.9 * length / length[-1] + 0.1 * np.linspace(0, 1, len(betas))
    return np.interp(np.linspace(0, 1, len(betas)), position, betas)


class _Plan(NamedTuple):
    """Temperatures, log step sizes at ``betas[1:]``, and the posterior's typical scale along each latent."""

    betas: np.ndarray
    size: np.ndarray
    spread: np.ndarray

    def params(self) -> HAISParams:
        """The chain's parameters; steps are size times the width of a Gaussian between the prior and that scale."""
        precision = 1 + self.betas[1:, None] * (1 / self.spread[None, :] ** 2 - 1)
        zero = jnp.zeros(len(self.spread))
        log_step = self.size[:, None] - 0.5 * np.log(precision)
        betas = jnp.asarray(self.betas, jnp.float32)
        return HAISParams(DiagonalGaussian(zero, zero), jnp.asarray(log_step, jnp.float32), betas)

    def resized(self, change: np.ndarray) -> _Plan:
        """The plan with log step sizes changed by ``change``."""
        return self._replace(size=self.size + change)

    def moved_to(self, betas: np.ndarray) -> _Plan:
        """The same step sizes at other temperatures."""
        return self._replace(betas=betas, size=np.interp(betas[1:], self.betas[1:], self.size))


def _pilot(
    annealing: Annealing, decoder: Decoder, params: HAISParams, images: Array, key: Array
) -> tuple[Array, Array, Array]:
    """Ends of chains, acceptance, and log p(y | x) after every move."""
    return _forward(annealing, decoder, params, images, key, partial(annealed_ratio, params.initial))[1:]


@dataclass(frozen=True, eq=False)
class _Rows(Density):
    """The posteriors of many images as one density for HAIS: row i of an ensemble belongs to ``images[i]``."""

    rows: BatchedDensity = field(kw_only=True)

    def batched(
        self, positions: Float[Array, "particles dim"]
    ) -> tuple[Float[Array, "particles"], Float[Array, "particles dim"]]:
        """log p(x, y) and its force, every row with its own image."""
        return self.rows(positions)


def _density(decoder: Decoder, images: Float[Array, "images pixels"], chains: int) -> Density:
    """The posteriors of all images, once per chain."""

    def alone(position: PyTree) -> Array:
        raise TypeError("these posteriors are evaluated as a whole, one row per chain and image")

    layout = Layout.of(np.zeros(decoder.latents(), np.float32))
    return _Rows(alone, layout, rows=joint(decoder, jnp.tile(images, (chains, 1))))


def _batches(images: np.ndarray, annealing: Annealing) -> Iterator[tuple[int, Array, int]]:
    """Images in batches of one size, the last one filled up; with their first index and how many count."""
    size = min(len(images), max(1, annealing.particles // annealing.chains))
    for first in range(0, len(images), size):
        part = images[first : first + size]
        yield first, jnp.asarray(np.resize(part, (size, images.shape[1])), jnp.float32), len(part)


def _forward(
    annealing: Annealing,
    decoder: Decoder,
    params: HAISParams,
    images: Array,
    key: Array,
    observe: Callable[[Annealed], PyTree] = lambda state: None,
) -> tuple[Float[Array, "chains images"], Float[Array, "chains images latents"], Float[Array, "temperatures"], PyTree]:
    """log w and the end of every chain, the acceptance at every temperature, and what was observed there."""
    start_key, momentum_key, chain_key = jax.random.split(key, 3)
    shape = (annealing.chains, images.shape[0])
    density = _density(decoder, images, annealing.chains)
    state = begin(density.batched, params.initial.sample(start_key, shape[0] * shape[1]), momentum_key)
    end, weight, acceptance, seen = annealing.sampler.forward(density, params, state, chain_key, observe)
    seen = jax.tree.map(lambda value: value.reshape(-1, *shape), seen)
    return weight.reshape(shape), end.position.reshape(*shape, -1), acceptance, seen


def _backward(
    annealing: Annealing, decoder: Decoder, params: HAISParams, images: Array, exact: Array, key: Array
) -> Array:
    """log w of every backward chain from an exact draw."""
    density = _density(decoder, images, annealing.chains)
    tiled = jnp.tile(exact, (annealing.chains, 1))
    return annealing.sampler.backward(density, params, tiled, key).reshape(annealing.chains, -1)


def _log_mean(values: np.ndarray) -> np.ndarray:
    return np.asarray(logsumexp(values, axis=0) - np.log(len(values)))


def _likelihood(log_weight: np.ndarray, draws: np.ndarray) -> Likelihood:
    weight = np.exp(log_weight - log_weight.max(axis=0))
    error = weight.std(axis=0, ddof=1) / weight.mean(axis=0) / np.sqrt(len(weight))
    effective = weight.sum(axis=0) ** 2 / (weight**2).sum(axis=0)
    return Likelihood(_log_mean(log_weight), error, effective, draws, log_weight)
