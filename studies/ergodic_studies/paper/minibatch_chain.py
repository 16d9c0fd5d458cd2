"""The appendix's chain on minibatches: every force from a random part of the data, and no Metropolis step."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar

import jax
from jaxtyping import Array, Float, PyTree

from ergodic.family import Family
from ergodic.family_sampler import FamilySampler
from ergodic.kernels import Ensemble, start
from ergodic.methods.long_chain import LongChain
from ergodic.protocols import Fact
from ergodic.runtime.errors import ConfigError, TargetError
from ergodic.target import Density

from .stochastic_hmc import StochasticDensity, StochasticHMC


@dataclass(frozen=True)
class MinibatchChain(LongChain):
    """`LongChain` with the target's estimates of its log-density (``minibatch``) instead of the log-density."""

    acceptance: float | None = None

    name: ClassVar[str] = "MinibatchChain"
    title: ClassVar[str] = "the appendix's chain, with forces from minibatches"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.acceptance is not None:
            raise ConfigError("with minibatches every move is accepted: acceptance must be None")

    @staticmethod
    def like(chain: LongChain) -> MinibatchChain:
        """The same settings, on minibatches."""
        return MinibatchChain(**{field.name: vars(chain)[field.name] for field in fields(chain)})

    def fit_family(self, family: Family, key: Array) -> FamilySampler:
        """Tune a chain to every member, all by one program."""
        if family.density.minibatch is None:
            raise TargetError("a chain on minibatches needs a family that can estimate itself: minibatch=...")
        return super().fit_family(family, key)

    def forces(self, density: Density) -> tuple[PyTree, PyTree]:
        """The kernel without a Metropolis step, and estimates of the forces, which need a key."""
        return StochasticHMC(self.leapfrogs), _estimates(density)

    def started(self, density: Density, position: Float[Array, "particles dim"], key: Array) -> Ensemble:
        """Particles with an estimate of the force at each."""
        estimates = _estimates(density)
        return start(lambda x: estimates(x, key), position)

    def facts(self, params: PyTree) -> dict[str, Fact]:
        """Plain facts for the draws' attributes."""
        return super().facts(params) | {"adjusted": False}


def _estimates(density: Density) -> StochasticDensity:
    """(log π*, ∂ log π*) of a random part of the data, of whole ensembles."""
    each = jax.vmap(jax.value_and_grad(density.estimated), (0, None))

    def estimated(positions: Array, key: Array) -> tuple[Array, Array]:
        found: tuple[Array, Array] = each(positions, key)
        return found

    return estimated
