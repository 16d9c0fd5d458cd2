"""Hamiltonian Monte Carlo with per-dimension step size and momentum variance (sections 2.2 and 3.2, appendix).

One transition of an ensemble: momentum r ~ N(0, diag φ1), L leapfrog sub-steps of size φ2, Metropolis-Hastings

    accept when log u < -ΔH,    H(x, r) = -log π*(x) + Σ r²/(2 φ1)

in log space. (Section 2.2 prints ``min{0, ...}`` for p_MH; section 3.2 has the ``min{1, ...}`` used here.)

Three ways to run the same transition, with identical draws for identical keys:

- `HMC.transition`: the plain simulation.
- `HMC.frozen_transition`: beside it the sensitivity of x' to the parameters with the force held frozen, which is what
  the paper's stop-gradient computes. Frozen, the position after L sub-steps started at r = √φ1 ξ is

      x' = x + L s ξ + s² (L/2 f_0 + Σ_{l=1}^{L-1} (L - l) f_l),    s = φ2/√φ1

  so it depends on the parameters only through s, and

      ∂x'/∂log s = 2 (x' - x) - L s ξ,    ∂x'/∂log φ2 = ∂x'/∂log s,    ∂x'/∂log φ1 = -½ ∂x'/∂log s

  elementwise: one extra vector, no tape, nothing to carry through the sub-steps.
- `HMC.differentiable_transition`: for reverse mode through the chain. Acceptance is decided first, without gradients;
  the move is then repeated with step size zero where it was rejected. A rejected or diverged particle thus never leaves
  x, and its gradient is exactly zero, not 0 * inf.

And two ways to propose without deciding, for objectives that weigh x' by p = p_MH instead (`tuning/rao_blackwell.py`):

- `HMC.frozen_proposal`: beside x' its sensitivity, and that of log p. Frozen, the momentum ends at r' = √φ1 ξ' with
  ξ' - ξ proportional to s, so that elementwise

      -∂ΔH/∂log s = ∂log π*(x') ∂x'/∂log s - ξ' (ξ' - ξ)

- `HMC.differentiable_proposal`: x' and p for reverse mode, a diverged particle being held as above.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float, Int

from .ensemble import BatchedDensity, Ensemble, Info, select
from .leapfrog import leapfrog


class HMCParams(NamedTuple):
    """φ of one transition, in logs so that any real value is valid. A chain stacks them: ``(steps, dim)``."""

    log_step: Float[Array, "*steps dim"]
    """log φ2, the leapfrog step size."""
    log_variance: Float[Array, "*steps dim"]
    """log φ1, the variance of the momentum."""


@dataclass(frozen=True)
class HMC:
    """The kernel's static configuration.

    Attributes:
      leapfrogs: L, sub-steps per transition.
      adjusted: whether moves are Metropolis-corrected. Without, every move that did not diverge is taken.
      divergence_threshold: rise in energy from which a move counts as diverged.
    """

    leapfrogs: int = 5
    adjusted: bool = True
    divergence_threshold: float = 1000.0

    Params: ClassVar[type] = HMCParams

    @property
    def gradients(self) -> int:
        """Gradients one transition costs a particle."""
        return self.leapfrogs

    def init(
        self, key: Array, steps: int, dim: int, dtype: DTypeLike, step_size: tuple[float, float] = (0.01, 0.025)
    ) -> HMCParams:
        """Step sizes drawn from U(0.01, 0.025), as in section 4; unit momentum variance."""
        low, high = step_size
        step = jax.random.uniform(key, (steps, dim), dtype, low, high)
        return HMCParams(jnp.log(step), jnp.zeros((steps, dim), dtype))

    def transition(
        self,
        density: BatchedDensity,
        params: HMCParams,
        ensemble: Ensemble,
        key: Array,
        leapfrogs: Int[Array, ""] | None = None,
    ) -> tuple[Ensemble, Info]:
        """Move the ensemble once; by so many leapfrogs, when their number is not to be part of the program."""
        move = _propose(self, density, params, ensemble, key, leapfrogs=leapfrogs)
        return select(move.info.accepted, move.proposal, ensemble), move.info

    def frozen_transition(
        self, density: BatchedDensity, params: HMCParams, ensemble: Ensemble, key: Array
    ) -> tuple[Ensemble, Info, Float[Array, "particles dim"]]:
        """Move once; also ∂x_t/∂log s with frozen forces (zero where the particle stayed)."""
        move = _propose(self, density, params, ensemble, key)
        sensitivity = jnp.where(move.info.accepted[:, None], _sensitivity(self, params, ensemble, move), 0)
        return select(move.info.accepted, move.proposal, ensemble), move.info, sensitivity

    def frozen_proposal(
        self, density: BatchedDensity, params: HMCParams, ensemble: Ensemble, key: Array
    ) -> tuple[Ensemble, Info, Float[Array, "particles dim"], Float[Array, "particles dim"]]:
        """The proposal x' of `transition`; ∂x'/∂log s and ∂log p/∂log s with frozen forces, zero where it diverged."""
        move = _propose(self, density, params, ensemble, key)
        of_position = _sensitivity(self, params, ensemble, move)
        of_kinetic = move.end * (move.end - move.momentum) * jnp.exp(-params.log_variance)[None, :]
        uphill = move.info.energy_error[:, None] > 0
        of_log_p = jnp.where(uphill, move.proposal.gradient * of_position - of_kinetic, 0)
        diverged = move.info.diverged[:, None]
        return move.proposal, move.info, jnp.where(diverged, 0, of_position), jnp.where(diverged, 0, of_log_p)

    def frozen_gradient(self, log_speed: Float[Array, "*steps dim"]) -> HMCParams:
        """Spread a gradient along log s = log φ2 - ½ log φ1 over the two parameters."""
        return HMCParams(log_speed, -0.5 * log_speed)

    def differentiable_transition(
        self, density: BatchedDensity, params: HMCParams, ensemble: Ensemble, key: Array
    ) -> tuple[Ensemble, Info]:
        """Move once, so that reverse mode gives the exact derivative with the accept decisions held."""
        info = _propose(self, density, *jax.lax.stop_gradient((params, ensemble)), key).info
        return _propose(self, density, params, ensemble, key, moving=info.accepted).proposal, info

    def differentiable_proposal(
        self, density: BatchedDensity, params: HMCParams, ensemble: Ensemble, key: Array
    ) -> tuple[Ensemble, Float[Array, "particles"], Info]:
        """The proposal x' and its p_MH, accepted or not, both with their derivatives.

        A move that diverged is x' = x with p = 1 and no gradient. The same draws as `transition` of the same key.
        """
        info = _propose(self, density, *jax.lax.stop_gradient((params, ensemble)), key).info
        move = _propose(self, density, params, ensemble, key, moving=~info.diverged)
        return move.proposal, move.info.acceptance, info

    def slowed(self, params: HMCParams, by: Float[Array, "*steps"]) -> HMCParams:
        """The parameters with φ2 divided by exp(by)."""
        return params._replace(log_step=params.log_step - by[..., None])

    def step_size(self, params: HMCParams) -> Float[Array, "*steps"]:
        """Geometric mean over dimensions of φ2, for the training record."""
        return jnp.exp(jnp.mean(params.log_step, axis=-1))

    def momentum_variance(self, params: HMCParams) -> Float[Array, "*steps"]:
        """Geometric mean over dimensions of φ1, for the training record."""
        return jnp.exp(jnp.mean(params.log_variance, axis=-1))


class _Move(NamedTuple):
    proposal: Ensemble
    momentum: Float[Array, "particles dim"]
    """r."""
    end: Float[Array, "particles dim"]
    """r'."""
    info: Info


