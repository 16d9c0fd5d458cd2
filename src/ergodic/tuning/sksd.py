"""The scale of P0 by a sliced Stein discrepancy, for `HEI(scale="sksd")`: the follow-up's (Campbell et al. 2021).

With the tuned steps frozen, P0 is stretched by one number, x_0 = μ0 + s σ0 ε, chosen so that x_T is closest to π in the
max-sliced kernelised Stein discrepancy (Gong, Li & Hernández-Lobato 2021)

    S(s) = max_g Σ_i E_{x,y ~ P_T}[ f_i(x) f_i(y) k + g_ii (f_i(x) ∂_v k + f_i(y) ∂_u k) + g_ii² ∂_u ∂_v k ]

where f = ∂log π, each coordinate i has a slice g_i (a unit vector, e_i at first), u = x·g_i and v = y·g_i, and

    k(u, v) = exp(-(u - v)²/b²),    b = 2 √(median((u - v)²)/2)

The follow-up descends along s by Adam, beside the tuning of the steps, with ∂x_T/∂s through a frozen force, and
estimates S by a V-statistic. Here it is done otherwise. A frozen force says ∂x_T/∂x_0 = I, where a chain that works
forgets its start; and s is one number, so it is searched for: from s = 1 by factors of √2 down or up for as long as S
falls, the same noise for all, then half a factor to either side. The pair of a particle with itself is left out (a
U-statistic), since its share of a V-statistic, about E[f²]/n, is least for a P0 that is too narrow. And S is a noisy
number: slices climb on one group of particles and are judged on eleven others, and P0 stays as it is unless the best s
is better than 1 by three standard errors.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ..chain import ChainParams, simulate
from ..runtime.programs import Cost, compiled
from ..target import Density
from .tunable import TunableKernel

SCALES = ("sksd",)
_FACTOR = math.sqrt(2)
_FARTHEST = 12
"""How many factors the search goes from 1, at most."""
_GROUPS = 12
_PARTICLES = 250
"""Particles in each group."""
_CLIMBS = 4
_RATE = 0.4
_PAIRED = 50
_ERRORS = 3.0


def choose_scale(
    density: Density, kernel: TunableKernel, params: ChainParams, key: Array
) -> tuple[ChainParams, dict[str, np.ndarray], Cost]:
    """Find the best s; returns the chain with P0 stretched by it, s and what was tried for the record, and the cost."""
    dtype = params.initial.mean.dtype
    program = compiled(_evaluate, (density, kernel), params, jnp.zeros((), dtype), key)
    tried: dict[float, np.ndarray] = {}

    def look(scale: float) -> float:
        """The discrepancy S at s; infinite where particles are not usable."""
        if scale not in tried:
            tried[scale] = np.asarray(program(params, jnp.asarray(math.log(scale), dtype), key), np.float64)
        value = float(tried[scale].mean())
        return value if math.isfinite(value) else math.inf

    best = 1.0
    for factor in (1 / _FACTOR, _FACTOR):
        for _ in range(_FARTHEST):
            if look(best * factor) >= look(best):
                break
            best *= factor
    best = min((best, best / math.sqrt(_FACTOR), best * math.sqrt(_FACTOR)), key=look)
    if not better(tried[best], tried[1.0]):
        best = 1.0
    scales = sorted(tried)
    record = {
        "scale": np.array([best]),
        "sksd_scale": np.array(scales),
        "sksd": np.array([look(scale) for scale in scales]),
    }
    depth = len(tried) * (1 + params.steps * kernel.gradients)
    return stretched(params, math.log(best)), record, Cost(depth * _GROUPS * _PARTICLES, depth)


def better(new: np.ndarray, old: np.ndarray) -> bool:
    """Whether S is smaller by three standard errors, given as one value per group, the same groups in both.

    The error is that of the new S or of the difference, the larger; the latter's from the median absolute deviation,
    so that a particle far out in one group is evidence and not noise.
    """
    if not np.all(np.isfinite(old)):
        return bool(np.all(np.isfinite(new)))
    difference = new - old
    spread = 1.4826 * np.median(np.abs(difference - np.median(difference)))
    error = max(float(np.std(new, ddof=1)), float(spread)) / math.sqrt(len(new))
    return bool(difference.mean() < -_ERRORS * error)


def stretched(params: ChainParams, log_scale: float | Float[Array, ""]) -> ChainParams:
    """The same chain from N(μ0, (s σ0)²)."""
    return params._replace(initial=params.initial._replace(log_scale=params.initial.log_scale + log_scale))


def climb(x: Float[Array, "particles dim"], force: Float[Array, "particles dim"]) -> Float[Array, "dim dim"]:
    """Slices that make the discrepancy large: four steps of length 0.4 uphill from the coordinate axes."""

    def step(_: Int[Array, ""], slices: Array) -> Array:
        return _unit(slices + _RATE * _unit(jax.grad(sliced_discrepancy)(slices, x, force)))

    return jax.lax.fori_loop(0, _CLIMBS, step, jnp.eye(x.shape[1], dtype=x.dtype))


def sliced_discrepancy(
    slices: Float[Array, "dim dim"], x: Float[Array, "particles dim"], force: Float[Array, "particles dim"]
) -> Float[Array, ""]:
    """The sum in S for given slices, a row each, which are made unit vectors."""
    slices, count = _unit(slices), x.shape[0]
    along = slices @ x.T  # (slice, particle)

    def one(projected: Array, force: Array, aligned: Array) -> Array:
        """The term of one coordinate: its particles' projections and forces, and g_ii."""
        difference = projected[:, None] - projected[None, :]
        few = jax.lax.stop_gradient(difference[:_PAIRED, :_PAIRED])
        width = 2 * jnp.median(few**2) + 1e-12  # b²
        kernel = jnp.exp(-(difference**2) / width)
        along_u = -2 * difference / width  # ∂_u k = along_u k = -∂_v k
        crossed = 2 / width - along_u**2  # ∂_u ∂_v k over k
        terms = force[:, None] * force[None, :] + aligned * along_u * (force[None, :] - force[:, None])
        pairs = (terms + aligned**2 * crossed) * kernel
        return (jnp.sum(pairs) - jnp.trace(pairs)) / (count * (count - 1))

    return jnp.sum(jax.lax.map(lambda row: one(*row), (along, force.T, jnp.diagonal(slices))))


def _unit(rows: Float[Array, "dim dim"]) -> Float[Array, "dim dim"]:
    return rows / jnp.sqrt(jnp.sum(rows**2, axis=1, keepdims=True) + 1e-20)


def _evaluate(
    density: Density, kernel: TunableKernel, params: ChainParams, log_scale: Float[Array, ""], key: Array
) -> Float[Array, "judges"]:
    """S at one s, by each group but the first. Particles that are not usable make it not finite."""
    end = simulate(density.batched, kernel, stretched(params, log_scale), key, _GROUPS * _PARTICLES)[0]
    ok = end.usable()[:, None]
    x = jnp.where(ok, end.position, jnp.nan).reshape(_GROUPS, _PARTICLES, -1)
    force = end.gradient.reshape(_GROUPS, _PARTICLES, -1)
    slices = climb(x[0], force[0])
    return jax.lax.map(lambda group: sliced_discrepancy(slices, *group), (x[1:], force[1:]))
