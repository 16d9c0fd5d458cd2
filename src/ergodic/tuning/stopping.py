"""Early stopping on a Stein residual, for `HEI(early_stopping=True)`; not the paper's.

The EMLBO goes on rising after the chain is at its best (docs/results.md), so it cannot say when to stop. Stein's
identities can: under π, for every coordinate i and any centre m,

    E[(x_i - m_i) ∂_i log π] = -1,    E[∂_i log π] = 0

Every five iterations they are tried on the ends x_T of 1,000 held-out particles, the same noise each time:

    R = 1/d Σ_i ρ( (E[(x_i - m_i) ∂_i log π] + 1)² ) + ρ( σ_i² E[∂_i log π]² ),    ρ(q) = q/(1 + q)

with m and σ the particles' own mean and spread. A squared average of n terms is too large by their variance over n,
which is taken off. ρ keeps a coordinate that is far off from drowning the others. The parameters with the least R are
kept; five looks without a smaller one end the tuning.

R sees a chain that is too narrow or too wide along a coordinate or off centre. It is blind to the weights of modes
far apart, and to correlations.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ..chain import ChainParams, simulate
from ..runtime.programs import Cost, compiled
from ..target import Density
from .tunable import TunableKernel

_EVERY = 5
_PATIENCE = 5
_PARTICLES = 1000


class EarlyStopping:
    """Looks at a chain while it is tuned, and keeps the best; a watch as `ascent.maximise` takes it."""

    def __init__(self, density: Density, kernel: TunableKernel, key: Array):
        self._static, self._key = (density, kernel, _PARTICLES), key
        self._best: ChainParams | None = None
        self.iterations: list[int] = []
        """The numbers of iterations after which it looked."""
        self.residuals: list[float] = []
        """The residual R that each look found."""

    def __call__(self, done: int, params: ChainParams) -> bool:
        """Whether to stop after ``done`` iterations."""
        if done % _EVERY:
            return False
        program = compiled(_look, self._static, params, self._key)
        residual = float(program(params, self._key))
        if not np.isfinite(residual):
            residual = float("inf")
        if self._best is None or residual < min(self.residuals):
            self._best = params
        self.iterations.append(done)
        self.residuals.append(residual)
        return len(self.residuals) - 1 - int(np.argmin(self.residuals)) >= _PATIENCE

    def best(self, last: ChainParams) -> ChainParams:
        """The parameters with the least residual; the last ones where it never looked."""
        return last if self._best is None else self._best

    def record(self) -> dict[str, np.ndarray]:
        """The looks and what they found, for the training record."""
        return {"stein_iteration": np.array(self.iterations), "stein_residual": np.array(self.residuals)}

    def cost(self, depth: int) -> Cost:
        """What all looks cost, at ``depth`` gradients per particle and look."""
        looks = len(self.residuals)
        return Cost(looks * depth * _PARTICLES, looks * depth)


def stein_residual(
    x: Float[Array, "particles dim"], force: Float[Array, "particles dim"], ok: Bool[Array, "particles"]
) -> Float[Array, ""]:
    """The residual R of particles with their forces, over those that are usable."""
    count = jnp.maximum(jnp.sum(ok.astype(x.dtype)), 2)

    def mean(values: Array) -> Array:
        return jnp.sum(jnp.where(ok[:, None], values, 0), axis=0) / count

    def squared(values: Array) -> Array:
        """The square of the expectation, without bias."""
        expected = mean(values)
        return expected**2 - mean((values - expected[None, :]) ** 2) / (count - 1)

    centred = x - mean(x)[None, :]
    spread = jnp.sqrt(mean(centred**2))
    return jnp.mean(_bounded(squared(centred * force + 1)) + _bounded(squared(spread[None, :] * force)))


def _bounded(q: Float[Array, "dim"]) -> Float[Array, "dim"]:
    """ρ(q) = q/(1 + q); an estimate below 0 stays as it is."""
    return q / (1 + jnp.maximum(q, 0))


def _look(density: Density, kernel: TunableKernel, particles: int, params: ChainParams, key: Array) -> Float[Array, ""]:
    end = simulate(density.batched, kernel, params, key, particles)[0]
    return stein_residual(end.position, end.gradient, end.usable())