def _sensitivity(kernel: HMC, params: HMCParams, ensemble: Ensemble, move: _Move) -> Float[Array, "particles dim"]:
    """∂x'/∂log s with frozen forces."""
    drift = kernel.leapfrogs * jnp.exp(params.log_step - params.log_variance)[None, :] * move.momentum
    return 2 * (move.proposal.position - ensemble.position) - drift


def _propose(
    kernel: HMC,
    density: BatchedDensity,
    params: HMCParams,
    ensemble: Ensemble,
    key: Array,
    moving: Bool[Array, "particles"] | None = None,
    leapfrogs: Int[Array, ""] | None = None,
) -> _Move:
    """Simulate (x', r') from fresh momentum and decide; particles not ``moving`` get step size zero."""
    momentum_key, accept_key = jax.random.split(key)
    x = ensemble.position
    variance = jnp.exp(params.log_variance)[None, :]
    step = jnp.exp(params.log_step)[None, :]
    if moving is not None:
        step = jnp.where(moving[:, None], step, 0)

    momentum = jnp.sqrt(variance) * jax.random.normal(momentum_key, x.shape, x.dtype)
    proposal, end = leapfrog(
        density, ensemble, momentum, step, variance, kernel.leapfrogs if leapfrogs is None else leapfrogs
    )

    kinetic_change = 0.5 * jnp.sum((end**2 - momentum**2) / variance, axis=-1)
    energy_error = kinetic_change - (proposal.logdensity - ensemble.logdensity)
    energy_error = jnp.where(proposal.usable() & ~jnp.isnan(energy_error), energy_error, jnp.inf)
    diverged = energy_error > kernel.divergence_threshold
    probability = jnp.where(diverged, 0, jnp.exp(jnp.minimum(-energy_error, 0)))
    if kernel.adjusted:
        u = jax.random.uniform(accept_key, (x.shape[0],), x.dtype)
        accepted = (jnp.log(u) < -energy_error) & ~diverged
    else:
        accepted = ~diverged
    return _Move(proposal, momentum, end, Info(probability, accepted, energy_error, diverged))
