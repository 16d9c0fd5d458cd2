"""The ergodic modified lower bound and its gradients (equations 4 and 7 to 9).

    L(φ0, φ) = E_{p_T}[log π*(x)] + ELBO(P0),    ELBO(P0) = E_{p_0}[log π*(x)] + H(P0)        (4)

estimated with N particles that give both terms: x_0 is a draw of P0 and its run ends at x_T.

As in section 3.2 the gradient is a sum of two: φ0 follows ∂ELBO(P0), by reparameterisation (7), and φ follows
∂E_{p_T}[log π*], through the runs with the accept decisions held (8, 9). Two estimators of the latter:

- `frozen_force`, the paper's stop-gradient. The force is a constant inside the leapfrog, so an accepted move has
  ∂x_t/∂x_{t-1} = I and

      ∂_{φ_t} log π*(x_T) = 1[accepted_t] (∂x'_t/∂φ_t)|frozen · ∂log π*(x_T)

  The sensitivities are elementwise and come forward with the simulation: no tape, one vector a particle and step.
- `full`: reverse mode through every leapfrog of every transition.

A particle with a non-finite log π* or force counts for nothing in either; its fraction is reported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..chain import ChainParams
from ..kernels import Ensemble, start
from ..kernels.ensemble import BatchedDensity, select
from ..target import Density
from .elbo import average, averaged, elbo_gradient
from .entropy import constrain


class Estimate(NamedTuple):
    """One Monte Carlo estimate of the objective and what goes with it."""

    final: Float[Array, ""]
    """E_{p_T}[log π*]."""
    initial: Float[Array, ""]
    """E_{p_0}[log π*]."""
    entropy: Float[Array, ""]
    """H(P0)."""
    acceptance: Float[Array, "steps"]
    nonfinite: Float[Array, ""]
    """Fraction of particles that ended where log π* or its force is not finite."""

    @property
    def elbo(self) -> Float[Array, ""]:
        """ELBO(P0), equation 1."""
        return self.initial + self.entropy

    @property
    def objective(self) -> Float[Array, ""]:
        """The EMLBO, equation 4."""
        return self.final + self.elbo


def frozen_force(
    density: BatchedDensity, kernel: Any, params: ChainParams, key: Array, particles: int
) -> tuple[Estimate, ChainParams]:
    """The estimate and its gradient, with forces frozen; costs what simulating the particles costs."""
    return _estimate_by(frozen_runs, density, kernel, params, key, particles)


def full(
    density: BatchedDensity, kernel: Any, params: ChainParams, key: Array, particles: int
) -> tuple[Estimate, ChainParams]:
    """The estimate and its gradient by reverse mode through the chain, accept decisions held."""
    return _estimate_by(full_runs, density, kernel, params, key, particles)


GRADIENTS = {"frozen-force": frozen_force, "full": full}


class Runs(NamedTuple):
    """The end of every run, and the gradient of the mean log π*(x_T) along φ."""

    end: Ensemble
    gradient: Any
    acceptance: Float[Array, "steps"]


def frozen_runs(density: BatchedDensity, kernel: Any, transitions: Any, begin: Ensemble, keys: Array) -> Runs:
    """Run the chain from an ensemble; the gradient by sensitivities carried along."""

    def step(ensemble: Ensemble, inputs: tuple[Any, Array]) -> tuple[Ensemble, tuple[Array, Array]]:
        ensemble, info, sensitivity = kernel.frozen_transition(density, inputs[0], ensemble, inputs[1])
        return ensemble, (sensitivity, jnp.mean(info.acceptance))

    end, (sensitivities, acceptance) = jax.lax.scan(step, begin, (transitions, keys))
    force = averaged(end.gradient, end.usable())
    return Runs(end, kernel.frozen_gradient(jnp.einsum("tnd,nd->td", sensitivities, force)), acceptance)


def full_runs(density: BatchedDensity, kernel: Any, transitions: Any, begin: Ensemble, keys: Array) -> Runs:
    """Run the chain from an ensemble, as a constant; the gradient by reverse mode."""

    # Not even a zero cotangent may pass through a point where log π* is not finite (0 * inf is NaN): a particle that
    # starts at one is moved to the best start, and counts for nothing.
    ok = begin.usable() & jnp.isfinite(begin.logdensity)
    best = jnp.argmax(jnp.where(ok, begin.logdensity, -jnp.inf))
    elsewhere = Ensemble(*(jnp.broadcast_to(values[best], values.shape) for values in begin))
    begin = jax.lax.stop_gradient(select(ok, begin, elsewhere))

    def objective(transitions: Any) -> tuple[Array, tuple[Ensemble, Array]]:
        def step(ensemble: Ensemble, inputs: tuple[Any, Array]) -> tuple[Ensemble, Array]:
            ensemble, info = kernel.differentiable_transition(density, inputs[0], ensemble, inputs[1])
            return ensemble, jnp.mean(info.acceptance)

        end, acceptance = jax.lax.scan(step, begin, (transitions, keys))
        return average(end.logdensity, ok), (end, acceptance)

    (_, (end, acceptance)), gradient = jax.value_and_grad(objective, has_aux=True)(transitions)
    return Runs(end._replace(logdensity=jnp.where(ok, end.logdensity, -jnp.inf)), gradient, acceptance)


def _estimate_by(
    runs: Callable[..., Runs], density: BatchedDensity, kernel: Any, params: ChainParams, key: Array, particles: int
) -> tuple[Estimate, ChainParams]:
    """φ0 follows ELBO(P0) alone (section 3.2): the chain starts from x_0 as a constant."""
    noise, begin, keys = begin_runs(density, params, key, particles)
    end, transitions, acceptance = runs(density, kernel, params.transitions, begin, keys)
    initial = elbo_gradient(params.initial, noise, begin)
    estimate = _estimate(params, begin, end, begin.usable(), end.usable(), acceptance)
    return estimate, ChainParams(initial, transitions)


@dataclass(frozen=True)
class Emlbo:
    """The objective as `ascent.maximise` takes it; its one number is the entropy floor h.

    Attributes:
      kernel: the chain's kernel.
      particles: N, runs of the chain an iteration.
      gradient: ``"frozen-force"`` (the paper's stop-gradient) or ``"full"``.
      constraint: how H(P0) > h is kept, ``"keep"`` (the paper's) or ``"project"``.
      tune_initial: whether φ0 is tuned at all.
    """

    kernel: Any
    particles: int
    gradient: str
    constraint: str
    tune_initial: bool

    estimators: ClassVar[dict[str, Any]] = GRADIENTS

    def estimate(
        self, density: Density, params: ChainParams, carry: Any, key: Array
    ) -> tuple[dict[str, Array], ChainParams, Any]:
        """One estimate of the objective and its gradient."""
        estimate, gradient = self.estimators[self.gradient](density.batched, self.kernel, params, key, self.particles)
        row = {
            "objective": estimate.objective,
            "final": estimate.final,
            "elbo": estimate.elbo,
            "entropy": estimate.entropy,
            "acceptance": estimate.acceptance,
            "nonfinite": estimate.nonfinite,
            "step_size": self.kernel.step_size(params.transitions),
            "momentum_variance": self.kernel.momentum_variance(params.transitions),
        }
        return row, gradient, carry

    def depth(self, steps: int) -> int:
        """Gradients an iteration costs a particle; the full mode decides, repeats and sweeps back, counted as three."""
        chain = steps * self.kernel.gradients
        return 1 + chain if self.gradient == "frozen-force" else 2 + 3 * chain

    def settle(self, current: ChainParams, updated: ChainParams, floor: Array) -> ChainParams:
        """Keep H(P0) above the floor (5)."""
        if not self.tune_initial:
            return ChainParams(current.initial, updated.transitions)
        return ChainParams(constrain(self.constraint, current.initial, updated.initial, floor), updated.transitions)


def begin_runs(
    density: BatchedDensity, params: ChainParams, key: Array, particles: int
) -> tuple[Float[Array, "particles dim"], Ensemble, Array]:
    """The noise ε of P0, the ensemble that starts from it, and a key a step."""
    noise_key, chain_key = jax.random.split(key)
    mean = params.initial.mean
    noise = jax.random.normal(noise_key, (particles, mean.shape[0]), mean.dtype)
    return noise, start(density, params.initial.transform(noise)), jax.random.split(chain_key, params.steps)


def _estimate(
    params: ChainParams,
    begin: Ensemble,
    end: Ensemble,
    begin_ok: Bool[Array, "particles"],
    end_ok: Bool[Array, "particles"],
    acceptance: Float[Array, "steps"],
) -> Estimate:
    return Estimate(
        final=average(end.logdensity, end_ok),
        initial=average(begin.logdensity, begin_ok),
        entropy=params.initial.entropy(),
        acceptance=acceptance,
        nonfinite=jnp.mean((~end_ok).astype(end.logdensity.dtype)),
    )
