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
from .fisher import Pairs, divergence, fit
from .fitting import chart_of

_RACED = 4
_CERTAIN = 3.0
_WORTH = 0.01
_NEARLY = 0.04


class Found(NamedTuple):
    """A layer, and how much it lowered the divergence of pairs held out."""

    layer: DrivenLayer
    drivers: list[int]
    split: bool
    before: float
    after: float
    error: float


def learned(pairs: Pairs, rng: np.random.Generator, like: Coordinates) -> list[Found]:
    """Layers, the outermost first, from pairs alone; as many as are worth having, in the shapes of those given."""
    found: list[Found] = []
    forms = (False,) if like.layers[0].directions is None else (True, False)
    for layer in like.layers:
        more = find(pairs, rng, layer.drivers.shape[1], forms)
        if more is None:
            break
        found.append(more)
        pairs = pairs.behind(more.layer)
    return found


def again(pairs: Pairs, found: list[Found]) -> list[Found]:
    """The same layers, from other pairs."""
    made: list[Found] = []
    for each in found:
        layer = fit(pairs, each.drivers, each.layer.drivers.shape[1], each.split)
        made.append(each._replace(layer=layer))
        pairs = pairs.behind(layer)
    return made


def left(pairs: Pairs, found: list[Found]) -> float:
    """The divergence that layers leave of pairs."""
    for each in found:
        pairs = pairs.behind(each.layer)
    return float(divergence(pairs, pairs).mean())


def composed(found: list[Found], like: Coordinates) -> Coordinates:
    """The layers that were found, and such as do nothing for the rest."""
    layers = [each.layer for each in found]
    if like.layers[0].directions is None:
        layers = [layer._replace(directions=None) for layer in layers]
    return Coordinates((*layers, *like.unmoved().layers[len(layers) :]))


def find(pairs: Pairs, rng: np.random.Generator, slots: int, forms: tuple[bool, ...]) -> Found | None:
    """The layer that leaves the least, if what it gains is beyond doubt."""
    order = rng.permutation(len(pairs.position))
    train, test = (pairs.rows(rows) for rows in np.array_split(order, 2))
    left_now = _left(train, test)
    before, best, drivers = float(left_now.mean()), None, list[int]()
    if before < _NEARLY or not np.isfinite(before):
        return None
    tried = candidates(pairs, _RACED)
    while len(drivers) < min(slots, pairs.position.shape[1] - 1):
        raced = [_raced(train, test, [*drivers, int(j)], slots, form) for j in tried for form in forms]
        layer, form, last, left_then = min(raced, key=lambda each: float(each[3].mean()))
        gain = left_now - left_then
        error = float(gain.std() / np.sqrt(len(gain)))
        if not gain.mean() > max(_CERTAIN * error, _WORTH):
            break
        left_now, drivers, forms = left_then, [*drivers, last], (form,)
        best = Found(layer, drivers, form, before, float(left_then.mean()), error)
        others = candidates(pairs.behind(layer), _RACED + len(drivers))
        tried = others[~np.isin(others, drivers)][: _RACED // 2]
    return best if best is None else best._replace(layer=fit(pairs, drivers, slots, best.split))


def _raced(
    train: Pairs, test: Pairs, drivers: list[int], slots: int, split: bool
) -> tuple[DrivenLayer, bool, int, np.ndarray]:
    """A layer, its form, its last driver, and what it leaves of pairs held out: nothing good where it overflows."""
    layer = fit(train, drivers, slots, split)
    ours, others = train.behind(layer), test.behind(layer)
    return layer, split, drivers[-1], _left(ours, others)


def _left(train: Pairs, test: Pairs) -> np.ndarray:
    """The divergence of pairs held out; infinite where numbers overflow."""
    if not all(np.isfinite(part).all() for part in (*train, *test)):
        return np.full(len(test.position), np.inf)
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            return np.nan_to_num(divergence(train, test), nan=np.inf)
    except np.linalg.LinAlgError:
        return np.full(len(test.position), np.inf)


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
