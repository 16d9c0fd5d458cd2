"""Do further transitions change anything? If the draws are from π, no transition that leaves π unchanged can.

Every draw x is moved once by a Metropolis-corrected trajectory, to x', and f(x') - f(x) is looked at for many f. HMC is
reversible: with x from π, (x, x') and (x', x) have one distribution, so the differences are symmetric about 0 and their
p-value is exact for any number of draws and any tails (`hypotheses.symmetric`). Trajectories of several lengths are
tried: short ones see what is wrong locally, long ones what is wrong with the spread.

The probe is not the sampler's own kernel: it moves in whitened coordinates with a step size found on the draws, so a
faulty or badly tuned kernel cannot vouch for itself.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ..kernels import HMC, Ensemble, HMCParams, Info, start
from ..programs import compiled
from ..target import Density
from .functions import Frame

_PILOTS = 256
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
    step_key, *keys = jax.random.split(key, 4)
    frame_arrays = Frame(*(jnp.asarray(part, positions.dtype) for part in frame))  # type: ignore[arg-type]
    pilot = jnp.asarray(positions[:: max(1, len(positions) // _PILOTS)][:_PILOTS])

    def move(x: Array, step: float, leapfrogs: int, key: Array) -> tuple[Ensemble, Info]:
        args = (x, frame_arrays, jnp.asarray(step, x.dtype), jnp.asarray(leapfrogs, jnp.int32), key)
        return compiled(_probe, (density,), *args)(*args)

    tried = 0
    for step in _STEPS:
        tried += 1
        _, info = move(pilot, step, 3, step_key)
        if float(jnp.mean(info.acceptance)) >= _ACCEPTANCE:
            break
    else:
        return Probes(float(step), (), len(pilot) * 4 * tried)
    longest = int(np.clip(round(_QUARTER / step), 1, _LONGEST))
    lengths = sorted({1, round(np.sqrt(longest)), longest})
    found = []
    for leapfrogs, key in zip(lengths, keys, strict=False):
        ensemble, info = jax.device_get(move(jnp.asarray(positions), step, leapfrogs, key))
        found.append(Probe(leapfrogs, ensemble.position, ensemble.logdensity, info.acceptance))
    gradients = len(pilot) * 4 * tried + len(positions) * (len(lengths) + sum(lengths))
    return Probes(float(step), tuple(found), gradients)


def _probe(
    density: Density,
    positions: Float[Array, "particles dim"],
    frame: Frame,
    step: Float[Array, ""],
    leapfrogs: Int[Array, ""],
    key: Array,
) -> tuple[Any, Info]:
    """One HMC transition in z = A⁻¹ (x - m): log π*(m + A z) has the force A' ∂log π*."""
    centre, scale, inverse = (jnp.asarray(part) for part in frame)
    dim = positions.shape[1]

    def whitened(z: Array) -> tuple[Array, Array]:
        value, gradient = density.batched(centre[None, :] + z @ scale.T)
        return value, gradient @ scale

    z = (positions - centre[None, :]) @ inverse.T
    before = start(whitened, z)
    params = HMCParams(jnp.full(dim, jnp.log(step)), jnp.zeros(dim, z.dtype))
    after, info = HMC().transition(whitened, params, before, key, leapfrogs)
    moved = jnp.where(info.accepted[:, None], centre[None, :] + after.position @ scale.T, positions)
    return Ensemble(moved, after.logdensity, after.gradient), info
