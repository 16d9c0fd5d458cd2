"""Find what drives what, from stored pairs of positions and forces alone (`fisher.py`).

Drivers are found one after another. In coordinates z of the best linear chart, r_i = f_i + z_i is what it leaves of
direction i. Where coordinate j drives the scale of i, r_i follows v_j z_i; where it drives its mean, v_j². The few j by
which these explain the most are fitted in full and raced by the Fisher divergence E|f_u + u|² of pairs held out. One
more is accepted when it gains three standard errors; then another is looked for, in what is left. What is nearly
Gaussian by itself is left as it is.

Pairs come member by member; a target is a family of one. What drives what, and in which form, is the family's, and is
raced on pairs held out of several members together. The curves are every member's own, from its own pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import PyTree

from .coordinates import Coordinates
from .driven import DrivenLayer
from .fisher import Pairs, fit, left_of
from .fitting import chart_of
from .paired import PairedLayer
from .pairing import CERTAIN, WORTH, FoundPairs, paired

_RACED = 4
_HINTED = 2
_NEARLY = 0.04
_MEMBERS = 8
"""Members whose pairs drivers are raced on, at most."""


class Found(NamedTuple):
    """A layer of every member, and how much they lowered the divergence of pairs held out."""

    layers: list[DrivenLayer]
    drivers: list[int]
    split: bool
    before: float
    after: float
    error: float

    def again(self, members: Sequence[Pairs]) -> Found:
        """The same layer, from other pairs, which may be other members'."""
        slots = self.layers[0].drivers.shape[1]
        return self._replace(layers=[fit(pairs, self.drivers, slots, self.split) for pairs in members])


NO_HINTS = np.zeros((0, 2), int)


def learned(
    members: Sequence[Pairs],
    rng: np.random.Generator,
    like: Coordinates,
    hints: np.ndarray = NO_HINTS,
    gain: float | None = None,
) -> list[Found | FoundPairs]:
    """Layers, the outermost first, from pairs alone; as many as are worth having, in the shapes of those given.

    Of one member, a layer in which coordinates have drivers of their own is raced, with what is found behind it,
    against the others alone. With ``gain``, every driver of those must take away that share of what is left, besides.
    Of many, those that the layers do not serve have some that do nothing.
    """
    if len(members) > 1:
        some = [members[at] for at in np.sort(rng.permutation(len(members))[:_MEMBERS])]
        found = again(members, [*_layers(some, rng, like, hints, gain)])
        return either(left(members, found) < left(members, []), found)
    own, others = paired(members[0], rng, hints), _layers(members, rng, like, hints, gain)
    if own is None:
        return [*others]
    inside = _layers(behind(own.layers, members), rng, like, hints, gain)
    without = others[-1].after if others else own.before
    return [own, *inside] if (inside[-1].after if inside else own.after) < without else [*others]


def _layers(
    members: Sequence[Pairs], rng: np.random.Generator, like: Coordinates, hints: np.ndarray, gain: float | None
) -> list[Found]:
    found: list[Found] = []
    forms = (False,) if like.layers[0].directions is None else (True, False)
    for layer in like.layers:
        more = find(members, rng, layer.drivers.shape[1], forms, hints, gain or 0.0)
        if more is None:
            break
        found.append(more)
        members = behind(more.layers, members)
    return found


def again(members: Sequence[Pairs], found: list[Found | FoundPairs]) -> list[Found | FoundPairs]:
    """The same layers, from other pairs."""
    made: list[Found | FoundPairs] = []
    for each in found:
        made.append(each.again(members))
        members = behind(made[-1].layers, members)
    return made


def either(
    which: np.ndarray, first: list[Found | FoundPairs], second: list[Found | FoundPairs] | None = None
) -> list[Found | FoundPairs]:
    """Layers of the first for those members; of the second for the others, or such as do nothing."""
    made: list[Found | FoundPairs] = []
    for one, other in zip(first, second or first, strict=True):
        others = [layer.idle() for layer in one.layers] if second is None else other.layers
        layers: PyTree = [mine if kept else its for kept, mine, its in zip(which, one.layers, others, strict=True)]
        made.append(one._replace(layers=layers))
    return made


