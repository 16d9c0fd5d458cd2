"""A floor under every step's mean acceptance, for `HEI(acceptance_floor=...)`; not the paper's.

The EMLBO's gradient holds the Metropolis decisions, so it does not see that larger steps are rejected more often; a
step that always rejects gets no gradient at all and never comes back. With a floor a, a step of the chain whose mean
acceptance α over the particles of an iteration falls below it is taken back and shortened,

    log φ2 ← log φ2 - (a - α + 0.05)    wherever α < a

in place of its update; the 0.05 keeps it from creeping. When tuning is over, the same is repeated on fresh particles
until every step is above the floor.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..chain import ChainParams, simulate
from ..runtime.errors import ConfigError
from ..runtime.programs import Cost, compiled
from ..runtime.validation import finite_float
from ..target import Density
from .tunable import FrozenForceKernel, TunableKernel

_MORE = 0.05
_PARTICLES = 1000
_ROUNDS = 50


def check_acceptance(value: object, what: str) -> float:
    """The setting if it is a probability other than 0 and 1; otherwise an error that names ``what``."""
    number = finite_float(value, what)
    if not 0 < number < 1:
        raise ConfigError(f"{what} must be between 0 and 1, not {value}")
    return number


@dataclass(frozen=True)
class AcceptanceFloor:
    """The rule, as a guard that `ascent.maximise` takes.

    Attributes:
      kernel: the chain's kernel, which can be `slowed`.
      floor: a, the least mean acceptance.
    """

    kernel: FrozenForceKernel
    floor: float

    def __call__(self, current: ChainParams, updated: ChainParams, row: dict[str, Array]) -> ChainParams:
        """What an update becomes: steps below the floor are taken back and shortened."""
        low = row["acceptance"] < self.floor
        slowed = self.slowed(current, row["acceptance"]).transitions

        def either(new: Array, old: Array) -> Array:
            return jnp.where(low.reshape(-1, *(1,) * (new.ndim - 1)), old, new)

        return updated._replace(transitions=jax.tree_util.tree_map(either, updated.transitions, slowed))

    def slowed(self, params: ChainParams, acceptance: Float[Array, "steps"]) -> ChainParams:
        """The chain with every step below the floor shortened."""
        by = jnp.where(acceptance < self.floor, self.floor - acceptance + _MORE, 0)
        return params._replace(transitions=self.kernel.slowed(params.transitions, by))

    def settle(self, density: Density, params: ChainParams, key: Array) -> tuple[ChainParams, Cost]:
        """Shorten steps until all are above the floor on 1,000 fresh particles; at most fifty times."""
        program = compiled(_acceptance, (density, self.kernel, _PARTICLES), params, key)
        rounds = 0
        while rounds < _ROUNDS:
            acceptance = program(params, jax.random.fold_in(key, rounds))
            rounds += 1
            if np.all(np.asarray(acceptance) >= self.floor):
                break
            params = self.slowed(params, acceptance)
        depth = rounds * (1 + params.steps * self.kernel.gradients)
        return params, Cost(depth * _PARTICLES, depth)


def _acceptance(
    density: Density, kernel: TunableKernel, particles: int, params: ChainParams, key: Array
) -> Float[Array, "steps"]:
    return simulate(density.batched, kernel, params, key, particles)[2].acceptance
