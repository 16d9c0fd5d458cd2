"""Generalised HMC: chains of the learned kernel L2HMC (Levy, Hoffman & Sohl-Dickstein 2018), a baseline of the paper.

Parallel chains start at N(0, I), train their kernel while they run (`tuning/esjd.py`), then run on for a burn-in with
the kernel fixed. From there on their states are the draws: exact in the limit, correlated along each chain. The
defaults are the ergodic paper's run (100 chains, 5 leapfrogs, 1,000 iterations, 100 steps of burn-in) and, where it is
silent, the authors' code: networks of two layers of 10, ε = 0.1, λ = 0.1, Adam at 0.001 times 0.96 every 1,000
iterations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from ..kernels.ensemble import Ensemble, select, start
from ..kernels.l2hmc import L2HMC, L2HMCParams
from ..protocols import Correlated, Fact, FixedShapes
from ..runtime.drawing import Batch
from ..runtime.errors import ConfigError
from ..runtime.programs import Stopwatch, compiled
from ..runtime.validation import Rule, check_seed, finite_float, numbers, positive_float
from ..sampler import Sampler
from ..target import Density, Target
from ..tuning.ascent import ADAM, check_adam, maximise
from ..tuning.checks import require_usable
from ..tuning.esjd import ExpectedJump


class GHMCParams(NamedTuple):
    """The tuned transition, and where its chains are."""

    kernel: L2HMCParams
    """ε and the networks."""
    state: Ensemble
    """Where training and burn-in left the chains."""


@dataclass(frozen=True)
class GHMC(FixedShapes, Correlated):
    """Settings of generalised HMC; ``GHMC().fit(target, key)`` gives a `Sampler`.

    Attributes:
      chains: how many run in parallel, in training and in sampling.
      leapfrogs: L, sub-steps per transition.
      iterations: training iterations, one transition of every chain each.
      burn_in: transitions of every chain between training and the first draw.
      hidden: width of the networks' two hidden layers.
      step_size: ε as training starts.
      jump_scale: λ of the objective, a squared length.
      learning_rate: Adam's at first.
      decay: by which the learning rate is multiplied ...
      decay_every: ... after every so many iterations.
      initial_mean: mean of P0, where chains start and the objective's fresh states come from; one number, or one per
        flat coordinate.
      initial_scale: standard deviation of P0, likewise.
      mask_seed: draws the half masks, fixed for good.
      adam: (β1, β2, ε).
    """

    chains: int = 100
    leapfrogs: int = 5
    iterations: int = 1000
    burn_in: int = 100
    hidden: int = 10
    step_size: float = 0.1
    jump_scale: float = 0.1
    learning_rate: float = 1e-3
    decay: float = 0.96
    decay_every: int = 1000
    initial_mean: float | tuple[float, ...] = 0.0
    initial_scale: float | tuple[float, ...] = 1.0
    mask_seed: int = 0
    adam: tuple[float, float, float] = ADAM

    name: ClassVar[str] = "GHMC"
    title: ClassVar[str] = "Generalized HMC / L2HMC (Levy et al. 2018)"
    rules: ClassVar[Mapping[str, Rule]] = {
        "initial_mean": numbers(finite_float),
        "initial_scale": numbers(positive_float),
        "mask_seed": check_seed,
        "adam": check_adam,
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.decay > 1:
            raise ConfigError(f"decay must be at most 1, not {self.decay}")

    @property
    def kernel(self) -> L2HMC:
        """The transition of the chains."""
        return L2HMC(leapfrogs=self.leapfrogs, hidden=self.hidden, mask_seed=self.mask_seed)

    @property
    def objective(self) -> ExpectedJump:
        """What the kernel is trained on."""
        return ExpectedJump(self.kernel, self.jump_scale, self.initial_mean, self.initial_scale)

    def begin(self, target: Target, key: Array) -> GHMCParams:
        """The kernel and the chains before any training; also their shapes, for reading a file."""
        return _begin(target.density, self, key)

    def fit(self, target: Target, key: Array, *, progress: bool | None = None) -> Sampler:
        """Train the kernel on chains of the target, then let them burn in."""
        clock = Stopwatch()
        begin_key, check_key, train_key, burn_key = jax.random.split(key, 4)
        require_usable(target, check_key, self.objective.initial(target.dim, target.dtype))
        params = compiled(_begin, (target.density, self), begin_key)(begin_key)
        kernel, record, state = maximise(
            self.objective,
            target.density,
            params.kernel,
            train_key,
            iterations=self.iterations,
            learning_rate=self.rate,
            adam=self.adam,
            carry=params.state,
            progress=progress,
        )
        params = GHMCParams(kernel, state)
        params = compiled(_burn_in, (target.density, self), params, burn_key)(params, burn_key)
        trained, burnt = len(record.get("objective", ())), self.burn_in * self.leapfrogs
        depth = self.objective.depth  # twice the chains per iteration: their states and as many fresh ones
        gradients = self.chains * (1 + trained * (1 + 2 * depth) + burnt)
        return Sampler(target, self, params, record, clock.cost(gradients, 1 + trained * (1 + depth) + burnt))

    def rate(self, iteration: int) -> float:
        """Adam's learning rate at an iteration: it falls in steps."""
        return self.learning_rate * self.decay ** (iteration // self.decay_every)

    def state(self, params: GHMCParams) -> PyTree:
        """Where tuning left the chains."""
        return params.state

    def advance(self, density: Density, params: GHMCParams, state: Ensemble, key: Array) -> tuple[Ensemble, Batch]:
        """One transition of all chains: one draw a chain."""
        state, info = self.kernel.transition(density.batched, params.kernel, state, key)
        stats = {
            "acceptance_rate": info.acceptance,
            "diverging": info.diverged,
            "energy_error": info.energy_error,
            "gradients": jnp.full(self.chains, self.kernel.gradients, jnp.int32),
        }
        return state, Batch(state.position, state.logdensity, stats, {})

    def facts(self, params: PyTree) -> dict[str, Fact]:
        """Plain facts for the draws' attributes."""
        return {"chains": self.chains, "leapfrogs": self.leapfrogs, "burn_in": self.burn_in}


def _begin(density: Density, method: GHMC, key: Array) -> GHMCParams:
    kernel_key, start_key = jax.random.split(key)
    dim, dtype = density.layout.dim, density.layout.dtype
    initial = method.objective.initial(dim, dtype)
    state = start(density.batched, initial.sample(start_key, method.chains))
    # A chain that would start outside the support starts where the best one does: every state has a finite force.
    usable = state.usable()
    best = jnp.argmax(jnp.where(usable, state.logdensity, -jnp.inf))
    everywhere = jax.tree_util.tree_map(lambda leaf: jnp.broadcast_to(leaf[best], leaf.shape), state)
    kernel = method.kernel.init(kernel_key, None, dim, dtype, method.step_size)
    return GHMCParams(kernel, select(usable, state, everywhere))


def _burn_in(density: Density, method: GHMC, params: GHMCParams, key: Array) -> GHMCParams:
    def step(state: Ensemble, key: Array) -> tuple[Ensemble, None]:
        return method.kernel.transition(density.batched, params.kernel, state, key)[0], None

    state, _ = jax.lax.scan(step, params.state, jax.random.split(key, method.burn_in))
    return params._replace(state=state)
