"""Hamiltonian annealed importance sampling (Sohl-Dickstein & Culpepper 2012): weighted draws, and log Z.

From x ~ p0, for temperatures β_0 = 0 < β_1 < ... < β_N = 1:

    log w += (β_n - β_{n-1}) (log π*(x) - log p0(x));    then one annealed HMC move at β_n (`kernels/annealed.py`)

E[w] = Z whatever the moves, so log Z is estimated with a standard error, and draws are weighted by w.
``refresh="full"`` with several leapfrogs is the AIS of the ergodic paper's evaluations (1,000 temperatures, 5
leapfrogs, acceptance about 0.7);
``"partial"`` with one leapfrog is the original's. The step size is adapted to a target acceptance on short pilot runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from ..initial import DiagonalGaussian
from ..kernels.annealed import REFRESHMENTS, Annealed, annealed_move, annealed_ratio, begin
from ..protocols import Bidirectional, Fact, FixedShapes
from ..runtime.drawing import Batch, Kind
from ..runtime.programs import Stopwatch, compiled
from ..runtime.validation import Rule, choice
from ..sampler import Sampler
from ..target import Density, Target
from ..tuning.checks import require_usable
from .from_gaussian import FromGaussian


class HAISParams(NamedTuple):
    """p0, the moves' step size, and the temperatures."""

    initial: DiagonalGaussian
    log_step: Float[Array, "*temperatures dim"]
    """One for all temperatures, or one each."""
    betas: Float[Array, "temperatures_plus_one"]


def moves(params: HAISParams, key: Array) -> tuple[Array, Array, Array, Array]:
    """Of every move in turn: the temperature before, its own, its log step size and its key."""
    count = params.betas.shape[0] - 1
    steps = jnp.broadcast_to(params.log_step, (count, params.log_step.shape[-1]))
    return params.betas[:-1], params.betas[1:], steps, jax.random.split(key, count)


def schedule(kind: str, temperatures: int) -> np.ndarray:
    """β_0..β_N: ``"linear"``, or ``"sigmoid"`` with radius 4 (Wu et al. 2017), dense at both ends."""
    t = np.linspace(0, 1, temperatures + 1)
    if kind == "linear":
        return t
    radius = 4.0
    s = 1 / (1 + np.exp(-radius * (2 * t - 1)))
    return (s - s[0]) / (s[-1] - s[0])


