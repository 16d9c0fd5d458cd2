"""Do further transitions change anything? If the draws are from π, no transition that leaves π unchanged can.

Every draw x is moved once by a Metropolis-corrected trajectory, to x', and f(x') - f(x) is looked at for many f. HMC is
reversible: with x from π, (x, x') and (x', x) have one distribution, so the differences are symmetric about 0 and their
p-value is exact for any number of draws and any tails (`hypotheses.symmetric`). Trajectories of several lengths are
tried: short ones see what is wrong locally, long ones what is wrong with the spread.

The probe is not the sampler's own kernel: it moves in whitened coordinates with a step size found on the draws, so a
faulty or badly tuned kernel cannot vouch for itself.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ..kernels import HMC, HMCParams, start
from ..runtime.programs import compiled
from ..target import Density
from .functions import Frame

_BLOCK = 512
_STEPS = 2.0 ** -np.arange(-1, 9)  # whitened: 2 is the stability limit of a Gaussian
_ACCEPTANCE = 0.75
_QUARTER = np.pi / 2
_LONGEST = 16


class Probe(NamedTuple):
    """Where one trajectory length took the draws."""

    leapfrogs: int
    position: np.ndarray
    logdensity: np.ndarray
    acceptance: np.ndarray


class Probes(NamedTuple):
    """Step size (in whitened coordinates), what each length did, and what it all cost."""

    step: float
    probes: tuple[Probe, ...]
    gradients: int

    @property
    def acceptance(self) -> float:
        """The mean acceptance over all probes."""
        return float(np.mean([probe.acceptance.mean() for probe in self.probes])) if self.probes else 0.0


def probe(density: Density, positions: np.ndarray, frame: Frame, key: Array) -> Probes:
    """Move every draw once by trajectories of several lengths, up to a quarter period."""
    frame_arrays = Frame(*(np.asarray(part, positions.dtype) for part in frame))
    pilot = positions[:: max(1, len(positions) // _BLOCK)][:_BLOCK]

    def move(x: np.ndarray, step: float, leapfrogs: int, key: Array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Some draws at a time, always as many, so that there is one program."""
        parts = []
        for at in range(0, len(x), _BLOCK):
            block = np.resize(x[at : at + _BLOCK], (_BLOCK, x.shape[1]))
            args = (block, frame_arrays, np.asarray(step, x.dtype), np.int32(leapfrogs), key, np.int32(at))
            parts.append(compiled(_probe, (density,), *args, brief=True)(*args))
        joined = (np.concatenate(columns)[: len(x)] for columns in zip(*jax.device_get(parts), strict=True))
        return tuple(joined)  # type: ignore[return-value]

    tried = 0
    for step in _STEPS:
        tried += 1
        _, _, acceptance = move(pilot, step, 3, jax.random.fold_in(key, 0))
        if acceptance.mean() >= _ACCEPTANCE:
            break
    else:
        return Probes(float(step), (), len(pilot) * 4 * tried)
    longest = int(np.clip(round(_QUARTER / step), 1, _LONGEST))
    lengths = sorted({1, round(np.sqrt(longest)), longest})
    found = []
    for leapfrogs in lengths:
        found.append(Probe(leapfrogs, *move(positions, step, leapfrogs, jax.random.fold_in(key, leapfrogs))))
    gradients = len(pilot) * 4 * tried + len(positions) * (len(lengths) + sum(lengths))
    return Probes(float(step), tuple(found), gradients)


def _probe(
    density: Density,
    positions: Float[Array, "particles dim"],
    frame: Frame,
    step: Float[Array, ""],
    leapfrogs: Int[Array, ""],
    key: Array,
    at: Int[Array, ""],
) -> tuple[Array, Array, Array]:
    """One HMC transition in z = A⁻¹ (x - m): log π*(m + A z) has the force A' ∂log π*."""
    centre, scale, inverse = (jnp.asarray(part) for part in frame)
    dim = positions.shape[1]

    def whitened(z: Array) -> tuple[Array, Array]:
        value, gradient = density.batched(centre[None, :] + z @ scale.T)
        return value, gradient @ scale

    z = (positions - centre[None, :]) @ inverse.T
    before = start(whitened, z)
    params = HMCParams(jnp.full(dim, jnp.log(step)), jnp.zeros(dim, z.dtype))
    after, info = HMC().transition(whitened, params, before, jax.random.fold_in(key, at), leapfrogs)
    moved = jnp.where(info.accepted[:, None], centre[None, :] + after.position @ scale.T, positions)
    return moved, after.logdensity, info.acceptance
