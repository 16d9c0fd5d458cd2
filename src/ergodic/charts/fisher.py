"""A layer from stored pairs of positions and forces, by the Fisher divergence; on the host, in double precision.

For a conditional y | v ~ N(μ(v), e^{2s(v)}) the force is f = -(y - μ) e^{-2s} at *any* y: pairs need not be draws of
the target. So the curves of every direction (`driven.py`) are found by making the Fisher residual

    r = e^{s(v)} f + (y - c - B v) e^{-s(v)} - μ(v)

small: a few damped Gauss-Newton steps on √(1 + r²), directions side by side, and a ridge that holds back what the data
do not ask for. Directions are the coordinates themselves, or those in which the particles at both ends of a driver
differ the most.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from jaxtyping import PyTree

from .driven import ACROSS, ALONG, FEATURES, Directions, DrivenLayer, features
from .fitting import chart_of, dense
from .paired import PairedLayer

_STEPS = 10
_END = 0.35
_RIDGE = 0.005
_HINGES = 0.02
_LARGEST = 6.0
_MEANS_FIRST = 4


class Pairs(NamedTuple):
    """Positions and forces, ``(particles, dim)`` each, in double precision."""

    position: np.ndarray
    force: np.ndarray

    def rows(self, which: np.ndarray) -> Pairs:
        """Some of the pairs, in the order given."""
        return Pairs(self.position[which], self.force[which])

    def beside(self, others: Pairs) -> Pairs:
        """These pairs and others."""
        return Pairs(*(np.concatenate(parts) for parts in zip(self, others, strict=True)))

    def behind(self, layer: DrivenLayer | PairedLayer) -> Pairs:
        """The same pairs in the layer's coordinates u."""
        u = layer.inverse(self.position)
        return Pairs(u, layer.pull_back(u, self.force))


class Curves(NamedTuple):
    """What drives every direction, one a column."""

    shift: np.ndarray
    """c."""
    slope: np.ndarray
    """B."""
    rise: np.ndarray
    """The constant of μ; zeros, where it has none."""
    mean: np.ndarray
    scale: np.ndarray
    loss: np.ndarray
    """The mean of √(1 + r²), with the ridge."""


def divergence(pairs: Pairs, held_out: Pairs) -> np.ndarray:
    """log(1 + |f_z + z|²/d) of every pair held out, in the linear chart of the others: 0 for a Gaussian."""
    chart = chart_of(pairs.position, pairs.force)
    z = chart.whiten(held_out.position - pairs.position.mean(axis=0))
    f = chart.pull(held_out.force - pairs.force.mean(axis=0))
    return np.log1p(((z + f) ** 2).mean(axis=1))


def left_of(pairs: Pairs, held_out: Pairs) -> np.ndarray:
    """The divergence of pairs held out; infinite where numbers overflow."""
    nothing = np.full(len(held_out.position), np.inf)
    if not all(np.isfinite(part).all() for part in (*pairs, *held_out)):
        return nothing
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            return np.nan_to_num(divergence(pairs, held_out), nan=np.inf)
    except np.linalg.LinAlgError:
        return nothing


def fit(pairs: Pairs, drivers: list[int], slots: int, split: bool) -> DrivenLayer:
    """The layer in which these coordinates drive the others, in directions that are split, or in the coordinates."""
    x, force = pairs
    dim = x.shape[1]
    centre, select = x.mean(axis=0), np.zeros((dim, slots))
    select[drivers, range(len(drivers))] = 1
    spread = np.ones(slots)
    spread[: len(drivers)] = np.maximum(x[:, drivers].std(axis=0), 1e-12)
    free = np.setdiff1d(np.arange(dim), drivers)
    v = ((x - centre) @ select) / spread
    directions = _split(pairs, v[:, 0], free) if split else _axes(dim, free)
    t, f = (x - centre) @ directions.out.T, force @ directions.into
    driven = np.flatnonzero(directions.out.any(axis=1))
    active = np.arange(slots) < len(drivers)
    found = curves(t[:, driven], f[:, driven], v[:, active])
    shift, whole = np.zeros(dim), []
    shift[driven] = found.shift
    for size, part in ((1, found.slope), (FEATURES, found.mean), (FEATURES, found.scale)):
        curve = np.zeros((slots * size, dim))
        curve[np.ix_(np.repeat(active, size), driven)] = part
        whole.append(curve)
    kind = np.asarray(float(ACROSS if split else ALONG))
    layer: PyTree = (kind, select, centre, spread, directions, shift, *whole)
    return DrivenLayer(*layer)


def _axes(dim: int, free: np.ndarray) -> Directions:
    """The coordinates themselves, but for the drivers."""
    eye: PyTree = np.zeros((dim, dim))
    eye[free, free] = 1
    return Directions(eye, eye)


def _split(pairs: Pairs, v: np.ndarray, free: np.ndarray) -> Directions:
    """Directions whose metrics differ between the particles below the median of v and those above it."""
    dim = pairs.position.shape[1]
    ends = v <= np.quantile(v, _END), v >= np.quantile(v, 1 - _END)
    first, second = (dense(pairs.position[np.ix_(end, free)], pairs.force[np.ix_(end, free)]) for end in ends)
    both = first.inverse @ second.root
    _, u = np.linalg.eigh(both @ both.T)
    out: PyTree = np.zeros((dim, dim))
    into: PyTree = np.zeros((dim, dim))
    out[: len(free), free] = u.T @ first.inverse
    into[free, : len(free)] = first.root @ u
    return Directions(out, into)


