"""The ergodic approximation P_T (equation 3): P0 followed by T transitions, each with parameters of its own.

    p_T(x_T; φ0, φ) = ∫ Π_t M(x_t | x_{t-1}; φ_t) p0(x_0; φ0) dx_{0:T-1}

A chain cannot evaluate p_T; it can draw from it, one short run per draw, and follow E_{p_t}[log π*] on the way.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from .kernels import Ensemble, Info, start
from .kernels.ensemble import BatchedDensity
from .protocols import Kernel


class ChainParams(NamedTuple):
    """The ergodic parameters (φ0, φ)."""

    initial: PyTree
    """φ0: a `DiagonalGaussian`, or what else can be drawn from."""
    transitions: PyTree
    """φ: the kernel's parameters, every leaf with a leading axis of T steps."""

    @property
    def steps(self) -> int:
        """T, the number of transitions."""
        return int(jax.tree_util.tree_leaves(self.transitions)[0].shape[0])


class Trace(NamedTuple):
    """Averages over the particles at every t: how the chain converges."""

    expected_logdensity: Float[Array, "steps_plus_one"]
    """E_{p_t}[log π*] for t = 0..T, over particles where it is finite."""
    acceptance: Float[Array, "steps"]
    """Mean acceptance probability of transition t = 1..T."""
    divergence: Float[Array, "steps"]
    """Fraction of particles whose transition t diverged."""


class RunStats(NamedTuple):
    """One value per particle, over its whole run."""

    acceptance_rate: Float[Array, "particles"]
    """Mean acceptance probability over the T transitions."""
    diverging: Bool[Array, "particles"]
    """Whether any of the T transitions diverged."""
    energy_error: Float[Array, "particles"]
    """Energy error of the last transition."""


def advance(
    density: BatchedDensity, kernel: Kernel, transitions: PyTree, ensemble: Ensemble, key: Array
) -> tuple[Ensemble, RunStats, Trace]:
    """Move an ensemble through every transition by one scan: T L gradients per particle."""
    steps = jax.tree_util.tree_leaves(transitions)[0].shape[0]
    particles = ensemble.position.shape[0]
    dtype = ensemble.position.dtype

    def step(
        carry: tuple[Ensemble, RunStats], inputs: tuple[PyTree, Array]
    ) -> tuple[tuple[Ensemble, RunStats], PyTree]:
        ensemble, stats = carry
        params, key = inputs
        ensemble, info = kernel.transition(density, params, ensemble, key)
        stats = RunStats(
            stats.acceptance_rate + info.acceptance / steps,
            stats.diverging | info.diverged,
            info.energy_error,
        )
        return (ensemble, stats), _averages(ensemble, info)

    nothing = RunStats(jnp.zeros(particles, dtype), jnp.zeros(particles, bool), jnp.zeros(particles, dtype))
    keys = jax.random.split(key, steps)
    (end, stats), averages = jax.lax.scan(step, (ensemble, nothing), (transitions, keys))
    return end, stats, _trace(ensemble, averages)


def path(
    density: BatchedDensity, kernel: Kernel, params: ChainParams, key: Array, particles: int
) -> tuple[Float[Array, "steps_plus_one particles dim"], Trace]:
    """Every state of ``particles`` runs, x_0 to x_T, for looking at; the runs that `simulate` makes for this key."""
    start_key, chain_key = jax.random.split(key)
    ensemble = start(density, params.initial.sample(start_key, particles))

    def step(ensemble: Ensemble, inputs: tuple[PyTree, Array]) -> tuple[Ensemble, PyTree]:
        ensemble, info = kernel.transition(density, inputs[0], ensemble, inputs[1])
        return ensemble, (ensemble.position, _averages(ensemble, info))

    keys = jax.random.split(chain_key, params.steps)
    _, (positions, averages) = jax.lax.scan(step, ensemble, (params.transitions, keys))
    return jnp.concatenate([ensemble.position[None], positions]), _trace(ensemble, averages)


def simulate(
    density: BatchedDensity, kernel: Kernel, params: ChainParams, key: Array, particles: int
) -> tuple[Ensemble, RunStats, Trace]:
    """Draw ``particles`` independent runs of the chain: the final ensemble is a sample of P_T."""
    start_key, chain_key = jax.random.split(key)
    ensemble = start(density, params.initial.sample(start_key, particles))
    return advance(density, kernel, params.transitions, ensemble, chain_key)


def _averages(ensemble: Ensemble, info: Info) -> tuple[Array, Array, Array]:
    """What the trace keeps of one transition."""
    dtype = ensemble.position.dtype
    return _expected(ensemble), jnp.mean(info.acceptance), jnp.mean(info.diverged.astype(dtype))


def _trace(begin: Ensemble, averages: tuple[Array, Array, Array]) -> Trace:
    """The averages of T transitions, after that of the start."""
    logdensity, acceptance, divergence = averages
    return Trace(jnp.concatenate([_expected(begin)[None], logdensity]), acceptance, divergence)


def _expected(ensemble: Ensemble) -> Float[Array, ""]:
    inside = jnp.isfinite(ensemble.logdensity)
    count = jnp.sum(inside.astype(ensemble.logdensity.dtype))
    return jnp.sum(jnp.where(inside, ensemble.logdensity, 0)) / count
