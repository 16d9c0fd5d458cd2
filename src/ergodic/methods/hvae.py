"""Hamiltonian VI with one momentum (Caterini, Doucet & Sejdinovic 2018), for any target: `tuning/hvae_elbo.py`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from ..initial import DiagonalGaussian
from ..kernels import Ensemble, start
from ..kernels.ensemble import BatchedDensity
from ..protocols import Fact, FixedShapes, Independent
from ..runtime.drawing import Batch
from ..runtime.programs import Stopwatch
from ..runtime.validation import Rule, choice
from ..sampler import Sampler
from ..target import Density, Target
from ..tuning.ascent import ADAM, check_adam, train
from ..tuning.checks import require_usable
from ..tuning.hvae_elbo import TEMPERINGS, hvae_bound
from .from_gaussian import FromGaussian


class HVAEParams(NamedTuple):
    """q0 and the leapfrog's step size."""

    initial: DiagonalGaussian
    log_step: Float[Array, "dim"]


@dataclass(frozen=True)
class HVAE(FromGaussian, FixedShapes, Independent):
    """Settings of Hamiltonian VI with one momentum.

    Attributes:
      leapfrogs: K.
      tempering: ``"none"`` (the ergodic paper's variant) or ``"fixed"``.
      temperature: T0, with fixed tempering.
      iterations, particles, learning_rate, adam: of the optimisation.
      step_size: the step size it starts with.
    """

    leapfrogs: int = 20
    tempering: str = "none"
    temperature: float = 2.0
    iterations: int = 1000
    particles: int = 100
    learning_rate: float = 0.02
    step_size: float = 0.05
    adam: tuple[float, float, float] = ADAM

    name: ClassVar[str] = "HVAE"
    title: ClassVar[str] = "Hamiltonian VI with one momentum (Caterini et al. 2018)"
    rules: ClassVar[Mapping[str, Rule]] = {"tempering": choice(*TEMPERINGS), "adam": check_adam}

    def depth(self, params: PyTree) -> int:
        """K + 1: the gradients that one draw costs."""
        return 1 + self.leapfrogs

    def begin(self, target: Target, key: Array) -> HVAEParams:
        """The parameters before tuning."""
        step = jnp.full(target.dim, math.log(self.step_size), target.dtype)
        return HVAEParams(self.initial(target), step)

    def fit(self, target: Target, key: Array, *, progress: bool | None = None) -> Sampler:
        """Maximise the lower bound of log Z by Adam."""
        clock = Stopwatch()
        check_key, train_key = jax.random.split(key)
        params = self.begin(target, key)
        require_usable(target, check_key, params.initial)
        params, record = train(self, _HvaeElbo(self), target.density, params, train_key, progress=progress)
        depth = len(record.get("objective", ())) * 2 * self.depth(params)  # forward and back
        return Sampler(target, self, params, record, clock.cost(depth * self.particles, depth))

    def bound(
        self, density: BatchedDensity, params: HVAEParams, key: Array, particles: int
    ) -> tuple[Float[Array, "particles"], Ensemble]:
        """The ELBO's integrand for each particle (entropies in closed form), and the ensemble at z_K."""
        noise_key, momentum_key = jax.random.split(key)
        return hvae_bound(
            density,
            start(density, params.initial.sample(noise_key, particles)),
            params.initial.entropy()[None],
            params.log_step,
            momentum_key,
            leapfrogs=self.leapfrogs,
            tempering=self.tempering,
            temperature=self.temperature,
        )

    def start(self, params: HVAEParams) -> DiagonalGaussian:
        """P0, from which every run starts."""
        return params.initial

    def simulate(self, density: Density, params: HVAEParams, key: Array, particles: int) -> Batch:
        """Independent draws of z_K."""
        _, end = self.bound(density.batched, params, key, particles)
        return Batch(end.position, end.logdensity, {}, {"expected_logdensity": jnp.mean(end.logdensity)[None]})

    def facts(self, params: PyTree) -> dict[str, Fact]:
        """Plain facts for the draws' attributes."""
        return {"leapfrogs": self.leapfrogs, "tempering": self.tempering, "adjusted": False}


@dataclass(frozen=True)
class _HvaeElbo:
    """The bound as `ascent.maximise` takes it."""

    method: HVAE

    def estimate(
        self, density: Density, params: HVAEParams, carry: PyTree, key: Array
    ) -> tuple[dict[str, Array], HVAEParams, PyTree]:
        def objective(params: HVAEParams) -> tuple[Array, Ensemble]:
            bound, end = self.method.bound(density.batched, params, key, self.method.particles)
            return jnp.mean(bound), end

        (value, end), gradient = jax.value_and_grad(objective, has_aux=True)(params)
        row = {"objective": value, "final": jnp.mean(end.logdensity), "entropy": params.initial.entropy()}
        return row, gradient, carry

    def settle(self, current: HVAEParams, updated: HVAEParams) -> HVAEParams:
        return updated
