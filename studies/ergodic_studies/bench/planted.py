"""Samplers whose faults are known, and sound ones: what a certificate is calibrated on.

Every case is a real chain of HMC transitions (an `HEI` sampler with parameters set by hand) with one thing wrong, or,
where the fault is in the draws themselves, exact draws that were spoilt. Names are those of the table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from ergodic.chain import ChainParams
from ergodic.initial import DiagonalGaussian
from ergodic.kernels import HMC, Ensemble, HMCParams, Info
from ergodic.kernels.ensemble import BatchedDensity, select
from ergodic.methods import HEI
from ergodic.protocols import Independent
from ergodic.runtime.drawing import Batch
from ergodic.sampler import Sampler
from ergodic.target import Density, Target

Draw = Callable[[Array, int, int], Array]
"""``draw(key, particles, dim)``."""


@dataclass(frozen=True)
class Spoilt(HEI):
    """Draws that come from ``draws``, beside a chain that is as it should be."""

    draws: Draw = lambda key, n, dim: jax.random.normal(key, (n, dim))

    name: ClassVar[str] = "Spoilt"

    def simulate(self, density: Density, params: ChainParams, key: Array, particles: int) -> Batch:
        """The spoilt draws, with their log-density."""
        position = self.draws(key, particles, params.initial.mean.shape[0])
        return Batch(position, jax.vmap(density)(position), {}, {})

    def batches(
        self, target: Target, params: ChainParams, key: Array, start: int, count: int, size: int
    ) -> Iterator[Batch]:
        """Batches of these draws, not of the chain's."""
        return Independent.batches(self, target, params, key, start, count, size)


class WrongAcceptance(HMC):
    """HMC whose Metropolis test takes the momentum to have 1.5 times the variance it was drawn with."""

    def transition(
        self,
        density: BatchedDensity,
        params: HMCParams,
        ensemble: Ensemble,
        key: Array,
        leapfrogs: Int[Array, ""] | None = None,
    ) -> tuple[Ensemble, Info]:
        """Move the ensemble once, wrongly: ΔH is short of a third of the change in kinetic energy."""
        free, info = HMC(self.leapfrogs, adjusted=False).transition(density, params, ensemble, key, leapfrogs)
        potential = ensemble.logdensity - free.logdensity
        kinetic = info.energy_error - potential
        wrong = potential + kinetic / 1.5
        u = jax.random.uniform(jax.random.fold_in(key, 1), wrong.shape, wrong.dtype)
        accepted = (jnp.log(u) < -wrong) & ~info.diverged
        return select(accepted, free, ensemble), info._replace(
            acceptance=jnp.exp(jnp.minimum(-wrong, 0)), accepted=accepted
        )


@dataclass(frozen=True)
class Faulty(HEI):
    """A chain of `WrongAcceptance`."""

    name: ClassVar[str] = "Faulty"

    @property
    def kernel(self) -> HMC:
        """The kernel with the wrong acceptance."""
        return WrongAcceptance(leapfrogs=self.leapfrogs)


class Case(NamedTuple):
    """One row of the calibration: a sampler, and whether it is sound."""

    name: str
    kind: str
    """``"sound"``, ``"fault"``, or ``"limit"``: a fault at the edge of what can be seen, or beyond it."""
    sampler: Callable[[int], Sampler]
    """The sampler in so many dimensions."""


def chain(
    method: HEI,
    target: Target,
    *,
    mean: float | np.ndarray = 0.0,
    scale: float = 1.6,
    steps: int = 15,
    time: float = 1.6,
) -> Sampler:
    """A sampler with hand-set steps: trajectories of about ``time``, of 5 leapfrogs, varied by half from step to step.

    The leapfrog's error grows with the dimension, so longer trajectories are cut into more steps of the chain.
    """
    dim, dtype = target.dim, target.dtype
    rng = np.random.default_rng(dim)
    size = min(time / 5, 0.9 * dim**-0.25) * np.exp(rng.uniform(-0.4, 0.2, (steps, 1)))
    log_step = jnp.asarray(np.log(size) + np.zeros(dim), dtype)
    centre = jnp.asarray(np.zeros(dim) + mean, dtype)
    initial = DiagonalGaussian(centre, jnp.full(dim, math.log(scale), dtype))
    return Sampler(target, method, ChainParams(initial, HMCParams(log_step, jnp.zeros_like(log_step))))


def gaussian(dim: int) -> Target:
    """The standard Gaussian N(0, I)."""
    return Target(lambda x: -0.5 * jnp.sum(x**2), like=jnp.zeros(dim), name="gaussian")


def correlated(dim: int) -> Target:
    """A rotated Gaussian whose variances run from 0.2 to 1."""
    rotation = np.linalg.qr(np.random.default_rng(dim).normal(size=(dim, dim)))[0]
    root = jnp.asarray(rotation / np.sqrt(np.linspace(0.2, 1, dim)), jnp.float32)
    return Target(lambda x: -0.5 * jnp.sum((x @ root) ** 2), like=jnp.zeros(dim), name="correlated gaussian")


