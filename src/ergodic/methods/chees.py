"""ChEES-HMC from BlackJAX: jittered HMC whose trajectory length is learnt across many chains.

The trajectory length follows, by Adam on its logarithm, the gradient of the change in the estimator of the expected
square,

    ChEES = ¼ E[(|x' - E x'|² - |x - E x|²)²],

and the step size is dual-averaged to an acceptance of 0.651 (the harmonic mean over chains). A transition takes
⌈u_i T/ε⌉ leapfrogs, u_i the van der Corput sequence, the same for all chains: chains stay in step. The metric is the
identity, as in the paper; Adam has the paper's rate 0.025 and β = (0, 0.95).

Hoffman, Radul & Sountsov 2021, AISTATS.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PyTree

from ..initial import DiagonalGaussian
from ..protocols import Fact
from ..runtime.drawing import Batch
from ..runtime.errors import ConfigError
from ..runtime.validation import Rule
from ..target import Density, Target
from .peers import AdaptationRow, Adapted, blackjax, fraction, hamiltonian_batch, lenient

_PLANNED = 1000
"""Transitions after warm-up that the jitter's bits are made for; it repeats itself after that."""


class ChEESParams(NamedTuple):
    """What warm-up leaves behind: one kernel for all chains."""

    state: PyTree
    """BlackJAX's `DynamicHMCState`: position, log-density, its gradient, and the place in the jitter's sequence."""
    step_size: Float[Array, ""]
    leapfrogs: Float[Array, ""]
    """T/ε, the longest trajectory in steps."""


@dataclass(frozen=True)
class ChEES(Adapted):
    """Settings of ChEES-HMC; ``ChEES().fit(target, key)`` gives a `Sampler`.

    Attributes:
      chains: chains that adapt together and run side by side.
      warmup: adaptation steps.
      target_acceptance: what dual averaging aims the harmonic mean of acceptance at.
      learning_rate: Adam's, on the log trajectory length.
      step_size: ε that adaptation starts from; the first trajectory is one such step.
      max_leapfrogs: the longest trajectory that adaptation may try, in steps.
    """

    chains: int = 64
    warmup: int = 1000
    target_acceptance: float = 0.651
    learning_rate: float = 0.025
    step_size: float = 0.1
    max_leapfrogs: int = 1000

    name: ClassVar[str] = "ChEES"
    title: ClassVar[str] = "ChEES-HMC, many chains (Hoffman, Radul & Sountsov; BlackJAX)"
    rules: ClassVar[Mapping[str, Rule]] = {"target_acceptance": fraction}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.chains < 2:
            raise ConfigError("chains must be at least 2 for ChEES: it learns from how they differ")

    def begin(self, target: Target, key: Array) -> ChEESParams:
        """The parameters before any tuning; also their shapes, for reading a file."""
        dynamic_hmc = blackjax().mcmc.dynamic_hmc
        position = self.initial(target).sample(key, self.chains)
        with lenient(target.dtype):
            place = jnp.zeros(self.chains, int)
            state = jax.vmap(lambda x, i: dynamic_hmc.init(x, target.density, i))(position, place)
        return ChEESParams(state, jnp.asarray(self.step_size, target.dtype), jnp.ones((), target.dtype))

    def warm_up(self, density: Density, initial: DiagonalGaussian, key: Array) -> tuple[ChEESParams, AdaptationRow]:
        """Adapt step size and trajectory length by BlackJAX's ChEES."""
        start_key, adapt_key = jax.random.split(key)
        adaptation = blackjax().chees_adaptation(
            density,
            self.chains,
            target_acceptance_rate=self.target_acceptance,
            max_leapfrog_steps=self.max_leapfrogs,
            adaptation_info_fn=lambda _, info, tuned: AdaptationRow(
                info.acceptance_rate.mean(),
                jnp.asarray(tuned.step_size),
                info.num_integration_steps.sum(),
                info.num_integration_steps.max(),
            ),
        )
        (state, tuned), rows = adaptation.run(
            adapt_key,
            initial.sample(start_key, self.chains),
            self.step_size,
            optax.adam(self.learning_rate, b1=0.0, b2=0.95),
            self.warmup,
            max_sampling_steps=_PLANNED,
        )
        params = ChEESParams(state, tuned["step_size"], tuned["integration_steps_params"][0])
        return params, AdaptationRow(rows.acceptance, rows.step_size, rows.gradients, rows.depth)

    def advance(self, density: Density, params: ChEESParams, state: PyTree, key: Array) -> tuple[PyTree, Batch]:
        """One jittered HMC transition of every chain."""
        kernel = blackjax().mcmc.dynamic_hmc.build_kernel(
            next_random_arg_fn=lambda place: place + 1, integration_steps_fn=self.trajectory
        )
        identity = jnp.ones_like(state.position[0])

        def step(key: Array, state: PyTree) -> PyTree:
            return kernel(key, state, density, params.step_size, identity, (params.leapfrogs,))

        with lenient(state.position.dtype):
            after, info = jax.vmap(step)(jax.random.split(key, self.chains), state)
            return after, hamiltonian_batch(state, after, info, identity)

    def trajectory(self, place: Array, longest: Array) -> Array:
        """⌈u_i T/ε⌉, the leapfrogs of transition i.

        BlackJAX hands this back as a function, which cannot be saved; here it is again, of BlackJAX's own sequence.
        """
        bits = math.ceil(math.log2(self.warmup + _PLANNED))
        return jnp.ceil(blackjax().mcmc.dynamic_hmc.halton_sequence(place, bits) * longest).astype(int)

    def facts(self, params: PyTree) -> dict[str, Fact]:
        """Plain facts for the draws' attributes."""
        return {"chains": self.chains, "warmup": self.warmup, "target_acceptance": self.target_acceptance}