@dataclass(frozen=True)
class HAIS(FromGaussian, FixedShapes, Bidirectional):
    """Settings of Hamiltonian annealed importance sampling.

    Attributes:
      temperatures: N, moves a draw.
      leapfrogs: sub-steps a move.
      refresh: ``"partial"`` or ``"full"``.
      schedule: ``"linear"`` or ``"sigmoid"``.
      acceptance: what the step size is adapted to.
      pilots, particles: pilot runs for that, each of 1/10 of the temperatures.
      step_size: the step size it starts with.
    """

    temperatures: int = 1000
    leapfrogs: int = 5
    refresh: str = "full"
    schedule: str = "linear"
    acceptance: float = 0.7
    pilots: int = 30
    particles: int = 100
    step_size: float = 0.1

    name: ClassVar[str] = "HAIS"
    title: ClassVar[str] = "Hamiltonian annealed importance sampling (Sohl-Dickstein & Culpepper 2012)"
    rules: ClassVar[Mapping[str, Rule]] = {"refresh": choice(*REFRESHMENTS), "schedule": choice("linear", "sigmoid")}

    def depth(self, params: PyTree) -> int:
        """The gradients that one draw costs."""
        return 1 + self.temperatures * self.leapfrogs

    def begin(self, target: Target, key: Array) -> HAISParams:
        """The parameters before the step size is adapted."""
        return HAISParams(
            self.initial(target),
            jnp.full(target.dim, math.log(self.step_size), target.dtype),
            jnp.asarray(schedule(self.schedule, self.temperatures), target.dtype),
        )

    def fit(self, target: Target, key: Array, *, progress: bool | None = None) -> Sampler:
        """Adapt the step size by stochastic approximation: log ε += (mean acceptance - target) · 2 / √k."""
        clock = Stopwatch()
        check_key, pilot_key = jax.random.split(key)
        params = self.begin(target, key)
        require_usable(target, check_key, params.initial)
        short = max(1, self.temperatures // 10)
        pilot = params._replace(betas=jnp.asarray(schedule(self.schedule, short), target.dtype))
        program = compiled(_acceptance, (self, target.density, self.particles), pilot, pilot_key)
        acceptances, steps = [], []
        for k in range(1, self.pilots + 1):
            rate = float(program(pilot, jax.random.fold_in(pilot_key, k)))
            acceptances.append(rate)
            steps.append(float(jnp.exp(pilot.log_step[0])))
            pilot = pilot._replace(log_step=pilot.log_step + (rate - self.acceptance) * 2 / math.sqrt(k))
        record = {"acceptance": np.array(acceptances), "step_size": np.array(steps)}
        depth = self.pilots * (1 + short * self.leapfrogs)
        cost = clock.cost(depth * self.particles, depth)
        return Sampler(target, self, params._replace(log_step=pilot.log_step), record, cost)

    def forward(
        self,
        density: Density,
        params: HAISParams,
        state: Annealed,
        key: Array,
        observe: Callable[[Annealed], PyTree] = lambda state: None,
    ) -> tuple[Annealed, Array, Array, PyTree]:
        """From β = 0 to 1: the final state, log w, the mean acceptance at each temperature, and what was observed."""

        def move(
            carry: tuple[Annealed, Array], inputs: tuple[Array, ...]
        ) -> tuple[tuple[Annealed, Array], tuple[Array, PyTree]]:
            state, log_weight = carry
            before, beta, step, key = inputs
            log_weight = log_weight + (beta - before) * annealed_ratio(params.initial, state)
            state, acceptance = self.move(density, params.initial, beta, step, state, key)
            return (state, log_weight), (jnp.mean(acceptance), observe(state))

        first = (state, jnp.zeros_like(state.logdensity))
        (end, log_weight), (acceptance, observed) = jax.lax.scan(move, first, moves(params, key))
        return end, log_weight, acceptance, observed

    def backward(
        self, density: Density, params: HAISParams, exact: Float[Array, "particles dim"], key: Array
    ) -> Float[Array, "particles"]:
        """From β = 1 to 0, the forward chain's moves in the opposite order: log w of each run from an exact draw."""
        momentum_key, key = jax.random.split(key)
        state = begin(density.batched, exact, momentum_key)

        def move(carry: tuple[Annealed, Array], inputs: tuple[Array, ...]) -> tuple[tuple[Annealed, Array], None]:
            state, log_weight = carry
            before, beta, step, key = inputs
            state, _ = self.move(density, params.initial, beta, step, state, key)
            return (state, log_weight + (beta - before) * annealed_ratio(params.initial, state)), None

        first = (state, jnp.zeros_like(state.logdensity))
        return jax.lax.scan(move, first, moves(params, key), reverse=True)[0][1]

    def move(
        self,
        density: Density,
        initial: DiagonalGaussian,
        beta: Array,
        log_step: Float[Array, "dim"],
        state: Annealed,
        key: Array,
    ) -> tuple[Annealed, Float[Array, "particles"]]:
        """One annealed move at β."""
        return annealed_move(
            density.batched,
            initial,
            beta,
            jnp.exp(log_step),
            state,
            key,
            leapfrogs=self.leapfrogs,
            refresh=self.refresh,
        )

    def kind(self, params: PyTree) -> Kind:
        """Weighted: every draw has its log-weight."""
        return Kind.WEIGHTED

    def start(self, params: HAISParams) -> DiagonalGaussian:
        """P0, from which every run starts."""
        return params.initial

    def simulate(self, density: Density, params: HAISParams, key: Array, particles: int) -> Batch:
        """Annealed runs from P0, each with its weight."""
        start_key, momentum_key, chain_key = jax.random.split(key, 3)
        state = begin(density.batched, params.initial.sample(start_key, particles), momentum_key)
        end, log_weight, acceptance, _ = self.forward(density, params, state, chain_key)
        return Batch(end.position, end.logdensity, {"log_weight": log_weight}, {"acceptance": acceptance})

    def facts(self, params: PyTree) -> dict[str, Fact]:
        """Plain facts for the draws' attributes."""
        return {"temperatures": self.temperatures, "leapfrogs": self.leapfrogs, "refresh": self.refresh}


def _acceptance(method: HAIS, density: Density, particles: int, params: HAISParams, key: Array) -> Array:
    return jnp.mean(method.simulate(density, params, key, particles).trace["acceptance"])