def skewed(dim: int) -> Target:
    """Independent log-Gamma(2) coordinates: an exponential tail to the left, a cliff to the right."""
    return Target(lambda x: jnp.sum(2 * x - jnp.exp(x)), like=jnp.zeros(dim), name="log-gamma")


_NU = 5.0


def student(dim: int) -> Target:
    """Independent Student-t coordinates with 5 degrees of freedom."""
    return Target(lambda x: -0.5 * (_NU + 1) * jnp.sum(jnp.log1p(x**2 / _NU)), like=jnp.zeros(dim), name="student-t")


def two_modes(dim: int, weight: float, distance: float = 8.0) -> tuple[Target, np.ndarray]:
    """Two unit Gaussians at ±distance/2 along a random direction; also the place of the first, which has ``weight``."""
    direction = np.random.default_rng(dim + 1).normal(size=dim)
    place = (0.5 * distance * direction / np.linalg.norm(direction)).astype(np.float32)
    at = jnp.asarray(place)
    logs = jnp.asarray(np.log([weight, 1 - weight]), jnp.float32)

    def logdensity(x: Array) -> Array:
        return jax.nn.logsumexp(logs - 0.5 * jnp.stack([jnp.sum((x - at) ** 2), jnp.sum((x + at) ** 2)]))

    return Target(logdensity, like=jnp.zeros(dim), name="two modes"), place


def _student_draws(key: Array, n: int, dim: int) -> Array:
    return jax.random.t(key, _NU, (n, dim), jnp.float32)


def _cut_draws(key: Array, n: int, dim: int) -> Array:
    """Student-t coordinates cut at their 0.5 % and 99.5 % quantiles: 1 % of the mass of each is lost."""
    from scipy import stats

    limit = float(stats.t.ppf(0.995, _NU))
    tries = jax.random.t(key, _NU, (6, n, dim), jnp.float32)
    chosen = jnp.argmax(jnp.abs(tries) < limit, axis=0)
    return jnp.take_along_axis(tries, chosen[None], axis=0)[0]


def _wide_in_one(key: Array, n: int, dim: int) -> Array:
    return jax.random.normal(key, (n, dim), jnp.float32) * jnp.where(jnp.arange(dim) == 0, 1.1, 1.0)[None, :]


_PLAIN = HEI(steps=15)


def _scaled(factor: float) -> Draw:
    return lambda key, n, dim: factor * jax.random.normal(key, (n, dim), jnp.float32)


def _modes(dim: int, weight: float, *, at: float, scale: float, distance: float = 8.0) -> Sampler:
    target, place = two_modes(dim, weight, distance)
    return chain(_PLAIN, target, mean=at * place, scale=scale)


_WIDE, _WIDER = _scaled(1.1), _scaled(1.03)

CASES = (
    Case("Gaussian", "sound", lambda d: chain(_PLAIN, gaussian(d))),
    Case("rotated Gaussian", "sound", lambda d: chain(HEI(steps=45), correlated(d), steps=45, time=1.2)),
    Case(
        "skewed (log-Gamma)",
        "sound",
        lambda d: chain(HEI(steps=40), skewed(d), mean=0.4, scale=0.7, steps=40, time=0.8),
    ),
    Case(
        "heavy tails (Student-t), exact draws",
        "sound",
        lambda d: chain(Spoilt(steps=40, draws=_student_draws), student(d), steps=40, time=2.5),
    ),
    Case("chain too short", "fault", lambda d: chain(HEI(steps=1), gaussian(d), steps=1, time=0.8)),
    Case("P0 too narrow", "fault", lambda d: chain(HEI(steps=5), gaussian(d), scale=0.1, steps=5, time=0.5)),
    Case("P0 displaced", "fault", lambda d: chain(HEI(steps=5), gaussian(d), mean=3.0, scale=1.0, steps=5, time=0.5)),
    Case("one of two modes missed", "fault", lambda d: _modes(d, 0.5, at=1.0, scale=1.2)),
    Case("modes .5/.5 that are .7/.3", "fault", lambda d: _modes(d, 0.7, at=0.0, scale=4.0)),
    Case("scale wrong by 10 %", "fault", lambda d: chain(Spoilt(steps=15, draws=_WIDE), gaussian(d))),
    Case(
        "scale wrong by 10 % in one coordinate",
        "fault",
        lambda d: chain(Spoilt(steps=15, draws=_wide_in_one), gaussian(d)),
    ),
    Case("wrong momentum variance in the acceptance", "fault", lambda d: chain(Faulty(steps=15), gaussian(d))),
    Case(
        "heavy tails cut off (1 % a coordinate)",
        "fault",
        lambda d: chain(Spoilt(steps=40, draws=_cut_draws), student(d), steps=40, time=2.5),
    ),
    Case("scale wrong by 3 %", "limit", lambda d: chain(Spoilt(steps=15, draws=_WIDER), gaussian(d))),
    Case("one of two modes missed, 16 sd away", "limit", lambda d: _modes(d, 0.5, at=1.0, scale=1.2, distance=16.0)),
)
