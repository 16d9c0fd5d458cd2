"""Find what drives what, from stored pairs of positions and forces alone (`fisher.py`).

Drivers are found one after another. In coordinates z of the best linear chart, r_i = f_i + z_i is what it leaves of
direction i. Where coordinate j drives the scale of i, r_i follows v_j z_i; where it drives its mean, v_j². The few j by
which these explain the most are fitted in full and raced by the Fisher divergence E|f_u + u|² of pairs held out. One
more is accepted when it gains three standard errors; then another is looked for, in what is left. What is nearly
Gaussian by itself is left as it is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .coordinates import Coordinates
from .driven import DrivenLayer
from .fisher import Pairs, divergence, fit, left_of
from .fitting import chart_of
from .pairing import CERTAIN, WORTH, FoundPairs, paired

_RACED = 4
_HINTED = 2
_NEARLY = 0.04


class Found(NamedTuple):
    """A layer, and how much it lowered the divergence of pairs held out."""

    layer: DrivenLayer
    drivers: list[int]
    split: bool
    before: float
    after: float
    error: float

    def again(self, pairs: Pairs) -> Found:
        """The same layer, from other pairs."""
        return self._replace(layer=fit(pairs, self.drivers, self.layer.drivers.shape[1], self.split))


NO_HINTS = np.zeros((0, 2), int)


def learned(
    pairs: Pairs, rng: np.random.Generator, like: Coordinates, hints: np.ndarray = NO_HINTS, gain: float | None = None
) -> list[Found | FoundPairs]:
    """Layers, the outermost first, from pairs alone; as many as are worth having, in the shapes of those given.

    One in which coordinates have drivers of their own is raced, with what is found behind it, against the others alone.
    With ``gain``, every driver of those must take away that share of what is left, besides.
    """
    own, others = paired(pairs, rng, hints), _layers(pairs, rng, like, hints, gain)
    if own is None:
        return [*others]
    inside = _layers(pairs.behind(own.layer), rng, like, hints, gain)
    without = others[-1].after if others else own.before
    return [own, *inside] if (inside[-1].after if inside else own.after) < without else [*others]


def _layers(
    pairs: Pairs, rng: np.random.Generator, like: Coordinates, hints: np.ndarray, gain: float | None
) -> list[Found]:
    found: list[Found] = []
    forms = (False,) if like.layers[0].directions is None else (True, False)
    for layer in like.layers:
        more = find(pairs, rng, layer.drivers.shape[1], forms, hints, gain or 0.0)
        if more is None:
            break
        found.append(more)
        pairs = pairs.behind(more.layer)
    return found


def again(pairs: Pairs, found: list[Found | FoundPairs]) -> list[Found | FoundPairs]:
    """The same layers, from other pairs."""
    made: list[Found | FoundPairs] = []
    for each in found:
        made.append(each.again(pairs))
        pairs = pairs.behind(made[-1].layer)
    return made


def left(pairs: Pairs, found: list[Found | FoundPairs]) -> float:
    """The divergence that layers leave of pairs."""
    for each in found:
        pairs = pairs.behind(each.layer)
    return float(divergence(pairs, pairs).mean())


def composed(found: list[Found | FoundPairs], like: Coordinates) -> Coordinates:
    """The layers that were found, and such as do nothing for the rest."""
    layers = [each.layer for each in found if isinstance(each, Found)]
    if like.layers[0].directions is None:
        layers = [layer._replace(directions=None) for layer in layers]
    plain = like.unmoved()
    own = next((each.layer for each in found if isinstance(each, FoundPairs)), plain.pairs)
    return Coordinates((*layers, *plain.layers[len(layers) :]), own)


def find(
    pairs: Pairs,
    rng: np.random.Generator,
    slots: int,
    forms: tuple[bool, ...],
    hints: np.ndarray = NO_HINTS,
    share: float = 0.0,
) -> Found | None:
    """The layer that leaves the least, if what it gains is beyond doubt; hints are raced with what is seen."""
    order = rng.permutation(len(pairs.position))
    train, test = (pairs.rows(rows) for rows in np.array_split(order, 2))
    left_now = left_of(train, test)
    before, best, drivers = float(left_now.mean()), None, list[int]()
    if before < _NEARLY or not np.isfinite(before):
        return None
    hinted = _most(hints)
    tried = np.union1d(candidates(pairs, _RACED), hinted)
    while len(drivers) < min(slots, pairs.position.shape[1] - 1):
        raced = [_raced(train, test, [*drivers, int(j)], slots, form) for j in tried for form in forms]
        layer, form, last, left_then = min(raced, key=lambda each: float(each[3].mean()))
        gain = left_now - left_then
        error = float(gain.std() / np.sqrt(len(gain)))
        if not gain.mean() > max(CERTAIN * error, WORTH, share * left_now.mean()):
            break
        left_now, drivers, forms = left_then, [*drivers, last], (form,)
        best = Found(layer, drivers, form, before, float(left_then.mean()), error)
        others = candidates(pairs.behind(layer), _RACED + len(drivers))
        tried = np.union1d(others[~np.isin(others, drivers)][: _RACED // 2], np.setdiff1d(hinted, drivers))
    return best if best is None else best._replace(layer=fit(pairs, drivers, slots, best.split))


def _raced(
    train: Pairs, test: Pairs, drivers: list[int], slots: int, split: bool
) -> tuple[DrivenLayer, bool, int, np.ndarray]:
    """A layer, its form, its last driver, and what it leaves of pairs held out: nothing good where it overflows."""
    layer = fit(train, drivers, slots, split)
    ours, others = train.behind(layer), test.behind(layer)
    return layer, split, drivers[-1], left_of(ours, others)


def _most(hints: np.ndarray) -> np.ndarray:
    """The hinted drivers that drive the most."""
    drivers, count = np.unique(hints[:, 0], return_counts=True)
    return drivers[np.argsort(-count, kind="stable")][:_HINTED]


def candidates(pairs: Pairs, count: int) -> np.ndarray:
    """Coordinates that may drive others, the most likely first."""
    chart = chart_of(pairs.position, pairs.force)
    x = pairs.position - pairs.position.mean(axis=0)
    z, f = chart.whiten(x), chart.pull(pairs.force - pairs.force.mean(axis=0))
    v = np.clip(x / x.std(axis=0), -3, 3)
    left = _standard(np.arcsinh(z + f))
    clipped = np.clip(z, -3, 3)
    noise = 1 / len(x)
    score = np.zeros(x.shape[1])
    for j in range(x.shape[1]):
        by_scale = np.mean(_standard(v[:, [j]] * clipped) * left, axis=0)
        by_mean = np.mean(_standard(v[:, [j]] ** 2) * left, axis=0)
        score[j] = np.sum(np.maximum(by_scale**2 - 4 * noise, 0) + np.maximum(by_mean**2 - 4 * noise, 0))
    return np.argsort(-score)[:count]


def _standard(values: np.ndarray) -> np.ndarray:
    away = values - values.mean(axis=0)
    spread = away.std(axis=0)
    return away / np.where(spread > 0, spread, 1)
