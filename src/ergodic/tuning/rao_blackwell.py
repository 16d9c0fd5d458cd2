"""The Rao-Blackwellised objective: what a chain reaches at every step, with the Metropolis decision averaged out.

    R(φ0, φ) = Σ_t E[ p_t log π*(x'_t) + (1 - p_t) log π*(x_{t-1}) ] + ELBO(P0),    p_t = min(1, exp(-ΔH_t))

Not the paper's: it stands beside the EMLBO (`tuning/emlbo.py`), for `HEI(objective="rao-blackwell")`. By the tower rule
the t-th term is E_{p_t}[log π*], so that R asks for a high E[log π*] at every t and not at T alone; and its gradient
sees what larger steps do to the probability of acceptance, which the paper's, with the decisions held, does not.

φ_t follows the gradient of its own term, p_t included, and of the later terms, which it reaches through x_t with the
decision at t held, as in equations 8 and 9. φ0 follows ∂ELBO(P0), as in the paper. Two estimators, as of the EMLBO:

- `frozen_force`: forces are constants, so that an accepted move has ∂x_t/∂x_{t-1} = I, and with f = ∂log π*

      ∂R/∂φ_t = p_t (f(x'_t) ∂x'_t + Δ_t ∂log p_t) + 1[accepted_t] ∂x'_t Σ_{u>t} F_u
      F_u = p_u f(x'_u) + (1 - p_u) f(x_{u-1}) + p_u Δ_u 1[ΔH_u > 0] (f(x'_u) - f(x_{u-1}))

  elementwise, Δ_t = log π*(x'_t) - log π*(x_{t-1}); the derivatives along φ_t are those of `HMC.frozen_proposal`. It
  costs what simulating costs, and keeps two vectors per particle and step.
- `full`: reverse mode through the chain; for any kernel with a `differentiable_proposal`.

Particles that start where log π* is not finite count for nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from ..chain import ChainParams
from ..kernels import Ensemble, start
from ..kernels.ensemble import BatchedDensity, select
from .elbo import average, averaged, elbo_gradient
from .emlbo import Emlbo, Estimate, Estimator, begin_runs, estimated
from .tunable import FrozenForceKernel, TunableKernel

OBJECTIVES = ("emlbo", "rao-blackwell")


def frozen_force(
    density: BatchedDensity, kernel: FrozenForceKernel, params: ChainParams, key: Array, particles: int
) -> tuple[Estimate, ChainParams]:
    """The estimate of R and its gradient, with forces frozen."""
    noise, begin, keys = begin_runs(density, params, key, particles)
    ok = begin.usable()

    def step(ensemble: Ensemble, inputs: tuple[PyTree, Array]) -> tuple[Ensemble, tuple[Array, ...]]:
        proposal, info, of_position, of_log_p = kernel.frozen_proposal(density, inputs[0], ensemble, inputs[1])
        p, stays = info.acceptance[:, None], info.diverged
        gain = jnp.where(stays | ~ok, 0, proposal.logdensity - ensemble.logdensity)
        force = jnp.where(stays[:, None], ensemble.gradient, proposal.gradient)
        own = p * (force * of_position + gain[:, None] * of_log_p)
        steeper = jnp.where((info.energy_error > 0)[:, None], p * gain[:, None], 0) * (force - ensemble.gradient)
        later = p * force + (1 - p) * ensemble.gradient + steeper
        after = select(info.accepted, proposal, ensemble)
        moved = jnp.where(info.accepted[:, None], of_position, 0)
        value = average(ensemble.logdensity + info.acceptance * gain, ok)
        return after, (jnp.sum(averaged(own, ok), axis=0), averaged(later, ok), moved, value, jnp.mean(info.acceptance))

    end, (own, later, moved, expected, acceptance) = jax.lax.scan(step, begin, (params.transitions, keys))
    following = jnp.flip(jnp.cumsum(jnp.flip(later, axis=0), axis=0), axis=0) - later
    transitions = kernel.frozen_gradient(own + jnp.einsum("tnd,tnd->td", moved, following))
    initial = elbo_gradient(params.initial, noise, begin)
    usable = begin.usable() & end.usable()
    return estimated(params, begin, expected, acceptance, usable), ChainParams(initial, transitions)


def full(
    density: BatchedDensity, kernel: TunableKernel, params: ChainParams, key: Array, particles: int
) -> tuple[Estimate, ChainParams]:
    """The estimate of R and its gradient by reverse mode through the chain."""
    noise, probe, keys = begin_runs(density, params, key, particles)
    ok = probe.usable()
    best = probe.position[jnp.argmax(jnp.where(ok, probe.logdensity, -jnp.inf))]
    begin = start(density, jnp.where(ok[:, None], probe.position, best[None, :]))

    def climbed(transitions: PyTree) -> tuple[Array, tuple[Array, Array, Ensemble]]:
        def step(ensemble: Ensemble, inputs: tuple[PyTree, Array]) -> tuple[Ensemble, tuple[Array, Array]]:
            proposal, p, info = kernel.differentiable_proposal(density, inputs[0], ensemble, inputs[1])
            value = average(p * proposal.logdensity + (1 - p) * ensemble.logdensity, ok)
            return select(info.accepted, proposal, ensemble), (value, jnp.mean(info.acceptance))

        end, (expected, acceptance) = jax.lax.scan(step, begin, (transitions, keys))
        return jnp.sum(expected), (expected, acceptance, end)

    transitions, (expected, acceptance, end) = jax.grad(climbed, has_aux=True)(params.transitions)
    initial = elbo_gradient(params.initial, noise, probe)
    usable = ok & end.usable()
    return estimated(params, probe, expected, acceptance, usable), ChainParams(initial, transitions)


@dataclass(frozen=True)
class RaoBlackwell(Emlbo):
    """R as `ascent.maximise` takes it: settings, constraint and cost are the EMLBO's."""

    estimators: ClassVar[dict[str, Estimator]] = {"frozen-force": frozen_force, "full": full}
