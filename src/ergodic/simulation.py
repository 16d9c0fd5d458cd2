"""What a model says before it has seen data: positions of the prior, and data simulated from them."""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array, PyTree

from .draws import constrained, variables
from .model import Model
from .runtime.errors import TargetError
from .runtime.programs import compiled
from .target import Target


class PriorPredictive(NamedTuple):
    """Draws of the prior, and data simulated from each."""

    prior: dict[str, np.ndarray]
    """Constrained values by variable, the first axis that of draws."""
    data: dict[str, np.ndarray]
    """Simulated data by site, likewise."""


def prior_predictive(target: Target, key: Array, n: int) -> PriorPredictive:
    """n draws of the prior, and data simulated from them."""
    positions, data = simulated(target, key, n)
    return PriorPredictive(variables(constrained(target, positions)), data)


def simulated(target: Target, key: Array, n: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """n flat unconstrained positions of the prior, ``(n, dim)``, and data simulated from them, by site."""
    require(target, "prior", "predictive")
    keys = jax.random.split(key, n)
    return jax.device_get(compiled(_simulate, (_Simulator(target),), keys)(keys))


def require(target: Target, *parts: str) -> Model:
    """The target's model, which must have some parts; an error that says how to give them."""
    known = target.model._asdict()
    missing = [part for part in parts if known[part] is None]
    if missing:
        raise TargetError(
            f"'{target.name}' cannot be simulated: its model has no {', '.join(missing)}. Use eg.from_numpyro with "
            "proper priors and observed data, or give Target(..., model=eg.Model(prior=, predictive=, joint=))"
        )
    return target.model


class _Simulator(NamedTuple):
    """What is compiled to simulate: a target, whose model can."""

    target: Target


def _simulate(simulator: _Simulator, keys: Array) -> tuple[Array, dict[str, Array]]:
    target, model = simulator.target, simulator.target.model

    def one(key: Array) -> tuple[Array, PyTree]:
        prior_key, data_key = jax.random.split(key)
        position = model.prior(prior_key)  # type: ignore[misc]
        return target.layout.ravel(position), model.predictive(position, data_key)  # type: ignore[misc]

    return jax.vmap(one)(keys)