def curves(t: np.ndarray, f: np.ndarray, v: np.ndarray, *, lifted: bool = False) -> Curves:
    """c, B, μ and s of every direction, by damped Gauss-Newton steps on the Fisher residual.

    Args:
      t: what is driven, ``(n, directions)``, about its mean.
      f: the force on it.
      v: drivers, ``(n, drivers)`` for all directions, or ``(directions, n, 1)`` where each has its own.
      lifted: whether μ has a constant, which is fitted before scales change: a mean of many conditional scales.
    """
    n, count, drivers = len(t), t.shape[1], v.shape[-1]
    scale0 = 0.5 * np.log(np.maximum(t.std(axis=0), 1e-12) / np.maximum(f.std(axis=0), 1e-12))
    t, f = t * np.exp(-scale0), f * np.exp(scale0)  # unit scales
    value = features(v.reshape(-1, drivers))[0].reshape(*v.shape[:-1], -1)
    one = np.ones((*v.shape[:-1], 1))
    kind = np.tile(np.arange(FEATURES), drivers)
    held, free = np.where(kind == 0, _RIDGE, _HINGES), np.full(1, 1e-6)
    rise, least = (one, free) if lifted else (one[..., :0], free[:0])
    blocks = [(one, v), (rise, value), (one, value[..., kind < FEATURES - 1])]
    rows = [_Rows(np.concatenate(block, axis=-1)) for block in blocks]
    ridges = (free, np.full(drivers, _RIDGE), least, held, free, held[kind < FEATURES - 1])
    ridge, ends = np.concatenate(ridges), np.cumsum([0, *(block.values.shape[-1] for block in rows)])
    spans = [slice(*span) for span in pairwise(ends)]

    def parts(at: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        plain, mean, scale = (block.times(at[span]) for block, span in zip(rows, spans, strict=True))
        shrunk = np.exp(-np.clip(scale, -_LARGEST, _LARGEST))
        return f / shrunk, (t - plain) * shrunk, mean, shrunk

    def loss(at: np.ndarray) -> np.ndarray:
        ahead, behind, mean, _ = parts(at)
        return np.sqrt(1 + (ahead + behind - mean) ** 2).mean(axis=0) + 0.5 * ridge @ at**2

    found, damping = np.zeros((ends[-1], count)), np.full(count, 1e-2)
    best, first = loss(found), _MEANS_FIRST if lifted else 0
    for step in range(first + _STEPS * (2 if lifted else 1)):
        ahead, behind, mean, shrunk = parts(found)
        r = ahead + behind - mean
        w = 1 / np.sqrt(1 + r**2) / n
        by = (-shrunk, -np.ones_like(r), (ahead - behind) * (step >= first))
        gram, slope = np.empty((count, ends[-1], ends[-1])), np.empty((count, ends[-1]))
        for a in range(3):
            slope[:, spans[a]] = rows[a].weighed(w * r * by[a])
            for b in range(a, 3):
                part = rows[a].products(w * by[a] * by[b], rows[b])
                gram[:, spans[a], spans[b]] = part
                gram[:, spans[b], spans[a]] = part.transpose(0, 2, 1)
        damped = ridge + damping[:, None] * np.einsum("dii->di", gram) + 1e-9
        change = np.linalg.solve(gram + damped[:, :, None] * np.eye(ends[-1]), (slope + ridge * found.T)[:, :, None])
        tried = found - change[:, :, 0].T
        now = loss(tried)
        better = now < best
        gain = np.max(np.where(better, best - now, 0))
        found, best = np.where(better, tried, found), np.where(better, now, best)
        damping = np.where(better, damping / 4, damping * 8)
        if step >= first and better.any() and gain < 1e-4:
            break
    plain, mean, scale = (found[span] for span in spans)
    whole = np.zeros((len(kind), count))
    whole[kind < FEATURES - 1] = scale[1:]
    unit = np.exp(scale0)
    mean = mean * np.exp(scale[0]) * unit
    lift = mean[0] if lifted else np.zeros(count)
    return Curves(plain[0] * unit, plain[1:] * unit, lift, mean[1:] if lifted else mean, whole, best)


class _Rows:
    """A block of features, ``(n, p)`` for all directions or ``(directions, n, p)``, as Gauss-Newton steps need it."""

    def __init__(self, values: np.ndarray):
        self.values, self.shared = values, values.ndim == 2
        self._products = dict[int, np.ndarray]()

    def times(self, at: np.ndarray) -> np.ndarray:
        """Its sum with coefficients ``(p, directions)``, by direction."""
        return self.values @ at if self.shared else (self.values @ at.T[:, :, None])[:, :, 0].T

    def weighed(self, w: np.ndarray) -> np.ndarray:
        """Σ over rows of features times weights ``(n, directions)``."""
        return w.T @ self.values if self.shared else (w.T[:, None, :] @ self.values)[:, 0]

    def products(self, w: np.ndarray, other: _Rows) -> np.ndarray:
        """The same of its features' products with another's."""
        if not self.shared:
            return (self.values * w.T[:, :, None]).transpose(0, 2, 1) @ other.values
        if id(other) not in self._products:
            both = self.values[:, :, None] * other.values[:, None, :]
            self._products[id(other)] = both.reshape(len(both), -1)
        return (w.T @ self._products[id(other)]).reshape(-1, self.values.shape[1], other.values.shape[1])
