"""Targets of `ergodic bench bounds`, and of those whose law is known, parts of space with their exact probabilities.

A distance cannot be estimated from draws without bias, but it can be limited from below: for every set A

    TV(P_T, π) >= P_T(A) - π(A)

and A may be any set that one half of the draws suggests, if P_T(A) is what the other half says. A is made of parts of
space of which π(A) is known: cells of a grid by quadrature, in one dimension and in two, and of Gaussians the
products of quantiles of a direction and of what is left of |z|², which are independent.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy import special

import ergodic as eg
from ergodic.target import Target
from ergodic.targets.quadrature import gauss_legendre
from ergodic.targets.synthetic import PAPER_SIX, SYNTHETIC

from . import hard_targets as on

_ORDER, _PANELS, _LINES = 8, 192, 768
"""Of quadrature; panels a side of a plane, and of a line."""
_CELLS, _BINS = 24, 96
"""Cells a side of a plane, and of a line."""
_DIRECTION, _RADIUS = 12, 12
"""Quantiles of a Gaussian's direction, and of what is left of |z|²."""


class Below(NamedTuple):
    """What draws say of a total variation from below."""

    value: float
    """P_T(A) - π(A), without bias."""
    error: float
    """Its standard error."""


@dataclass(frozen=True, eq=False)
class Known:
    """A target whose law is known.

    Attributes:
      target: what is sampled.
      parts: from some draws, a function that numbers the part in which others lie, and π of every part.
    """

    target: Target
    parts: Callable[[np.ndarray], tuple[Callable[[np.ndarray], np.ndarray], np.ndarray]]

    def below(self, draws: np.ndarray) -> Below:
        """The total variation of independent draws from the target, from below."""
        draws = draws[np.isfinite(draws).all(axis=1)].astype(np.float64)
        first, second = draws[::2], draws[1::2]
        number, mass = self.parts(first)
        chosen = np.bincount(number(first), minlength=len(mass)) / len(first) > mass
        share = float(chosen[number(second)].mean())
        return Below(share - float(mass[chosen].sum()), math.sqrt(share * (1 - share) / len(second)))


def plane(name: str) -> Known:
    """One of the paper's six."""
    entry = SYNTHETIC[name]
    sides = [gauss_legendre(*side, _PANELS, _ORDER) for side in entry.box]
    grid = np.stack(np.meshgrid(*(nodes for nodes, _ in sides), indexing="ij"), axis=-1).reshape(-1, 2)
    mass = _masses(entry.logdensity, grid) * np.outer(sides[0][1], sides[1][1]).ravel()
    each = _PANELS // _CELLS * _ORDER
    cells = mass.reshape(_CELLS, each, _CELLS, each).sum(axis=(1, 3)).ravel()
    low, high = np.array(entry.box).T

    def number(x: np.ndarray) -> np.ndarray:
        at = np.clip(((x - low) / (high - low) * _CELLS).astype(int), 0, _CELLS - 1)
        return np.asarray(at[:, 0] * _CELLS + at[:, 1])

    return Known(eg.targets.get(name), lambda draws: (number, cells / cells.sum()))


def line(name: str, logdensity: Callable[[Array], Array], low: float, high: float) -> Known:
    """A target of one dimension."""
    nodes, weights = gauss_legendre(low, high, _LINES, _ORDER)
    mass = _masses(logdensity, nodes[:, None]) * weights
    cells = mass.reshape(_BINS, -1).sum(axis=1)

    def number(x: np.ndarray) -> np.ndarray:
        return np.clip(((x[:, 0] - low) / (high - low) * _BINS).astype(int), 0, _BINS - 1)

    return Known(Target(logdensity, like=jnp.zeros(1), name=name), lambda draws: (number, cells / cells.sum()))


def normal(target: Target, standard: Callable[[np.ndarray], np.ndarray]) -> Known:
    """A target some function of which is N(0, I): along the direction in which draws are off, and across it."""
    mass = np.full(_DIRECTION * _RADIUS, 1 / (_DIRECTION * _RADIUS))

    def parts(draws: np.ndarray) -> tuple[Callable[[np.ndarray], np.ndarray], np.ndarray]:
        mean = standard(draws).mean(axis=0)
        way, left = mean / np.linalg.norm(mean), draws.shape[1] - 1

        def number(x: np.ndarray) -> np.ndarray:
            z = standard(x)
            along = z @ way
            across = special.chdtr(left, np.sum(z**2, axis=1) - along**2)
            at = (special.ndtr(along) * _DIRECTION).astype(int), (across * _RADIUS).astype(int)
            return np.minimum(at[0], _DIRECTION - 1) * _RADIUS + np.minimum(at[1], _RADIUS - 1)

        return number, mass

    return Known(target, parts)


def _masses(logdensity: Callable[[Array], Array], grid: np.ndarray) -> np.ndarray:
    values = np.asarray(jax.jit(jax.vmap(logdensity))(jnp.asarray(grid, float)), np.float64)
    return np.exp(values - values.max())


def _student(x: Float[Array, "1"]) -> Array:
    """Student's t with 5 degrees of freedom."""
    return -3.0 * jnp.log1p(x[0] ** 2 / 5.0)


def _heaps(x: Float[Array, "1"]) -> Array:
    """0.7 N(0, 1) + 0.3 N(3, 1/4)."""
    logs = jnp.asarray(np.log([0.7, 0.6]), x.dtype)
    return jax.nn.logsumexp(logs - 0.5 * jnp.stack([x[0], 2 * (x[0] - 3.0)]) ** 2)


def _unfunneled(x: np.ndarray) -> np.ndarray:
    return np.concatenate([x[:, :1] / 3, x[:, 1:] * np.exp(-0.5 * x[:, :1])], axis=1)


_KNOWN: dict[str, Callable[[], Known]] = {
    "student-1": lambda: line("student-1", _student, -60.0, 60.0),
    "heaps-1": lambda: line("heaps-1", _heaps, -8.0, 8.0),
    **{name: (lambda name=name: plane(name)) for name in PAPER_SIX},  # type: ignore[misc]
    "gaussian-10": lambda: normal(on.gaussian(10).target, np.asarray),
    "gaussian-50": lambda: normal(on.gaussian(50).target, np.asarray),
    "funnel-10": lambda: normal(on.funnel(10).target, _unfunneled),
}
KNOWN = tuple(_KNOWN)
"""Targets whose law is known."""
_POSTERIORS = ("german-credit", "eight-schools-centred", "eight-schools")
POSED = (*PAPER_SIX, *_POSTERIORS, "funnel-10", "gaussian-10", "gaussian-50")
"""Targets of which a bound is asked for, those of the paper first."""


@cache
def known(name: str) -> Known:
    """A target whose law is known, by name."""
    return _KNOWN[name]()


def target_of(name: str) -> Target:
    """Any of the study's targets."""
    return known(name).target if name in KNOWN else eg.targets.get(name)
