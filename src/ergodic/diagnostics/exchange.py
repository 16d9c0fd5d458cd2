"""Label switching: coordinates that can change places without a change of log π*, and whose draws keep them apart.

A mixture's components have no order: with mu[0] and mu[1] exchanged, and whatever else belongs to them, log π* is the
same. Where components are far apart that makes separate modes of equal weight, which no chain goes between and none has
to. So a certificate that does not pass says so, and what to do.

Candidates are the places along an axis that has the same length in several variables: in all of them at once, and in
each alone. A simplex, which has one coordinate fewer, is exchanged in its constrained values.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..certificate import Finding
from ..draws import Draws, constrained, variables
from ..runtime.programs import compiled
from ..target import Target

NAME = "label switching"
ADVICE = (
    "order them (OrderedTransform in NumPyro, transform=ordered in PyMC), or use draws only where labels do not matter"
)
_LENGTHS = range(2, 21)
_POINTS, _DRAWS = 8, 1000
"""Draws at which log π* is compared, and that are looked at for how far apart places are."""
_PAIRS = 6
"""Pairs of places tried along an axis."""
_APART, _RARE = 0.25, 0.02
"""Two coordinates are kept apart where at most so few draws have them nearer than this part of the usual distance."""
_TOLERANCE = 0.02, 3e-5
"""Nats by which log π* may change, and by which part of itself: rounding."""
_NEWTON = 60


Levels = Callable[[np.ndarray], np.ndarray]


class Axis(NamedTuple):
    """A variable's axis along which places may be exchanged."""

    leaf: str
    axis: int
    simplex: bool = False
    """Whether the unconstrained variable has a place fewer."""


def explained(found: list[Finding], draws: Draws | None, levels: Levels) -> list[Finding]:
    """The findings of a certificate; where chains do not forget where they started, and labels say why, that first."""
    groups = ("start", "stationarity")
    doubts = {f.verdict for f in found if f.group in groups} & {"failed", "inconclusive"}
    inside = np.zeros(0, bool) if draws is None else np.isfinite(draws.logdensity)
    if not doubts or draws is None or not inside.any():
        return found
    verdict, some = "failed" if "failed" in doubts else "inconclusive", np.flatnonzero(inside)[:_DRAWS]
    return label_switching(draws.target, draws.unconstrained[some], draws.logdensity[some], verdict, levels) + found


def label_switching(
    target: Target, positions: np.ndarray, logdensity: np.ndarray, verdict: str, levels: Levels
) -> list[Finding]:
    """A finding, with the verdict of what it explains, that names the first exchange found; or none.

    ``levels`` has log π* of positions, by a program that is compiled already.
    """
    rows = np.linspace(0, len(positions) - 1, min(_POINTS, len(positions))).astype(int)
    x, level = positions[rows], logdensity[rows].astype(np.float64)
    for axes in _candidates(target):
        for a, b in itertools.islice(itertools.combinations(range(_length(target, axes[0])), 2), _PAIRS):
            moved = _exchanged(target, positions, axes, a, b)
            if moved is None or not (apart := _kept_apart(positions, moved)).any():
                continue
            some = _simplices_exchanged(target, x, moved[rows], axes, a, b)
            if some is None:
                continue
            there = levels(np.asarray(some, target.dtype)).astype(np.float64)
            if np.all(np.abs(there - level) <= _TOLERANCE[0] + _TOLERANCE[1] * np.abs(level)):
                one, other = _named(target, axes, a), _named(target, axes, b)
                words = f"log π* is the same under exchange of {one} and {other}, which the draws keep apart"
                return [Finding("start", NAME, verdict, words, float(apart.sum()), None, ADVICE)]
    return []


def _candidates(target: Target) -> Iterator[tuple[Axis, ...]]:
    """Sets of axes of one length: all of them, and each alone, where more than one."""
    shapes = dict(zip(target.layout.paths, target.layout.shapes, strict=True))
    known = _constrained_shapes(target)
    for length in _LENGTHS:
        found = [Axis(leaf, axis) for leaf, shape in shapes.items() for axis, n in enumerate(shape) if n == length]
        found += [
            Axis(leaf, len(shape) - 1, True)
            for leaf, shape in shapes.items()
            if shape and shape[-1] == length - 1 and known.get(leaf, ()) == (*shape[:-1], length)
        ]
        plain = [axis for axis in found if not axis.simplex]
        if plain:
            yield tuple(found)
        if len(found) > 1:
            yield from ((axis,) for axis in plain)


