"""What `HEI` and `LongChain` share: T Hamiltonian transitions from a Gaussian P0, with T and L as they were set."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from ..chain import ChainParams
from ..initial import DiagonalGaussian
from ..kernels import HMC
from ..protocols import Fact, FixedShapes, Hamiltonian


class HMCChain(FixedShapes, Hamiltonian):
    """A method whose chain is P0 and T transitions of `HMC`, each with step sizes and momentum variances of its own.

    Attributes:
      steps: T, transitions per draw.
      leapfrogs: L, sub-steps per transition.
      adjusted: whether there is a Metropolis step.
    """

    steps: int
    adjusted: bool

    @property
    def kernel(self) -> HMC:
        """The transition this method's chains are made of, with forces of all the data."""
        return HMC(leapfrogs=self.leapfrogs, adjusted=self.adjusted)

    def depth(self, params: PyTree) -> int:
        """T L + 1: the gradients that one draw costs."""
        return 1 + self.steps * self.leapfrogs

    def start(self, params: ChainParams) -> DiagonalGaussian:
        """P0, from which every run starts."""
        return params.initial

    def transitions(self, params: ChainParams) -> int:
        """T, as it was set."""
        return self.steps

    def speeds(self, params: ChainParams) -> Float[Array, "steps dim"]:
        """ε/√v of every transition and coordinate."""
        return jnp.exp(params.transitions.log_step - 0.5 * params.transitions.log_variance)

    def facts(self, params: PyTree) -> dict[str, Fact]:
        """Plain facts for the draws' attributes."""
        return {"steps": self.steps, "leapfrogs": self.leapfrogs, "adjusted": self.adjusted}
