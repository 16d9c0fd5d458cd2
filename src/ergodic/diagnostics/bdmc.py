"""Bidirectional Monte Carlo (Grosse et al. 2015; Wu et al. 2017): log Z between two stochastic bounds.

Forward AIS from p0 underestimates: E[log mean w] <= log Z. From exact draws of π the same chain run backwards, β from 1
to 0, gives weights with E[1/w] = 1/Z, so -log mean(1/w) overestimates. Their distance bounds the error of either.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ..protocols import Bidirectional
from ..runtime.errors import ConfigError
from ..runtime.programs import compiled
from ..sampler import Sampler
from ..target import Density


class Sandwich(NamedTuple):
    """log Z from below and from above, each with its standard error."""

    lower: float
    lower_error: float
    upper: float
    upper_error: float

    @property
    def width(self) -> float:
        """How far the two bounds are apart."""
        return self.upper - self.lower


def sandwich(sampler: Sampler, key: Array, exact: np.ndarray) -> Sandwich:
    """Bound log Z with a fitted HAIS sampler and exact draws of its target, one backward chain per draw."""
    if not isinstance(sampler.method, Bidirectional):
        raise ConfigError(f"bidirectional Monte Carlo needs a HAIS sampler, not {sampler.method.name}")
    forward_key, backward_key = jax.random.split(key)
    lower, lower_error = sampler.sample(forward_key, len(exact), weighted=True, progress=False).log_z()
    positions = jnp.asarray(exact, sampler.target.dtype)
    program = compiled(_backward, (sampler.method, sampler.target.density), sampler.params, positions, backward_key)
    log_weight = np.asarray(program(sampler.params, positions, backward_key), np.float64)
    inverse = np.exp(-(log_weight - log_weight.min()))
    upper = float(log_weight.min() - np.log(inverse.mean()))
    return Sandwich(lower, lower_error, upper, float(inverse.std(ddof=1) / inverse.mean() / np.sqrt(len(inverse))))


def _backward(method: Bidirectional, density: Density, params: PyTree, exact: Array, key: Array) -> Array:
    return method.backward(density, params, exact, key)
