"""HMC with stochastic forces: every force of a leapfrog from its own random part of the data (the paper's appendix).

The move is that of `kernels/hmc.py`, with the force f_l of sub-step l an estimate ∂log π*(x; k_l) that has a key of its
own. The sensitivity is the same too: frozen, x' depends on the parameters through s alone, whatever the forces are.

There is no Metropolis step: its ratio would need log π* itself, and deciding by an estimate of it does not leave π
invariant. So the chain has a bias that shrinks with the step size, and the noise of the forces heats it: what one move
adds to the energy is not taken back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from ergodic.kernels import HMC, Ensemble, HMCParams, Info
from ergodic.kernels.ensemble import select

StochasticDensity = Callable[
    [Float[Array, "particles dim"], Array], tuple[Float[Array, "particles"], Float[Array, "particles dim"]]
]
"""Positions and a key to estimates of (log π*, ∂ log π*)."""


@dataclass(frozen=True)
class StochasticHMC:
    """The kernel's static configuration: L sub-steps per transition."""

    leapfrogs: int = 3

    Params: ClassVar[type] = HMCParams

    @property
    def gradients(self) -> int:
        """Stochastic gradients one transition costs a particle."""
        return self.leapfrogs

    def init(self, key: Array, steps: int, dim: int, dtype: DTypeLike, step_size: tuple[float, float]) -> HMCParams:
        """Parameters before tuning, as those of `HMC.init`."""
        return HMC(self.leapfrogs).init(key, steps, dim, dtype, step_size)

    def transition(
        self, density: StochasticDensity, params: HMCParams, ensemble: Ensemble, key: Array
    ) -> tuple[Ensemble, Info]:
        """Move the ensemble once; a move to where nothing is finite is not made."""
        end, info, _ = self.frozen_transition(density, params, ensemble, key)
        return end, info

    def frozen_transition(
        self, density: StochasticDensity, params: HMCParams, ensemble: Ensemble, key: Array
    ) -> tuple[Ensemble, Info, Float[Array, "particles dim"]]:
        """Move once; also ∂x'/∂log s with frozen forces (zero where the particle stayed)."""
        momentum_key, force_key = jax.random.split(key)
        x = ensemble.position
        speed = jnp.exp(params.log_step - 0.5 * params.log_variance)[None, :]  # s
        noise = jax.random.normal(momentum_key, x.shape, x.dtype)  # ξ: momentum in units of its spread

        def sub_step(carry: tuple[Ensemble, Array], key: Array) -> tuple[tuple[Ensemble, Array], None]:
            now, r = carry
            half = r + 0.5 * speed * now.gradient
            position = now.position + speed * half
            there = Ensemble(position, *density(position, key))
            return (there, half + 0.5 * speed * there.gradient), None

        keys = jax.random.split(force_key, self.leapfrogs)
        (there, _), _ = jax.lax.scan(sub_step, (ensemble, noise), keys)
        fine = there.usable()
        sensitivity = 2 * (there.position - x) - self.leapfrogs * speed * noise
        one = jnp.ones_like(there.logdensity)
        info = Info(jnp.where(fine, one, 0), fine, jnp.zeros_like(one), ~fine)
        return select(fine, there, ensemble), info, jnp.where(fine[:, None], sensitivity, 0)

    def frozen_gradient(self, log_speed: Float[Array, "*steps dim"]) -> HMCParams:
        """Spread a gradient along log s over the two parameters."""
        return HMC(self.leapfrogs).frozen_gradient(log_speed)

    def step_size(self, params: HMCParams) -> Float[Array, "*steps"]:
        """Geometric mean over dimensions, for the training record."""
        return HMC(self.leapfrogs).step_size(params)
