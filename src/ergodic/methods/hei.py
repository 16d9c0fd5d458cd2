"""Hamiltonian ergodic inference: the paper's method (sections 3 and 4).

P0 is a diagonal Gaussian, followed by T Hamiltonian Monte Carlo transitions of 5 leapfrogs, each with step sizes and
momentum variances of its own; all are tuned by Adam on the EMLBO under H(P0) > h. Where the paper gives a setting it is
the default here. Where it does not:

- P0 starts at N(0, 3 I), the valid start of section 3.3, unless the target knows its prior's entropy, which P0 is then
  given ("the initial entropy of P0 is chosen to be the same as the entropy of the prior").
- 100 particles per iteration and a learning rate of 0.07, chosen by measurement (docs/results.md).
- The floor h is the entropy P0 starts with. It must lie above H(π) by a margin: see docs/equations.md.
  ``entropy_floor="auto"`` estimates H(π) instead, by annealing from P0 before tuning, and checks it afterwards along
  the tuned chain: see docs/entropy-floor.md.

Four safeguards are ours, and off unless asked for; docs/results.md says what each is worth. Each has its formula in its
file: ``objective="rao-blackwell"`` (`tuning/rao_blackwell.py`), ``acceptance_floor`` (`tuning/acceptance.py`),
``early_stopping`` (`tuning/stopping.py`) and, from the paper's follow-up, ``scale="sksd"`` (`tuning/sksd.py`).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import jax
import numpy as np
from jaxtyping import Array

from ..chain import ChainParams, advance
from ..diagnostics.evidence import Evidence, annealed_evidence, evidence
from ..initial import DiagonalGaussian, scale_for_entropy, starting
from ..kernels import start
from ..runtime.drawing import Batch
from ..runtime.errors import ConfigError, DrawsWarning
from ..runtime.programs import Cost, Stopwatch
from ..runtime.validation import Rule, choice, optional
from ..sampler import Sampler
from ..target import Density, Target
from ..tuning.acceptance import AcceptanceFloor, check_acceptance
from ..tuning.ascent import ADAM, check_adam, train
from ..tuning.checks import require_usable
from ..tuning.emlbo import GRADIENTS, Emlbo
from ..tuning.entropy import CONSTRAINTS, automatic_floor, check_floor, resolve_floor, widen
from ..tuning.rao_blackwell import OBJECTIVES, RaoBlackwell
from ..tuning.sksd import SCALES, choose_scale
from ..tuning.stopping import EarlyStopping
from .from_gaussian import FromGaussian
from .hmc_chain import HMCChain

DEFAULT_SCALE = math.sqrt(3.0)
_PILOTS = 400
_FLOOR_KEY, _SAFEGUARDS_KEY = 3, 4


@dataclass(frozen=True)
class HEI(FromGaussian, HMCChain):
    """Settings of Hamiltonian ergodic inference; ``HEI().fit(target, key)`` gives a `Sampler`.

    Attributes:
      steps: T, transitions per draw.
      leapfrogs: L, sub-steps per transition.
      iterations: Adam iterations. The paper's 50 also act as early stopping: see docs/results.md before raising it.
      particles: runs of the chain per iteration.
      learning_rate: Adam's, on log step size, log momentum variance, and P0's mean and log scale.
      initial_mean, initial_scale: P0 as tuning starts. None: the prior's, or 0 and the prior's entropy, or √3.
      tune_initial: whether P0 is tuned; False keeps it as it starts.
      entropy_floor: h, in nats; ``"initial"``: the entropy P0 starts with; ``"auto"``: an estimate of the target's
        entropy and a margin, P0 being widened to it if need be; None: no constraint.
      constraint: ``"keep"`` (the paper's: φ0 stays when an update would break the floor) or ``"project"``.
      gradient: ``"frozen-force"`` (the paper's stop-gradient) or ``"full"``.
      adjusted: False leaves out the Metropolis step.
      step_size: range from which the initial step sizes are drawn uniformly.
      adam: (β1, β2, ε).
      objective: ``"emlbo"`` (the paper's) or ``"rao-blackwell"``: E[log π*] at every step, acceptance differentiated.
      acceptance_floor: a step whose mean acceptance falls below this is shortened; None: steps go where the gradient
        takes them.
      early_stopping: keep the parameters, and stop, by a Stein residual of held-out particles.
      scale: ``"sksd"``: after tuning, stretch P0 by the one factor that brings x_T closest to π in a sliced Stein
        discrepancy, whatever the floor; None: leave it.
    """

    steps: int = 10
    leapfrogs: int = 5
    iterations: int = 50
    particles: int = 100
    learning_rate: float = 0.07
    tune_initial: bool = True
    entropy_floor: float | str | None = "initial"
    constraint: str = "keep"
    gradient: str = "frozen-force"
    adjusted: bool = True
    step_size: tuple[float, float] = (0.01, 0.025)
    adam: tuple[float, float, float] = ADAM
    objective: str = "emlbo"
    acceptance_floor: float | None = None
    early_stopping: bool = False
    scale: str | None = None

    name: ClassVar[str] = "HEI"
    title: ClassVar[str] = "Hamiltonian ergodic inference (Zhang & Hernández-Lobato)"
    rules: ClassVar[Mapping[str, Rule]] = {
        "entropy_floor": check_floor,
        "constraint": choice(*CONSTRAINTS),
        "gradient": choice(*GRADIENTS),
        "adam": check_adam,
        "objective": choice(*OBJECTIVES),
        "acceptance_floor": optional(check_acceptance),
        "scale": optional(choice(*SCALES)),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.step_size[0] > self.step_size[1]:
            raise ConfigError(f"step_size must be a range (low, high) with low <= high, not {self.step_size}")
        if self.objective == "rao-blackwell" and not self.adjusted:
            raise ConfigError('objective="rao-blackwell" averages over the Metropolis decision: it needs adjusted=True')

    def initial(self, target: Target) -> DiagonalGaussian:
        """P0 as tuning starts."""
        entropy = target.prior_entropy
        default = DEFAULT_SCALE if entropy is None else scale_for_entropy(entropy, target.dim)
        return starting(target, self.initial_mean, self.initial_scale, default)

    def begin(self, target: Target, key: Array) -> ChainParams:
        """The parameters before any tuning; also their shapes, for reading a file."""
        transitions = self.kernel.init(key, self.steps, target.dim, target.dtype, self.step_size)
        return ChainParams(self.initial(target), transitions)

    def untuned(self, target: Target, key: Array) -> Sampler:
        """The chain as it is before any tuning: what the paper compares a tuned one with."""
        return Sampler(target, self, self.begin(target, key))

    def fit(self, target: Target, key: Array, *, progress: bool | None = None) -> Sampler:
        """Tune a chain to the target."""
        clock = Stopwatch()
        begin_key, check_key, train_key = jax.random.split(key, 3)
        params = self.begin(target, begin_key)
        auto = self.entropy_floor == "auto"
        floor = resolve_floor(None if auto else self.entropy_floor, params.initial)
        require_usable(target, check_key, params.initial)
        estimates: list[Evidence] = []
        if auto:
            pilot_key, again_key = jax.random.split(jax.random.fold_in(key, _FLOOR_KEY))
            pilot, islands = annealed_evidence(target, params.initial, pilot_key, _PILOTS, self.leapfrogs)
            floor = automatic_floor(params.initial, pilot.entropy, *islands.weighted())
            params = params._replace(initial=widen(params.initial, floor))
            estimates.append(pilot)
        params, record, costs = self._tune(
            target.density, params, floor, train_key, jax.random.fold_in(key, _SAFEGUARDS_KEY), progress
        )
        if auto:
            estimates.append(evidence(Sampler(target, self, params), again_key, _PILOTS))
            record |= _judge(float(params.initial.entropy()), floor, estimates)
        costs += [estimate.cost for estimate in estimates]
        cost = clock.cost(sum(cost.gradients for cost in costs), sum(cost.depth for cost in costs))
        return Sampler(target, self, params, record, cost)

    def _tune(
        self, density: Density, params: ChainParams, floor: float, key: Array, more_key: Array, progress: bool | None
    ) -> tuple[ChainParams, dict[str, np.ndarray], list[Cost]]:
        """Adam on the objective, with the safeguards that were asked for; the parameters, the record and the costs."""
        watch_key, scale_key, settle_key = jax.random.split(more_key, 3)
        chosen = Emlbo if self.objective == "emlbo" else RaoBlackwell
        objective = chosen(self.kernel, self.particles, self.gradient, self.constraint, self.tune_initial)
        guard = None if self.acceptance_floor is None else AcceptanceFloor(self.kernel, self.acceptance_floor)
        watch = EarlyStopping(density, self.kernel, watch_key) if self.early_stopping else None
        params, record = train(
            self, objective, density, params, key, numbers=(floor,), guard=guard, watch=watch, progress=progress
        )
        depth = len(record.get("objective", ())) * objective.depth(self.steps)
        costs = [Cost(depth * self.particles, depth)]
        if watch is not None:
            params = watch.best(params)
            record |= watch.record()
            costs.append(watch.cost(self.depth(params)))
        if self.scale == "sksd":
            params, tried, cost = choose_scale(density, self.kernel, params, scale_key)
            record |= tried
            costs.append(cost)
        if guard is not None:
            params, cost = guard.settle(density, params, settle_key)
            costs.append(cost)
        return params, record, costs

    def go_on(self, density: Density, params: ChainParams, position: Array, key: Array) -> Batch:
        """The chain's T transitions from given positions ``(particles, dim)``, as a certificate tries them."""
        end, stats, trace = advance(
            density.batched, self.kernel, params.transitions, start(density.batched, position), key
        )
        return Batch(end.position, end.logdensity, stats._asdict(), trace._asdict())


def _judge(entropy: float, floor: float, estimates: list[Evidence]) -> dict[str, np.ndarray]:
    """What the record keeps of an automatic floor, h and H(π) before and after; a warning if P0 is too narrow."""
    again = estimates[-1]
    if entropy < again.entropy - 2 * again.entropy_error:
        warnings.warn(
            f"P0 has an entropy of {entropy:.4g} nats, but the target's, estimated again along the tuned chain, is "
            f"{again.entropy:.4g} ± {again.entropy_error:.2g}: the first estimate was too low, and draws may be too "
            "narrow; set initial_scale wider, or entropy_floor as a number",
            DrawsWarning,
            stacklevel=4,
        )
    return {
        "entropy_floor": np.array([floor]),
        "entropy_estimate": np.array([estimate.entropy for estimate in estimates]),
        "entropy_error": np.array([estimate.entropy_error for estimate in estimates]),
    }
