"""Bias of second moments, as papers on parallel samplers report it:

    b2_i = (Ê[x_i²] - E[x_i²])² / Var[x_i²],    its largest and its mean over i; "converged" is b2_max < 0.01

n independent exact draws have b2_i = 1/n on average, so 10,000 of them resolve 0.01 easily. Where a target has a truth,
x are the unconstrained coordinates; where it has a reference, the published constrained columns, and then E[x_i²] has
an error of its own: `SecondMoments.noise` is what b2_max owes to it.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

import jax
import numpy as np

from ergodic.draws import constrained
from ergodic.runtime.errors import TargetError
from ergodic.target import Reference, Target, Truth

_EXACT_DRAWS = 200_000
"""Exact draws from which Var[x_i²] is estimated where it is not known in closed form: good to a percent or two."""


class SecondMoments(NamedTuple):
    """What b2 is measured against; with another ``power``, what other moments' bias is."""

    names: tuple[str, ...]
    expected: np.ndarray
    """E[x_i²], ``(D,)``."""
    variance: np.ndarray
    """Var[x_i²], ``(D,)``."""
    noise: float
    """The largest squared standard error of ``expected`` over ``variance``; 0 when exact."""
    power: int = 2
    """1 where it is E[x_i] and Var[x_i] that are held."""


@runtime_checkable
class Moments(Protocol):
    """A truth that has what the bias of x (power 1) and of x² (power 2) is measured against."""

    def moments(self, power: int) -> SecondMoments:
        """The moments of that power."""
        ...


class Known(NamedTuple):
    """The moments of a target's own truth, or of its reference."""

    target: Target

    def moments(self, power: int) -> SecondMoments:
        """The moments of that power."""
        second = second_moments(self.target)
        if power == 2:
            return second
        truth, reference = self.target.truth, self.target.reference
        if truth is not None:
            return SecondMoments(second.names, truth.mean, np.diag(truth.covariance), 0.0, 1)
        assert reference is not None
        return SecondMoments(second.names, reference.mean, reference.sd**2, second.noise, 1)


class Bias(NamedTuple):
    """b2 of some draws."""

    largest: float
    mean: float
    worst: str
    """The coordinate with the largest."""
    noise: float
    """What the reference's own error adds to ``largest``, about."""

    def converged(self, level: float = 0.01) -> bool:
        """b2_max below the level, or below thrice the reference's noise where that is larger."""
        return self.largest < max(level, 3 * self.noise)


def second_moments(target: Target) -> SecondMoments:
    """From the target's truth, or else from its reference."""
    if target.truth is not None:
        return _of_truth(target, target.truth)
    if target.reference is not None:
        return _of_reference(target.reference)
    raise TargetError(f"nothing is known about '{target.name}': b2 needs a truth or a reference")


def squared_bias(
    target: Target,
    unconstrained: np.ndarray,
    weights: np.ndarray | None = None,
    moments: SecondMoments | None = None,
) -> Bias:
    """b2 of draws given as flat unconstrained positions, ``(n, dim)``; infinite where draws are not finite."""
    moments = second_moments(target) if moments is None else moments
    x = np.asarray(unconstrained)
    if target.truth is None and target.reference is not None:
        x = target.reference.columns(constrained(target, x))
    with np.errstate(over="ignore", invalid="ignore"):
        found = np.average(x.astype(np.float64) ** moments.power, axis=0, weights=weights)
    return bias_of(found, moments)


def bias_of(found: np.ndarray, moments: SecondMoments) -> Bias:
    """b2 of moments that draws had, ``(D,)``; infinite where they are not finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        b2 = (found - moments.expected) ** 2 / moments.variance
    b2 = np.where(np.isfinite(b2), b2, np.inf)
    return Bias(float(b2.max()), float(b2.mean()), moments.names[int(b2.argmax())], moments.noise)


def _of_truth(target: Target, truth: Truth) -> SecondMoments:
    expected = truth.mean**2 + np.diag(truth.covariance)
    variance = truth.square_variance
    if variance is None:
        exact = target.draw_exact(jax.random.key(0), _EXACT_DRAWS).astype(np.float64)
        variance = np.var(exact**2, axis=0)
    return SecondMoments(target.names, expected, variance, 0.0)


def _of_reference(reference: Reference) -> SecondMoments:
    """Var[x²] over the reference draws, or of a Gaussian, 2 σ⁴ + 4 μ² σ², where there are moments only.

    The error of E[x²] is not published; its effective size is taken to be that of E[x], (sd / standard error)².
    """
    mean, sd = reference.mean, reference.sd
    variance = 2 * sd**4 + 4 * mean**2 * sd**2 if reference.draws is None else np.var(reference.draws**2, axis=0)
    noise = float(np.max((reference.mcse_mean / sd) ** 2))
    return SecondMoments(reference.names, reference.mean_squared, variance, noise)
