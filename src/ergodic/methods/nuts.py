"""The no-U-turn sampler with Stan's window adaptation, from BlackJAX.

Each chain doubles its trajectory until it turns back on itself and draws its next state from the whole of it with
probability ∝ exp(-H); num_integration_steps, the length of that trajectory, is what the transition cost. Warm-up is
BlackJAX's `window_adaptation`: dual averaging of the step size to an acceptance of 0.8, and a diagonal metric from the
variances in windows that double. It adapts one chain, and its authors say to vmap it: as in Stan, every chain adapts on
its own and keeps its own step size and metric.

Hoffman & Gelman 2014, JMLR 15; multinomial draws after Betancourt 2017, arXiv:1701.02434.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from ..initial import DiagonalGaussian
from ..protocols import Fact
from ..runtime.drawing import Batch
from ..runtime.validation import Rule
from ..target import Density, Target
from .peers import AdaptationRow, Adapted, blackjax, fraction, hamiltonian_batch, lenient


class NUTSParams(NamedTuple):
    """What warm-up leaves behind, chain by chain."""

    state: PyTree
    """BlackJAX's `HMCState`: position, log-density and its gradient."""
    step_size: Float[Array, "chains"]
    inverse_mass: Float[Array, "chains dim"]
    """The diagonal of M⁻¹: the variances seen in the last window."""


@dataclass(frozen=True)
class NUTS(Adapted):
    """Settings of NUTS; ``NUTS().fit(target, key)`` gives a `Sampler` whose chains go on where warm-up left them.

    Attributes:
      chains: chains that run side by side.
      warmup: adaptation steps per chain; below 20 the metric is not adapted.
      target_acceptance: what dual averaging aims the average acceptance at.
      max_doublings: a trajectory has at most 2^this steps.
    """

    chains: int = 4
    warmup: int = 1000
    target_acceptance: float = 0.8
    max_doublings: int = 10

    name: ClassVar[str] = "NUTS"
    title: ClassVar[str] = "No-U-turn sampler, window adaptation (Hoffman & Gelman; BlackJAX)"
    rules: ClassVar[Mapping[str, Rule]] = {"target_acceptance": fraction}

    def begin(self, target: Target, key: Array) -> NUTSParams:
        """The parameters before any tuning; also their shapes, for reading a file."""
        nuts = blackjax().mcmc.nuts
        position = self.initial(target).sample(key, self.chains)
        with lenient(target.dtype):
            state = jax.vmap(lambda x: nuts.init(x, target.density))(position)
        return NUTSParams(state, jnp.ones(self.chains, target.dtype), jnp.ones_like(position))

    def warm_up(self, density: Density, initial: DiagonalGaussian, key: Array) -> tuple[NUTSParams, AdaptationRow]:
        """BlackJAX's window adaptation of each chain from its own start."""
        start_key, adapt_key = jax.random.split(key)
        adaptation = blackjax().window_adaptation(
            blackjax().nuts,
            density,
            target_acceptance_rate=self.target_acceptance,
            adaptation_info_fn=lambda _, info, tuned: (
                info.acceptance_rate,
                tuned.step_size,
                info.num_integration_steps,
            ),
            max_num_doublings=self.max_doublings,
        )
        (state, tuned), (acceptance, step_size, steps) = jax.vmap(lambda k, x: adaptation.run(k, x, self.warmup))(
            jax.random.split(adapt_key, self.chains), initial.sample(start_key, self.chains)
        )
        row = AdaptationRow(acceptance.mean(axis=0), step_size.mean(axis=0), steps.sum(axis=0), steps.max(axis=0))
        return NUTSParams(state, tuned["step_size"], tuned["inverse_mass_matrix"]), row

    def advance(self, density: Density, params: NUTSParams, state: PyTree, key: Array) -> tuple[PyTree, Batch]:
        """One NUTS transition of every chain, with its own step size and metric."""
        kernel = blackjax().mcmc.nuts.build_kernel()

        def step(key: Array, state: PyTree, step_size: Array, inverse_mass: Array) -> PyTree:
            return kernel(key, state, density, step_size, inverse_mass, self.max_doublings)

        with lenient(state.position.dtype):
            keys = jax.random.split(key, self.chains)
            after, info = jax.vmap(step)(keys, state, params.step_size, params.inverse_mass)
            return after, hamiltonian_batch(state, after, info, params.inverse_mass)

    def facts(self, params: PyTree) -> dict[str, Fact]:
        """Plain facts for the draws' attributes."""
        return {"chains": self.chains, "warmup": self.warmup, "target_acceptance": self.target_acceptance}
