"""What a certificate looks at: log π*, every coordinate and its square, projections in random directions, and tails.

Random directions are taken where the draws have unit covariance, so that narrow directions of a correlated target are
seen as well as wide ones:

    z = A⁻¹ (x - m),    A A' = covariance of the central draws (those with the larger log π*; m their mean)

Leaving out the outer quarter keeps a few stray draws from deciding the scale. With few draws, A is diagonal.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

_CENTRAL = 0.75
_ENOUGH = 10  # draws per dimension for a full covariance
_REACH = 6.0
_PROJECTIONS = 32
_TAIL = 0.005


class Frame(NamedTuple):
    """Coordinates z in which the draws have about unit covariance."""

    centre: np.ndarray
    """m, ``(dim,)``."""
    scale: np.ndarray
    """A, ``(dim, dim)``, lower triangular."""
    inverse: np.ndarray
    """A⁻¹."""

    def whiten(self, x: np.ndarray) -> np.ndarray:
        """Positions ``(n, dim)`` to z."""
        return (np.asarray(x, np.float64) - self.centre) @ self.inverse.T

    def colour(self, z: np.ndarray) -> np.ndarray:
        """z back to positions."""
        return self.centre + z @ self.scale.T


def frame(positions: np.ndarray, logdensity: np.ndarray) -> Frame:
    """The frame of some draws, ``(n, dim)``; log π* must be finite at all of them."""
    central = np.asarray(positions[logdensity >= np.quantile(logdensity, 1 - _CENTRAL)], np.float64)
    n, dim = central.shape
    centre = central.mean(axis=0)
    sd = central.std(axis=0)
    sd = np.where(sd > 0, sd, 1.0)
    if n < _ENOUGH * dim:
        return Frame(centre, np.diag(sd), np.diag(1 / sd))
    scaled = (central - centre) / sd
    correlation = scaled.T @ scaled / n + 1e-8 * np.eye(dim)
    root = np.linalg.cholesky(correlation)
    return Frame(centre, sd[:, None] * root, np.linalg.inv(root) / sd)


class Functions(NamedTuple):
    """Real functions of a draw, with names to say which of them moved."""

    frame: Frame
    directions: np.ndarray
    """Unit vectors in z, ``(projections, dim)``."""
    names: tuple[str, ...]

    @staticmethod
    def of(frame: Frame, coordinates: tuple[str, ...], rng: np.random.Generator) -> Functions:
        """log π*, every coordinate and its square, and up to 32 random projections and their squares."""
        projections = min(_PROJECTIONS, 4 * len(coordinates))
        directions = rng.normal(size=(projections, len(coordinates)))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        named = [*coordinates, *(f"projection {k + 1}" for k in range(projections))]
        return Functions(frame, directions, ("log π*", *named, *(f"({name})²" for name in named)))

    def __call__(self, positions: np.ndarray, logdensity: np.ndarray) -> np.ndarray:
        """Their values at n positions, ``(n, functions)``."""
        linear = self.linear(positions)
        return np.concatenate([np.asarray(logdensity, np.float64)[:, None], linear, linear**2], axis=1)

    def linear(self, positions: np.ndarray) -> np.ndarray:
        """log π* and squares left out: centred coordinates and projections, ``(n, dim + projections)``."""
        centred = np.asarray(positions, np.float64) - self.frame.centre
        return np.concatenate([centred, centred @ (self.directions @ self.frame.inverse).T], axis=1)


class Tails(NamedTuple):
    """Whether a draw lies in the tails of a coordinate: beyond what all but 0.5 % of some other draws reach."""

    centre: np.ndarray
    limit: np.ndarray
    floor: float
    names: tuple[str, ...]

    @staticmethod
    def of(coordinates: tuple[str, ...], positions: np.ndarray, logdensity: np.ndarray) -> Tails:
        """Limits from draws that are then left out of the test."""
        centre = np.median(positions, axis=0)
        limit = np.quantile(np.abs(positions - centre), 1 - _TAIL, axis=0)
        names = ("the lower tail of log π*", *(f"the tails of {name}" for name in coordinates), "all tails")
        return Tails(centre, limit, float(np.quantile(logdensity, _TAIL)), names)

    def __call__(self, positions: np.ndarray, logdensity: np.ndarray) -> np.ndarray:
        """0 or 1, and how many coordinates of the draw are in their tails, ``(n, dim + 2)``."""
        outside = np.abs(positions - self.centre) > self.limit
        low = logdensity < self.floor
        return np.concatenate([low[:, None], outside, outside.sum(axis=1, keepdims=True)], axis=1, dtype=np.float64)


class Bounded(NamedTuple):
    """Functions in units of their spread over some draws, clipped: averages of them are normal whatever the tails."""

    functions: Functions
    centre: np.ndarray
    spread: np.ndarray

    @staticmethod
    def of(functions: Functions, positions: np.ndarray, logdensity: np.ndarray) -> Bounded:
        """Median and half the distance between the 16 % and 84 % quantiles over these draws."""
        low, centre, high = np.quantile(functions(positions, logdensity), (0.16, 0.5, 0.84), axis=0)
        return Bounded(functions, centre, np.where(high > low, (high - low) / 2, 1.0))

    def __call__(self, positions: np.ndarray, logdensity: np.ndarray) -> np.ndarray:
        """Values ``(n, functions)``, within ±6."""
        return np.clip((self.functions(positions, logdensity) - self.centre) / self.spread, -_REACH, _REACH)
