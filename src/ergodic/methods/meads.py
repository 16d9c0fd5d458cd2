"""MEADS from BlackJAX: generalised HMC, tuned without rejection rates by what the ensemble shows of the target.

The kernel is one leapfrog a transition with a momentum that persists, p ← √(1-α) p + √α n, and Neal's slice variable
that moves by δ a transition instead of a fresh uniform. From the chains of another fold, scaled to unit variance,

    ε = ½ / √λ_max(E g gᵀ),    γ = 1 / √λ_max(E x xᵀ),    α = 1 - exp(-2 ε γ),    δ = α/2,

and the momentum's scale are set anew at every step of warm-up. Sampling takes the averages over the folds at its end.
One gradient per transition: neighbouring draws of a chain are close, and many chains make up for it.

Hoffman & Sountsov 2022, AISTATS, algorithm 3; slice variable after Neal 2020, arXiv:2001.11950.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from ..initial import DiagonalGaussian
from ..protocols import Fact
from ..runtime.drawing import Batch
from ..runtime.errors import ConfigError
from ..target import Density, Target
from .peers import AdaptationRow, Adapted, blackjax, hamiltonian_batch, lenient


class MEADSParams(NamedTuple):
    """What warm-up leaves behind: one kernel for all chains."""

    state: PyTree
    """BlackJAX's `GHMCState`: position, momentum, log-density, its gradient, and the slice variable."""
    step_size: Float[Array, ""]
    scale: Float[Array, "dim"]
    """The chains' standard deviations; their squares are the diagonal of M⁻¹."""
    alpha: Float[Array, ""]
    """How much of the momentum is new at each transition."""
    delta: Float[Array, ""]
    """How far the slice variable moves."""


@dataclass(frozen=True)
class MEADS(Adapted):
    """Settings of MEADS; ``MEADS().fit(target, key)`` gives a `Sampler`.

    Attributes:
      chains: chains that adapt together and run side by side; a multiple of ``folds``.
      folds: groups of chains; each is tuned by another, and one in turn waits at each step.
      warmup: adaptation steps.
    """

    chains: int = 64
    folds: int = 4
    warmup: int = 1000

    name: ClassVar[str] = "MEADS"
    title: ClassVar[str] = "MEADS generalised HMC, many chains (Hoffman & Sountsov; BlackJAX)"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.chains % self.folds or self.chains < 2 * self.folds:
            raise ConfigError(
                f"chains must be a multiple of folds, with at least 2 in each, not {self.chains} in {self.folds} folds"
            )

    def begin(self, target: Target, key: Array) -> MEADSParams:
        """The parameters before any tuning; also their shapes, for reading a file."""
        ghmc = blackjax().mcmc.ghmc
        start_key, init_key = jax.random.split(key)
        position = self.initial(target).sample(start_key, self.chains)
        keys = jax.random.split(init_key, self.chains)
        with lenient(target.dtype):
            state = jax.vmap(lambda x, k: ghmc.init(x, target.density, k))(position, keys)
        one = jnp.ones((), target.dtype)
        return MEADSParams(state, one, jnp.ones_like(position[0]), one, one / 2)

    def warm_up(self, density: Density, initial: DiagonalGaussian, key: Array) -> tuple[MEADSParams, AdaptationRow]:
        """BlackJAX's MEADS adaptation. The fold that waits is computed all the same, and counted."""
        start_key, adapt_key = jax.random.split(key)
        adaptation = blackjax().meads_adaptation(
            density,
            self.chains,
            self.folds,
            adaptation_info_fn=lambda _, info, tuned: (info.acceptance_rate.mean(), tuned.step_size.mean()),
        )
        positions = initial.sample(start_key, self.chains)
        (state, tuned), (acceptance, step_size) = adaptation.run(adapt_key, positions, self.warmup)
        params = MEADSParams(state, tuned["step_size"], tuned["momentum_inverse_scale"], tuned["alpha"], tuned["delta"])
        once = jnp.ones(self.warmup, jnp.int32)
        return params, AdaptationRow(acceptance, step_size, self.chains * once, once)

    def advance(self, density: Density, params: MEADSParams, state: PyTree, key: Array) -> tuple[PyTree, Batch]:
        """One generalised HMC transition of every chain: one gradient."""
        kernel = blackjax().mcmc.ghmc.build_kernel()

        def step(key: Array, state: PyTree) -> PyTree:
            return kernel(key, state, density, params.step_size, params.scale, params.alpha, params.delta)

        with lenient(state.position.dtype):
            after, info = jax.vmap(step)(jax.random.split(key, self.chains), state)
            return after, hamiltonian_batch(state, after, info, params.scale**2)

    def facts(self, params: PyTree) -> dict[str, Fact]:
        """Plain facts for the draws' attributes."""
        return {"chains": self.chains, "warmup": self.warmup}
