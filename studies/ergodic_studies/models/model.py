"""A model of the benchmark: how it is made, and what else is known of it.

Data are simulated with a fixed seed of NumPy, so that every checkout has the same posterior without any files.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.distributions.transforms import OrderedTransform

import ergodic as eg
from ergodic.target import Target


class Problem(NamedTuple):
    """A NumPyro model and its arguments, which are data."""

    model: Callable[..., None]
    args: tuple[object, ...]


class Model(NamedTuple):
    """An entry of the registry."""

    title: str
    dim: int
    """The number of unconstrained coordinates, so that models can be listed without being made."""
    make: Callable[[], Problem]
    """Simulates the data."""
    twin: Callable[..., None] | None = None
    """The same posterior in coordinates without a neck, for the truth: it has every latent site of ``model``, as a
    latent site or as a deterministic one. None where the model's own coordinates are good ones."""

    def target(self, name: str) -> Target:
        """The posterior as a target, in JAX's default floating dtype."""
        problem = self.make()
        target = eg.from_numpyro(problem.model, *problem.args, name=name)
        if target.dim != self.dim:
            raise AssertionError(f"'{name}' has dimension {target.dim}, but the registry says {self.dim}")
        return target


def ordered(name: str, centres: np.ndarray, scale: float) -> jax.Array:
    """A site of values in increasing order: the first, and the logarithms of the gaps, are N(centres, scale)."""
    base = dist.Normal(jnp.asarray(centres), scale).to_event(1)
    return numpyro.sample(name, dist.TransformedDistribution(base, OrderedTransform()))
