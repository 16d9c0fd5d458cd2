"""A Bayesian posterior over unconstrained values: its parts, and the priors of scales that the built-in ones share.

A scale σ > 0 is held as u = log σ. Densities below are of u: the prior of σ at e^u, plus the log-Jacobian u.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

Values = Mapping[str, Array]
"""One position, constrained or not, by variable."""
Columns = Mapping[str, np.ndarray]
"""Many draws by variable, each with a leading axis of draws, in float64."""
Data = Mapping[str, np.ndarray]
"""The data of a posterior by name, as posteriordb names them; single numbers are arrays without axes."""


class Posterior(NamedTuple):
    """What a `Target` of a posterior is made of."""

    logdensity: Callable[[Values], Array]
    """log π* of one unconstrained position, log-Jacobians included."""
    shapes: dict[str, tuple[int, ...]]
    """The shapes of the unconstrained variables."""
    constrain: Callable[[Values], dict[str, Array]]
    """One unconstrained position to the published variables, which its keys list in the published order."""
    unconstrain: Callable[[Columns], dict[str, np.ndarray]]
    """The inverse of ``constrain``, for many draws at once."""
    prior: dict[str, tuple[float, float]] | None = None
    """Mean and sd of each unconstrained variable under the prior; None where the prior is not proper."""


class ScalePrior(NamedTuple):
    """The prior of a scale σ, as a density of u = log σ."""

    logdensity: Callable[[Array], Array]
    """The log-density of u, up to a constant."""
    start: tuple[float, float]
    """The mean and the standard deviation of u."""


def half_cauchy(scale: float) -> ScalePrior:
    """σ ~ C(0, s) on σ > 0: u - log(1 + (e^u/s)²). log|C(0, 1)| has mean 0 and sd π/2."""
    return ScalePrior(lambda u: u - jax.nn.softplus(2 * (u - math.log(scale))), (math.log(scale), math.pi / 2))


def half_normal(scale: float) -> ScalePrior:
    """σ ~ N(0, s) on σ > 0: u - ½ (e^u/s)². log|N(0, 1)| has mean -(γ + log 2)/2 and sd π/√8."""
    mean = math.log(scale) - (np.euler_gamma + math.log(2)) / 2
    return ScalePrior(lambda u: u - 0.5 * jnp.exp(2 * (u - math.log(scale))), (mean, math.pi / math.sqrt(8)))


def half_t3(scale: float) -> ScalePrior:
    """σ ~ t_3(0, s) on σ > 0: u - 2 log(1 + (e^u/s)²/3).

    log|t_3| = log|N(0, 1)| - ½ log(χ²_3/3) has mean ½ log 3 - 1 (ψ(½) - ψ(3/2) = -2) and variance π²/4 - 1.
    """
    return ScalePrior(
        lambda u: u - 2 * jax.nn.softplus(2 * (u - math.log(scale)) - math.log(3)),
        (math.log(scale) + 0.5 * math.log(3) - 1, math.sqrt(math.pi**2 / 4 - 1)),
    )
