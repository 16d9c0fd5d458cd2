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

_STEPS = 10
_END = 0.35
_RIDGE = 0.005
_HINGES = 0.02
_LARGEST = 6.0


class Pairs(NamedTuple):
    """Positions and forces, ``(particles, dim)`` each, in double precision."""

    position: np.ndarray
    force: np.ndarray

    def rows(self, which: np.ndarray) -> Pairs:
        """Some of the pairs, in the order given."""
        return Pairs(self.position[which], self.force[which])

    def behind(self, layer: DrivenLayer) -> Pairs:
        """The same pairs in the layer's coordinates u."""
        u = layer.inverse(self.position)
        return Pairs(u, layer.pull_back(u, self.force))


def divergence(pairs: Pairs, held_out: Pairs) -> np.ndarray:
    """log(1 + |f_z + z|²/d) of every pair held out, in the linear chart of the others: 0 for a Gaussian."""
    chart = chart_of(pairs.position, pairs.force)
    z = chart.whiten(held_out.position - pairs.position.mean(axis=0))
    f = chart.pull(held_out.force - pairs.force.mean(axis=0))
    return np.log1p(((z + f) ** 2).mean(axis=1))


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
    parts = _curves(t[:, driven], f[:, driven], v[:, active])
    shift, curves = np.zeros(dim), []
    shift[driven] = parts[0]
    for size, part in zip((1, FEATURES, FEATURES), parts[1:], strict=True):
        curve = np.zeros((slots * size, dim))
        curve[np.ix_(np.repeat(active, size), driven)] = part
        curves.append(curve)
    kind = np.asarray(float(ACROSS if split else ALONG))
    layer: PyTree = (kind, select, centre, spread, directions, shift, *curves)
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


def _curves(t: np.ndarray, f: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """c, the slopes B, μ and s of every direction, by damped Gauss-Newton steps on the Fisher residual."""
    n, count = len(t), t.shape[1]
    scale0 = 0.5 * np.log(np.maximum(t.std(axis=0), 1e-12) / np.maximum(f.std(axis=0), 1e-12))
    t, f = t * np.exp(-scale0), f * np.exp(scale0)  # unit scales
    value, one = features(v)[0], np.ones((n, 1))
    kind = np.tile(np.arange(FEATURES), v.shape[1])
    held = np.where(kind == 0, _RIDGE, _HINGES)
    blocks = (np.concatenate([one, v], axis=1), value, np.concatenate([one, value[:, kind < FEATURES - 1]], axis=1))
    free = np.full(1, 1e-6)
    ridges = (np.append(free, np.full(v.shape[1], _RIDGE)), held, np.append(free, held[kind < FEATURES - 1]))
    ridge, sizes = np.concatenate(ridges), [block.shape[1] for block in blocks]
    ends = np.cumsum([0, *sizes])
    products = {
        (a, b): (blocks[a][:, :, None] * blocks[b][:, None, :]).reshape(n, -1) for a in range(3) for b in range(a, 3)
    }

    def parts(at: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        plain, mean, scale = (block @ at[lo:hi] for block, lo, hi in zip(blocks, ends, ends[1:], strict=False))
        shrunk = np.exp(-np.clip(scale, -_LARGEST, _LARGEST))
        return f / shrunk, (t - plain) * shrunk, mean, shrunk

    def loss(at: np.ndarray) -> np.ndarray:
        ahead, behind, mean, _ = parts(at)
        return np.sqrt(1 + (ahead + behind - mean) ** 2).mean(axis=0) + 0.5 * ridge @ at**2

    found, damping = np.zeros((ends[-1], count)), np.full(count, 1e-2)
    best = loss(found)
    for _ in range(_STEPS):
        ahead, behind, mean, shrunk = parts(found)
        r = ahead + behind - mean
        w = 1 / np.sqrt(1 + r**2) / n
        by = (-shrunk, -np.ones_like(r), ahead - behind)
        gram, slope = np.empty((count, ends[-1], ends[-1])), np.empty((count, ends[-1]))
        for a in range(3):
            rows = slice(ends[a], ends[a + 1])
            slope[:, rows] = (w * r * by[a]).T @ blocks[a]
            for b in range(a, 3):
                columns = slice(ends[b], ends[b + 1])
                part = ((w * by[a] * by[b]).T @ products[a, b]).reshape(count, sizes[a], sizes[b])
                gram[:, rows, columns] = part
                gram[:, columns, rows] = part.transpose(0, 2, 1)
        damped = ridge + damping[:, None] * np.einsum("dii->di", gram) + 1e-9
        change = np.linalg.solve(gram + damped[:, :, None] * np.eye(ends[-1]), (slope + ridge * found.T)[:, :, None])
        tried = found - change[:, :, 0].T
        now = loss(tried)
        better = now < best
        gain = np.max(np.where(better, best - now, 0))
        found, best = np.where(better, tried, found), np.where(better, now, best)
        damping = np.where(better, damping / 4, damping * 8)
        if better.any() and gain < 1e-4:
            break
    plain, mean, scale = (found[lo:hi] for lo, hi in pairwise(ends))
    whole = np.zeros((len(kind), count))
    whole[kind < FEATURES - 1] = scale[1:]
    unit = np.exp(scale0)
    return plain[0] * unit, plain[1:] * unit, mean * np.exp(scale[0]) * unit, whole
