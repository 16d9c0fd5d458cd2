"""Does it matter where the chain starts? P_T from P0 and the same chain from elsewhere must agree.

Stationarity and Stein's identities hold within each of several separate modes, whatever weights they were given: only
another start shows that. Three are tried, in the whitened frame of the draws (`functions.frame`):

- ``inflated``: N(0, 3² I) and N(0, 1.5² I) by turns, as superchains: K starting points, M chains from each
  (`rhat.nested_rhat`);
- ``displaced`` by 3, both ways along the direction in which the draws look most like two heaps (smallest kurtosis).

Each goes through the chain several times. A start that is still moving at the end says nothing against the draws; one
that has settled elsewhere does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..statistics.hypotheses import average, groups, smallest, two_averages, two_samples
from ..statistics.levels import floor_of
from ..statistics.rhat import nested_rhat
from .functions import Bounded, Frame, Functions

ROUNDS = 3
MEMBERS = 10
SETTLED = 0.01
"""The share of other starts that need not have joined the draws."""
KINDS = ("inflated", "displaced +", "displaced -")
_REACH = 3.0

Move = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
"""``move(positions) -> (positions, log π*)``: once through the sampler's chain, with fresh randomness."""


class Followed(NamedTuple):
    """Particles after the last round but one, and after the last."""

    middle: np.ndarray
    middle_logdensity: np.ndarray
    end: np.ndarray
    end_logdensity: np.ndarray

    def moved(self, floor: float) -> np.ndarray:
        """Which particles are somewhere, and did not stay where they were for a whole round.

        A particle whose log π* is still below the floor is in no mode: it has not got away from where it was put.
        """
        somewhere = np.isfinite(self.middle_logdensity) & (self.end_logdensity > floor)
        return somewhere & np.any(self.end != self.middle, axis=1)


class OwnDraws(NamedTuple):
    """The draws that starts are compared with."""

    look: Bounded
    values: np.ndarray
    """Bounded functions of the draws, ``(n, functions)``."""
    ordered: np.ndarray
    """The same, every column sorted."""
    whitened: np.ndarray
    """``(n, dim)``."""
    floor: float
    """log π* that no mode has that would count: so many spreads below the median."""

    @staticmethod
    def of(functions: Functions, positions: np.ndarray, logdensity: np.ndarray) -> OwnDraws:
        """Look at the draws once."""
        look = Bounded.of(functions, positions, logdensity)
        values = look(positions, logdensity)
        whitened = functions.frame.whiten(positions)
        return OwnDraws(look, values, np.sort(values, axis=0), whitened, floor_of(logdensity))


class Agreement(NamedTuple):
    """A start against the draws."""

    moving: float
    """p-value: do its averages still change in the last round?"""
    differs: float
    """p-value: does it differ from the draws?"""
    where: str
    """The function that differs most."""
    distance: float
    """How far its mean is from the draws', in units of their spread."""


def starting_points(
    functions: Functions, positions: np.ndarray, n: int, rng: np.random.Generator, groups: int = MEMBERS
) -> dict[str, np.ndarray]:
    """Where to start: ``{name: (n, dim)}``. Inflated ones come in ``groups`` of as many equal rows."""
    frame, dim = functions.frame, positions.shape[1]
    points = rng.normal(size=(n // groups, dim))
    points[::2] *= _REACH
    points[1::2] *= _REACH / 2
    shift = _REACH * two_heaps(frame, positions)
    around = np.repeat(points, groups, axis=0), rng.normal(size=(n, dim)) + shift, rng.normal(size=(n, dim)) - shift
    return {name: frame.colour(z) for name, z in zip(KINDS, around, strict=True)}


def two_heaps(frame: Frame, positions: np.ndarray) -> np.ndarray:
    """A unit vector in z: of the principal axes and the coordinates, that along which kurtosis is smallest."""
    sd = positions.std(axis=0) + 1e-300
    standardised = (positions - positions.mean(axis=0)) / sd
    _, axes = np.linalg.eigh(standardised.T @ standardised / len(positions))
    candidates = np.concatenate([axes.T, np.eye(positions.shape[1])]) * sd  # displacements of x
    directions = candidates @ frame.inverse.T
    directions /= np.linalg.norm(directions, axis=1, keepdims=True) + 1e-300
    along = frame.whiten(positions) @ directions.T
    squares = (along - along.mean(axis=0)) ** 2
    kurtosis = np.einsum("ij,ij->j", squares, squares) / (squares.mean(axis=0) ** 2 + 1e-300)
    return directions[np.argmin(kurtosis)]


def follow(begin: np.ndarray, move: Move) -> Followed:
    """Through the chain `ROUNDS` times."""
    states = [(begin, np.full(len(begin), np.nan))]
    for _ in range(ROUNDS):
        states.append(move(states[-1][0]))
    return Followed(*states[-2], *states[-1])


def compare(path: Followed, draws: OwnDraws) -> Agreement:
    """Whether a start has settled, and whether it has settled where the draws are.

    Means and distributions of every function are compared, and the means along two directions in which half of the
    particles lie furthest from the draws, for the other half: a small distant heap is spread over all coordinates.
    """
    moved, look = path.moved(draws.floor), draws.look
    theirs = look(path.end, path.end_logdensity)[moved]
    change = average(theirs - look(path.middle, path.middle_logdensity)[moved])
    means, shapes = two_averages(draws.values, theirs), two_samples(draws.ordered, theirs)

    frame = look.functions.frame
    z = frame.whiten(path.end[moved])
    half = len(z) // 2  # whole superchains
    found = _furthest(z[:half])
    clip = 2 * _REACH
    along = [np.clip(v @ found.T, -clip, clip) for v in (draws.whitened, z[half:])]
    ours_along, theirs_along = (np.concatenate([v, v**2], axis=1) for v in along)
    extra = two_averages(ours_along, theirs_along)

    p_values = np.concatenate([np.minimum(1, 2 * np.minimum(means.p_value, shapes.p_value)), extra.p_value])
    names = [*look.functions.names, *("a direction of its own",) * 2, *("a direction of its own, squared",) * 2]
    ours = [*draws.values.mean(axis=0), *ours_along.mean(axis=0)]
    distance = np.array([*theirs.mean(axis=0), *theirs_along.mean(axis=0)]) - ours
    worst = int(np.argmin(p_values))
    return Agreement(smallest(change.p_value), smallest(p_values), names[worst], float(distance[worst]))


def memory(path: Followed, draws: OwnDraws) -> tuple[float, float, str]:
    """Of superchains that all moved: the p-value that they agree, the largest nested R̂, the function that has it."""
    values = draws.look(path.end, path.end_logdensity)
    values = values.reshape(-1, MEMBERS, values.shape[1])[path.moved(draws.floor).reshape(-1, MEMBERS).all(axis=1)]
    if len(values) < 2:
        return 1.0, 1.0, ""
    rhat = nested_rhat(values)
    worst = int(np.argmax(rhat))
    return smallest(groups(values).p_value), float(rhat[worst]), draws.look.functions.names[worst]


def _furthest(z: np.ndarray) -> np.ndarray:
    """The direction of largest spread, and that of the mean: two unit vectors."""
    z = np.clip(z, -10 * _REACH, 10 * _REACH)
    _, vectors = np.linalg.eigh(np.atleast_2d(np.cov(z.T)))
    mean = z.mean(axis=0)
    return np.stack([vectors[:, -1], mean / (np.linalg.norm(mean) + 1e-300)])