def behind(layers: Sequence[DrivenLayer | PairedLayer], members: Sequence[Pairs]) -> list[Pairs]:
    """Every member's pairs in the coordinates of its layer."""
    return [pairs.behind(layer) for pairs, layer in zip(members, layers, strict=True)]


def left(members: Sequence[Pairs], found: list[Found | FoundPairs]) -> np.ndarray:
    """The divergence that layers leave of every member's pairs."""
    for each in found:
        members = behind(each.layers, members)
    return np.array([left_of(pairs, pairs).mean() for pairs in members])


def composed(found: list[Found | FoundPairs], like: Coordinates) -> list[Coordinates]:
    """The layers that were found, and such as do nothing for the rest; every member's."""
    plain = like.unmoved()

    def of(layers: tuple[DrivenLayer | PairedLayer, ...]) -> Coordinates:
        driven = [layer for layer in layers if isinstance(layer, DrivenLayer)]
        if like.layers[0].directions is None:
            driven = [layer._replace(directions=None) for layer in driven]
        own = next((layer for layer in layers if isinstance(layer, PairedLayer)), plain.pairs)
        return Coordinates((*driven, *plain.layers[len(driven) :]), own)

    return [of(layers) for layers in zip(*(each.layers for each in found), strict=True)]


def find(
    members: Sequence[Pairs],
    rng: np.random.Generator,
    slots: int,
    forms: tuple[bool, ...],
    hints: np.ndarray = NO_HINTS,
    share: float = 0.0,
) -> Found | None:
    """The layer that leaves the least, if what it gains is beyond doubt; hints are raced with what is seen."""
    halves = [np.array_split(rng.permutation(len(pairs.position)), 2) for pairs in members]
    train, test = ([pairs.rows(two[at]) for pairs, two in zip(members, halves, strict=True)] for at in (0, 1))
    left_now = _left_of(train, test)
    before, best, drivers = float(left_now.mean()), None, list[int]()
    if before < _NEARLY or not np.isfinite(before):
        return None
    hinted = _most(hints)
    tried = np.union1d(candidates(members, _RACED), hinted)
    while len(drivers) < min(slots, members[0].position.shape[1] - 1):
        raced = [_raced(train, test, [*drivers, int(j)], slots, form) for j in tried for form in forms]
        layers, form, last, left_then = min(raced, key=lambda each: float(each[3].mean()))
        gain = left_now - left_then
        error = float(gain.std() / np.sqrt(len(gain)))
        if not gain.mean() > max(CERTAIN * error, WORTH, share * left_now.mean()):
            break
        left_now, drivers, forms = left_then, [*drivers, last], (form,)
        best = Found(layers, drivers, form, before, float(left_then.mean()), error)
        others = candidates(behind(layers, members), _RACED + len(drivers))
        tried = np.union1d(others[~np.isin(others, drivers)][: _RACED // 2], np.setdiff1d(hinted, drivers))
    return best if best is None else best.again(members)


def _raced(
    train: list[Pairs], test: list[Pairs], drivers: list[int], slots: int, split: bool
) -> tuple[list[DrivenLayer], bool, int, np.ndarray]:
    """Layers, their form, their last driver, and what they leave of pairs held out: nothing good where it overflows."""
    layers = [fit(pairs, drivers, slots, split) for pairs in train]
    return layers, split, drivers[-1], _left_of(behind(layers, train), behind(layers, test))


def _left_of(train: list[Pairs], test: list[Pairs]) -> np.ndarray:
    """The divergence of all members' pairs held out, each in its member's chart."""
    return np.concatenate([left_of(*each) for each in zip(train, test, strict=True)])


def _most(hints: np.ndarray) -> np.ndarray:
    """The hinted drivers that drive the most."""
    drivers, count = np.unique(hints[:, 0], return_counts=True)
    return drivers[np.argsort(-count, kind="stable")][:_HINTED]


def candidates(members: Sequence[Pairs], count: int) -> np.ndarray:
    """Coordinates that may drive others, the most likely first."""
    return np.argsort(-np.sum([_scores(pairs) for pairs in members], axis=0))[:count]


def _scores(pairs: Pairs) -> np.ndarray:
    """How much every coordinate explains of what the best linear chart leaves."""
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
    return score


def _standard(values: np.ndarray) -> np.ndarray:
    away = values - values.mean(axis=0)
    spread = away.std(axis=0)
    return away / np.where(spread > 0, spread, 1)
