"""What is known of a target: exactly, or by a long run that is trusted."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .runtime.errors import TargetError

if TYPE_CHECKING:
    from .target import Density


class Truth(NamedTuple):
    """What is known exactly about a target, for tests and tables."""

    expected_logdensity: float
    """E_π[log π*(x)], of the unnormalised density as the user wrote it."""
    log_z: float
    """log Z = log ∫ π*(x) dx."""
    mean: np.ndarray
    """E[x], ``(dim,)``."""
    covariance: np.ndarray
    """Cov[x], ``(dim, dim)``."""
    draw: Callable[[Array, int], np.ndarray] | None = None
    """``draw(key, n)``: n exact independent draws, ``(n, dim)``; None where there is no way to make them."""
    square_variance: np.ndarray | None = None
    """Var[x_i²], ``(dim,)``; None where it is not known in closed form."""

    @property
    def entropy(self) -> float:
        """H(π) = log Z - E_π[log π*(x)]."""
        return self.log_z - self.expected_logdensity


class Reference(NamedTuple):
    """What a long, trusted run says of a posterior for which nothing is known exactly: moments, and draws if published.

    Columns are the D scalars of the constrained values, in the published order.
    """

    variables: tuple[str, ...]
    """Leaves of the constrained pytree, in the order of the columns."""
    names: tuple[str, ...]
    """One a column, as published: ``theta[1]``, ..., ``tau``."""
    mean: np.ndarray
    """E, ``(D,)``."""
    sd: np.ndarray
    """Standard deviation, ``(D,)``."""
    mcse_mean: np.ndarray
    """Standard error of ``mean``, ``(D,)``."""
    draws: np.ndarray | None = None
    """Nearly independent draws of the constrained values, ``(n, D)``."""
    unconstrained: np.ndarray | None = None
    """The same draws as flat unconstrained positions, ``(n, dim)``."""

    @property
    def mean_squared(self) -> np.ndarray:
        """E of the square, ``(D,)``."""
        return self.mean**2 + self.sd**2

    def columns(self, constrained: Mapping[str, np.ndarray]) -> np.ndarray:
        """Constrained draws (as `Draws.position`: a leading axis of draws) laid out as the columns here, ``(n, D)``."""
        parts = [np.asarray(constrained[name], np.float64) for name in self.variables]
        return np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)

    def expected_logdensity(self, density: Density) -> tuple[float, float]:
        """E[log π*] over the reference draws, and its standard error; log π* up to the target's own constant."""
        if self.unconstrained is None:
            raise TargetError("this reference has moments only, no draws, so no estimate of E[log π*]")
        positions = jnp.asarray(self.unconstrained, density.layout.dtype)
        values = np.asarray(jax.jit(jax.vmap(density.__call__))(positions), np.float64)
        return float(values.mean()), float(values.std(ddof=1) / math.sqrt(len(values)))