def _constrained_shapes(target: Target) -> dict[str, tuple[int, ...]]:
    one = constrained(target, np.zeros((1, target.dim), target.dtype))
    return {name: values.shape[1:] for name, values in variables(one).items()}


def _length(target: Target, axis: Axis) -> int:
    return dict(zip(target.layout.paths, target.layout.shapes, strict=True))[axis.leaf][axis.axis]


def _exchanged(target: Target, x: np.ndarray, axes: tuple[Axis, ...], a: int, b: int) -> np.ndarray | None:
    """Positions with two places exchanged along every axis but a simplex's."""
    if all(axis.simplex for axis in axes):
        return None
    leaves = variables(target.layout.unravel(x))
    for leaf, along, simplex in axes:
        if not simplex:
            order = np.arange(leaves[leaf].shape[along + 1])
            order[[a, b]] = b, a
            leaves[leaf] = np.take(leaves[leaf], order, axis=along + 1)
    return np.concatenate([leaf.reshape(len(x), -1) for leaf in leaves.values()], axis=1)


def _kept_apart(x: np.ndarray, moved: np.ndarray) -> np.ndarray:
    """Which coordinates an exchange takes where hardly any draw is halfway to."""
    distance = np.abs(moved - x)
    near = distance < _APART * np.median(distance, axis=0)
    return (np.median(distance, axis=0) > 0) & (near.mean(axis=0) <= _RARE)


def _simplices_exchanged(
    target: Target, x: np.ndarray, moved: np.ndarray, axes: tuple[Axis, ...], a: int, b: int
) -> np.ndarray | None:
    """The moved positions with simplices exchanged too, by Newton's method on the logs; None where it does not end."""
    for leaf, _, simplex in axes:
        if not simplex:
            continue
        values = variables(constrained(target, x))[leaf].astype(target.dtype)
        values[..., [a, b]] = values[..., [b, a]]
        logs = jnp.asarray(np.log(values.reshape(len(x), -1)))
        start, at = jnp.asarray(moved), target.layout.paths.index(leaf)
        moved, off = jax.device_get(compiled(_solved, (_Leaf(target, at, leaf),), start, logs)(start, logs))
        if not np.all(off < 1e-3):
            return None
    return moved


class _Leaf(NamedTuple):
    """A variable of a target, hashable by what it is."""

    target: Target
    at: int
    name: str

    def logs(self, flat: Array) -> Array:
        """The logs of its constrained values at a flat position."""
        values: Any = (self.target.constrain or (lambda position: position))(self.target.layout.unravel(flat))
        return jnp.log(jnp.ravel(values[self.name]))


def _solved(leaf: _Leaf, x: Array, logs: Array) -> tuple[Array, Array]:
    """Positions whose simplex has these logs, and by how much they are missed; everything else stays."""
    sizes = leaf.target.layout.sizes
    begin = sum(sizes[: leaf.at])

    def one(flat: Array, wanted: Array) -> tuple[Array, Array]:
        def off(own: Array) -> Array:
            return leaf.logs(jax.lax.dynamic_update_slice(flat, own, (begin,))) - wanted

        def step(_: Array, own: Array) -> Array:
            change = jnp.linalg.lstsq(jax.jacfwd(off)(own), off(own))[0]
            return own - change / jnp.maximum(1, jnp.max(jnp.abs(change)))

        own = jax.lax.fori_loop(0, _NEWTON, step, flat[begin : begin + sizes[leaf.at]])
        return jax.lax.dynamic_update_slice(flat, own, (begin,)), jnp.max(jnp.abs(off(own)))

    return jax.vmap(one)(x, logs)


def _named(target: Target, axes: tuple[Axis, ...], place: int) -> str:
    """The variables at a place: ``mu[0]``, or ``(mu[0], sigma[0])``."""
    shapes = dict(zip(target.layout.paths, target.layout.shapes, strict=True))
    names = []
    for leaf, axis, _ in axes:
        others = len(shapes[leaf]) - axis - 1
        names.append(f"{leaf}[{','.join([':'] * axis + [str(place)] + [':'] * others)}]")
    return names[0] if len(names) == 1 else f"({', '.join(names)})"
