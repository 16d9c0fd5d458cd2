"""Find each coordinate's own driver, from stored pairs of positions and forces alone, for a `PairedLayer`.

Where y_i ~ N(m_i, e^{2 s_i(v)}) the force is -(y_i - m_i) e^{-2 s_i}, so log|y_i - m_i| - log|f_i| is 2 s_i(v) itself,
with noise only where m_i is not the mean. Its correlations with all coordinates, and those of log|f_i|, are a product
of matrices each. The largest are taken one by one; what drives is not driven. The shared driver is the one that the
driven have most in common besides, and its weight is that of a least-squares fit to both, or the power of two nearest
to it. What is seen, and what a model's hints say, is fitted by Fisher divergence (`fisher.py`) on half of the pairs,
judged on the other half, and kept if it gains three standard errors. A few drivers alone are left to other layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import PyTree

from .fisher import Pairs, curves, left_of
from .paired import PairedLayer

CERTAIN = 3.0
WORTH = 0.01
_SEEN = 5.0
_FEW = 5


class Assignment(NamedTuple):
    """Which coordinates are driven, each by which, and by which besides."""

    driven: np.ndarray
    driver: np.ndarray
    common: int = 0
    weight: float = 0.0
    """Of the shared driver, to the own driver's 1; 0 where there is none."""


class FoundPairs(NamedTuple):
    """A layer of the only member, and how much it lowered the divergence of pairs held out."""

    layers: list[PairedLayer]
    assignment: Assignment
    before: float
    after: float
    error: float

    @property
    def drivers(self) -> list[int]:
        """The coordinates that drive any."""
        return self.layers[0].drivers()

    def again(self, members: Sequence[Pairs]) -> FoundPairs:
        """The same layer, from other pairs."""
        return self._replace(layers=[fit_paired(pairs, self.assignment) for pairs in members])


def paired(pairs: Pairs, rng: np.random.Generator, hints: np.ndarray) -> FoundPairs | None:
    """The best layer of what is seen in the pairs and what is hinted, if what it gains is beyond doubt."""
    strength = links(pairs)
    noise = len(pairs.position) ** -0.5
    busiest = int(np.argmax(np.where(strength > _SEEN * noise, strength, 0).sum(axis=1)))
    singly = (_seen(strength, noise), _seen(strength, noise, busiest), _hinted(hints))
    guesses = [guess for guess in singly if len(np.unique(guess.driver)) >= _FEW]
    if not guesses:
        return None
    together = [_shared(pairs, strength, guess) for guess in guesses]
    guesses += [*together, *(guess._replace(weight=_power_of_two(guess.weight)) for guess in together)]
    train, test = (pairs.rows(rows) for rows in np.array_split(rng.permutation(len(pairs.position)), 2))
    before = left_of(train, test)
    layers = [fit_paired(train, guess) for guess in guesses]
    after = [left_of(train.behind(layer), test.behind(layer)) for layer in layers]
    best = int(np.argmin([each.mean() for each in after]))
    gain = before - after[best]
    error = float(gain.std() / np.sqrt(len(gain)))
    if not gain.mean() > max(CERTAIN * error, WORTH):
        return None
    layer = fit_paired(pairs, guesses[best])
    return FoundPairs([layer], guesses[best], float(before.mean()), float(after[best].mean()), error)


def links(pairs: Pairs) -> np.ndarray:
    """How much coordinate i's log scale follows coordinate j, ``[j, i]``; 0 where i is j.

    Two correlations in one, of what the force says at a position, and of the force's size, which no mean disturbs.
    """
    force = np.log(np.abs(pairs.force - pairs.force.mean(axis=0)) + 1e-300)
    v, n = _standard(pairs.position), len(pairs.position)
    found = np.hypot(*(v.T @ _standard(said) / n for said in (_log_scales(pairs), force)))
    np.fill_diagonal(found, 0)
    return found


