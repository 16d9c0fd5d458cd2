"""The ergodic modified lower bound and its gradients (equations 4 and 7 to 9).

    L(φ0, φ) = E_{p_T}[log π*(x)] + ELBO(P0),    ELBO(P0) = E_{p_0}[log π*(x)] + H(P0)        (4)

estimated with N particles that give both terms: x_0 is a draw of P0 and its run ends at x_T.

As in section 3.2 the gradient is a sum of two: φ0 follows ∂ELBO(P0), by reparameterisation (7), and φ follows
∂E_{p_T}[log π*], through the runs with the accept decisions held (8, 9). Two estimators of the latter:

- `frozen_force`, the paper's stop-gradient. The force is a constant inside the leapfrog, so an accepted move has
  ∂x_t/∂x_{t-1} = I and

      ∂_{φ_t} log π*(x_T) = 1[accepted_t] (∂x'_t/∂φ_t)|frozen · ∂log π*(x_T)

  The sensitivities are elementwise and come forward with the simulation: no tape, one vector per particle and step.
- `full`: reverse mode through every leapfrog of every transition.

A particle with a non-finite log π* or force counts for nothing in either; its fraction is reported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from ..chain import ChainParams
from ..kernels import Ensemble, start
from ..kernels.ensemble import BatchedDensity, select
from ..target import Density
from .elbo import average, averaged, elbo_gradient
from .entropy import constrain
from .tunable import FrozenForceKernel, SensitiveKernel, TunableKernel


class Estimate(NamedTuple):
    """One Monte Carlo estimate of an objective of a chain, and what goes with it."""

    expected: Float[Array, "terms"]
    """E_{p_t}[log π*] at the steps t that the objective looks at: T alone, or 1..T (`tuning/rao_blackwell.py`)."""
    initial: Float[Array, ""]
    """E_{p_0}[log π*], the expectation where chains start."""
    entropy: Float[Array, ""]
    """H(P0), the entropy of P0 in nats."""
    acceptance: Float[Array, "steps"]
    """The mean acceptance probability of every transition."""
    nonfinite: Float[Array, ""]
    """Fraction of particles that ended where log π* or its force is not finite."""

    @property
    def final(self) -> Float[Array, ""]:
        """E_{p_T}[log π*], the expectation where chains end."""
        return self.expected[-1]

    @property
    def elbo(self) -> Float[Array, ""]:
        """ELBO(P0), the bound of equation 1."""
        return self.initial + self.entropy

    @property
    def objective(self) -> Float[Array, ""]:
        """The sum of the terms and ELBO(P0): equation 4, when T is the one step that is looked at."""
        return jnp.sum(self.expected) + self.elbo


Estimator = Callable[[BatchedDensity, FrozenForceKernel, ChainParams, Array, int], tuple[Estimate, ChainParams]]
"""Density, kernel, parameters, key and number of particles to an estimate and its gradient."""


def frozen_force(
    density: BatchedDensity, kernel: FrozenForceKernel, params: ChainParams, key: Array, particles: int
) -> tuple[Estimate, ChainParams]:
    """The estimate and its gradient, with forces frozen; costs what simulating the particles costs."""
    return _estimate_by(frozen_runs, density, kernel, params, key, particles)


def full(
    density: BatchedDensity, kernel: TunableKernel, params: ChainParams, key: Array, particles: int
) -> tuple[Estimate, ChainParams]:
    """The estimate and its gradient by reverse mode through the chain, accept decisions held."""
    return _estimate_by(full_runs, density, kernel, params, key, particles)


GRADIENTS: dict[str, Estimator] = {"frozen-force": frozen_force, "full": full}


class Runs(NamedTuple):
    """The end of every run, and the gradient of the mean log π*(x_T) along φ."""

    end: Ensemble
    gradient: PyTree
    acceptance: Float[Array, "steps"]
    """The mean acceptance probability of every transition."""


def frozen_runs(
    density: BatchedDensity, kernel: SensitiveKernel, transitions: PyTree, begin: Ensemble, keys: Array
) -> Runs:
    """Run the chain from an ensemble; the gradient by sensitivities carried along."""

    def step(ensemble: Ensemble, inputs: tuple[PyTree, Array]) -> tuple[Ensemble, tuple[Array, Array]]:
        ensemble, info, sensitivity = kernel.frozen_transition(density, inputs[0], ensemble, inputs[1])
        return ensemble, (sensitivity, jnp.mean(info.acceptance))

    end, (sensitivities, acceptance) = jax.lax.scan(step, begin, (transitions, keys))
    force = averaged(end.gradient, end.usable())
    return Runs(end, kernel.frozen_gradient(jnp.einsum("tnd,nd->td", sensitivities, force)), acceptance)


def full_runs(
    density: BatchedDensity, kernel: TunableKernel, transitions: PyTree, begin: Ensemble, keys: Array
) -> Runs:
    """Run the chain from an ensemble, as a constant; the gradient by reverse mode."""

    # Not even a zero cotangent may pass through a point where log π* is not finite (0 * inf is NaN): a particle that
    # starts at one is moved to the best start, and counts for nothing.
    ok = begin.usable() & jnp.isfinite(begin.logdensity)
    best = jnp.argmax(jnp.where(ok, begin.logdensity, -jnp.inf))
    elsewhere = Ensemble(*(jnp.broadcast_to(values[best], values.shape) for values in begin))
    begin = jax.lax.stop_gradient(select(ok, begin, elsewhere))

    def objective(transitions: PyTree) -> tuple[Array, tuple[Ensemble, Array]]:
        def step(ensemble: Ensemble, inputs: tuple[PyTree, Array]) -> tuple[Ensemble, Array]:
            ensemble, info = kernel.differentiable_transition(density, inputs[0], ensemble, inputs[1])
            return ensemble, jnp.mean(info.acceptance)

        end, acceptance = jax.lax.scan(step, begin, (transitions, keys))
        return average(end.logdensity, ok), (end, acceptance)

    (_, (end, acceptance)), gradient = jax.value_and_grad(objective, has_aux=True)(transitions)
    return Runs(end._replace(logdensity=jnp.where(ok, end.logdensity, -jnp.inf)), gradient, acceptance)


def _estimate_by(
    runs: Callable[..., Runs],
    density: BatchedDensity,
    kernel: TunableKernel,
    params: ChainParams,
    key: Array,
    particles: int,
) -> tuple[Estimate, ChainParams]:
    """The estimate and its gradient by one of the two kinds of runs.

    φ0 follows ELBO(P0) alone (section 3.2): the chain starts from x_0 as a constant.
    """
    noise, begin, keys = begin_runs(density, params, key, particles)
    end, transitions, acceptance = runs(density, kernel, params.transitions, begin, keys)
    initial = elbo_gradient(params.initial, noise, begin)
    expected = average(end.logdensity, end.usable())[None]
    return estimated(params, begin, expected, acceptance, end.usable()), ChainParams(initial, transitions)


@dataclass(frozen=True)
class Emlbo:
    """The objective as `ascent.maximise` takes it; its one number is the entropy floor h.

    Attributes:
      kernel: the chain's kernel.
      particles: N, runs of the chain per iteration.
      gradient: ``"frozen-force"`` (the paper's stop-gradient) or ``"full"``.
      constraint: how H(P0) > h is kept, ``"keep"`` (the paper's) or ``"project"``.
      tune_initial: whether φ0 is tuned at all.
    """

    kernel: TunableKernel
    particles: int
    gradient: str
    constraint: str
    tune_initial: bool

    estimators: ClassVar[dict[str, Estimator]] = GRADIENTS

    def estimate(
        self, density: Density, params: ChainParams, carry: PyTree, key: Array
    ) -> tuple[dict[str, Array], ChainParams, PyTree]:
        """One estimate of the objective and its gradient."""
        estimator: Callable[..., tuple[Estimate, ChainParams]] = self.estimators[self.gradient]
        estimate, gradient = estimator(density.batched, self.kernel, params, key, self.particles)
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
        """Gradients per particle and iteration; the full mode decides, repeats and sweeps back, counted as three."""
        chain = steps * self.kernel.gradients
        return 1 + chain if self.gradient == "frozen-force" else 2 + 3 * chain

    def settle(self, current: ChainParams, updated: ChainParams, floor: Array) -> ChainParams:
        """The updated parameters, with H(P0) kept above the floor (5)."""
        if not self.tune_initial:
            return ChainParams(current.initial, updated.transitions)
        return ChainParams(constrain(self.constraint, current.initial, updated.initial, floor), updated.transitions)


def begin_runs(
    density: BatchedDensity, params: ChainParams, key: Array, particles: int
) -> tuple[Float[Array, "particles dim"], Ensemble, Array]:
    """The noise ε of P0, the ensemble that starts from it, and a key per step."""
    noise_key, chain_key = jax.random.split(key)
    mean = params.initial.mean
    noise = jax.random.normal(noise_key, (particles, mean.shape[0]), mean.dtype)
    return noise, start(density, params.initial.transform(noise)), jax.random.split(chain_key, params.steps)


def estimated(
    params: ChainParams,
    begin: Ensemble,
    expected: Float[Array, "terms"],
    acceptance: Float[Array, "steps"],
    usable: Bool[Array, "particles"],
) -> Estimate:
    """The estimate that runs give: P0's terms from their begin, the others as they were found along the way."""
    nonfinite = jnp.mean((~usable).astype(begin.logdensity.dtype))
    return Estimate(
        expected, average(begin.logdensity, begin.usable()), params.initial.entropy(), acceptance, nonfinite
    )