def fit_paired(pairs: Pairs, assignment: Assignment) -> PairedLayer:
    """The layer in which coordinates drive others as they are assigned."""
    driven, driver, common, weight = assignment
    x, force = pairs
    dim, away = x.shape[1], x - x.mean(axis=0)
    v = away[:, driver] + weight * away[:, [common]]
    spread = np.maximum(v.std(axis=0), 1e-12)
    found = curves(away[:, driven], force[:, driven], (v / spread).T[:, :, None], lifted=True)

    def at(values: np.ndarray) -> np.ndarray:
        whole = np.zeros((*values.shape[:-1], dim))
        whole[..., driven] = values
        return whole

    index = np.arange(dim)
    index[driven] = driver
    shared = np.eye(dim)[common] * float(weight != 0)
    curves_of = map(at, (found.shift, found.slope[0], found.rise, found.mean, found.scale))
    layer: PyTree = (np.ones(()), index * 1.0, x.mean(axis=0), at(1 / spread), shared, at(weight / spread), *curves_of)
    return PairedLayer(*layer)


def _seen(strength: np.ndarray, noise: float, shared: int | None = None) -> Assignment:
    """Every coordinate's strongest link, where there is no stronger one against it; one may drive many, and is nobody's
    own."""
    dim = len(strength)
    strength = strength * (np.arange(dim) != shared)[:, None]
    order = np.argsort(-strength, axis=None)[: np.sum(strength > _SEEN * noise)]
    role, own = np.zeros(dim, int), np.arange(dim)  # 1 drives, -1 is driven
    role[[] if shared is None else [shared]] = 1
    for driver, driven in zip(*np.unravel_index(order, strength.shape), strict=True):
        if role[driver] >= 0 and role[driven] == 0:
            role[driver], role[driven], own[driven] = 1, -1, driver
    return Assignment(np.flatnonzero(role < 0), own[role < 0])


def _hinted(hints: np.ndarray) -> Assignment:
    """Of every coordinate's hinted drivers, the one that drives the fewest: the others are for all."""
    roles = set(hints[:, 0].tolist())
    count = dict(zip(*np.unique(hints[:, 0], return_counts=True), strict=True))
    own: dict[int, int] = {}
    for driver, driven in hints.tolist():
        if driven not in roles and (driven not in own or count[driver] < count[own[driven]]):
            own[driven] = driver
    return Assignment(np.array(list(own), int), np.array(list(own.values()), int))


def _shared(pairs: Pairs, strength: np.ndarray, guess: Assignment) -> Assignment:
    """With the driver besides their own that the driven have most in common, and its weight by least squares."""
    driven, driver, _, _ = guess
    others = strength[:, driven]
    others[driver, np.arange(len(driven))] = 0
    others[driven] = 0
    common = int(np.argmax(others.sum(axis=1)))
    away = pairs.position - pairs.position.mean(axis=0)
    said, other = _log_scales(pairs)[:, driven], away[:, common]
    own = away[:, driver]
    a, b, c = (own**2).mean(axis=0), own.T @ other / len(own), (other**2).mean()
    by_own, by_other = (own * said).mean(axis=0), said.T @ other / len(own)
    det = np.maximum(a * c - b**2, 1e-12 * a * c)
    first, second = (c * by_own - b * by_other) / det, (a * by_other - b * by_own) / det
    return guess._replace(common=common, weight=float(np.sum(first * second) / max(np.sum(first**2), 1e-12)))


def _power_of_two(weight: float) -> float:
    """The nearest power of two, with its sign: what scales that multiply, and roots of them, have."""
    return float(np.sign(weight) * 2 ** np.round(np.log2(max(abs(weight), 2**-8))))


def _log_scales(pairs: Pairs) -> np.ndarray:
    """2 s_i as every pair has it, about its mean."""
    away, force = (part - part.mean(axis=0) for part in pairs)
    parts = (np.log(np.abs(part) + 1e-3 * part.std(axis=0) + 1e-300) for part in (away, force))
    said = next(parts) - next(parts)
    return said - said.mean(axis=0)


def _standard(values: np.ndarray) -> np.ndarray:
    away = values - values.mean(axis=0)
    spread = away.std(axis=0)
    return np.clip(away / np.where(spread > 0, spread, 1), -3, 3)
