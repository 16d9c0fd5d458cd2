"""A layer of a nonlinear chart: a few drivers v move the means and the scales of the other coordinates.

In directions W of the other coordinates, with the drivers v = (u_D - m_D)/s_D unchanged, x = C(u) is

    W (x - m) = c + B v + e^{s(v)} (μ(v) + W (u - m)),      log|det ∂x/∂u| = Σ_r s_r(v)

which straightens a neck (log τ drives the scale of θ) and a bend (x_1 drives the mean of x_2). Where all of it is 0
the layer is the identity, so coordinates that nothing drives keep their values, their names, and their scale. μ counts
in conditional scales: where a neck narrows, an error of it narrows too; a location that moves along is B's.

s and μ are linear in features of each driver: v itself, and hinges η log(1 + e^{(v - k)/η}) at five knots k. Beyond
the knots all of them are linear: what is learned at the edge of the particles goes on from there, as a neck does. μ has
v² besides, which a bend needs. Directions W with A = W⁻¹ are given, or they are the coordinates themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from .rows import Rows

KNOTS = np.array([-2.0, -1.0, 0.0, 1.0, 2.0])
_WIDTH = 0.5
FEATURES = 2 + len(KNOTS)
"""v, the hinges, and v², which only means have."""
UNMOVED, ALONG, ACROSS = 0, 1, 2
Tree = TypeVar("Tree")


class Directions(NamedTuple):
    """W and A with W A = I on their span; neither touches a driver."""

    out: Float[Array, "directions dim"]
    """W."""
    into: Float[Array, "dim directions"]
    """A."""


class DrivenLayer(NamedTuple):
    """μ(v) and s(v) of every direction, and which coordinates are drivers."""

    kind: Float[Array, ""]
    """`UNMOVED`, `ALONG` the coordinates themselves, or `ACROSS` them, in directions that are given."""
    drivers: Float[Array, "dim drivers"]
    """One column a driver, 1 at its coordinate and 0 elsewhere; a column of zeros drives nothing."""
    centre: Float[Array, "dim"]
    spread: Float[Array, "drivers"]
    directions: Directions | None
    """None where there can be none."""
    shift: Float[Array, "directions"]
    """c."""
    slope: Float[Array, "drivers directions"]
    """B."""
    mean: Float[Array, "drivers*features directions"]
    scale: Float[Array, "drivers*features directions"]

    def forward(self, u: Rows) -> tuple[Rows, Rows]:
        """x and log|det ∂x/∂u| of every row."""
        return self._by_kind(lambda layer, u: (u, 0 * u[:, 0]), _forward, u)

    def inverse(self, x: Rows) -> Rows:
        """u of every row."""
        return self._by_kind(lambda layer, x: x, _inverse, x)

    def pull_back(self, u: Rows, force: Rows) -> Rows:
        """∂(log π(x(u)) + log|det|)/∂u, from the force ∂log π/∂x at x(u)."""
        return self._by_kind(lambda layer, u, force: force, _pull_back, u, force)

    def _by_kind(self, same: Callable[..., Tree], moved: Callable[..., Tree], *rows: Rows) -> Tree:
        """What a layer of its kind does: a program has all kinds, and does what one of them takes."""
        along = self._replace(directions=None)
        kinds = [partial(same, along), partial(moved, along)]
        if self.directions is not None:
            kinds.append(partial(moved, self))
        if isinstance(rows[0], np.ndarray):
            with np.errstate(over="ignore", invalid="ignore"):  # far out, where nothing is finite anyway
                return kinds[int(self.kind)](*rows)
        return jax.lax.switch(jnp.asarray(self.kind, jnp.int32), kinds, *rows)

    def moves(self) -> np.ndarray:
        """Which coordinates are other than x, on the host."""
        return np.asarray((self._free() > 0) & (self.kind != UNMOVED) & np.any(self.drivers))

    def unmoved(self) -> DrivenLayer:
        """The layer x = u, in the same shapes."""
        return jax.tree_util.tree_map(lambda leaf: leaf * 0, self)._replace(spread=self.spread * 0 + 1)

    def idle(self) -> DrivenLayer:
        """The layer that does nothing, of the same kind."""
        return self.unmoved()._replace(kind=self.kind)

    def _driving(self, x: Rows) -> Rows:
        return ((x - self.centre[None, :]) @ self.drivers) / self.spread[None, :]

    def _free(self) -> Array | np.ndarray:
        return 1 - self.drivers.sum(axis=-1)

    def _out(self, x: Rows) -> Rows:
        return x * self._free()[None, :] if self.directions is None else x @ self.directions.out.T

    def _into(self, q: Rows) -> Rows:
        return q * self._free()[None, :] if self.directions is None else q @ self.directions.into.T

    def _down(self, force: Rows) -> Rows:
        return force * self._free()[None, :] if self.directions is None else force @ self.directions.into

    def _up(self, force: Rows) -> Rows:
        return force * self._free()[None, :] if self.directions is None else force @ self.directions.out


def _forward(layer: DrivenLayer, u: Rows) -> tuple[Rows, Rows]:
    q, v = layer._out(u - layer.centre[None, :]), layer._driving(u)
    value, _ = features(v)
    s = value @ layer.scale
    t = layer.shift[None, :] + v @ layer.slope + _exp(s) * (value @ layer.mean + q)
    return u + layer._into(t - q), s.sum(axis=-1)


def _inverse(layer: DrivenLayer, x: Rows) -> Rows:
    t, v = layer._out(x - layer.centre[None, :]), layer._driving(x)
    value, _ = features(v)
    q = (t - layer.shift[None, :] - v @ layer.slope) * _exp(-(value @ layer.scale)) - value @ layer.mean
    return x + layer._into(q - t)


def _pull_back(layer: DrivenLayer, u: Rows, force: Rows) -> Rows:
    q, g = layer._out(u - layer.centre[None, :]), layer._down(force)
    value, slope = features(layer._driving(u))
    grown = _exp(value @ layer.scale)
    stretched = g * grown
    by_mean, by_scale = stretched @ layer.mean.T, (stretched * (value @ layer.mean + q) + 1) @ layer.scale.T
    driven = ((by_mean + by_scale) * slope).reshape(len(u), -1, FEATURES).sum(axis=-1) + g @ layer.slope.T
    return force + layer._up(stretched - g) + (driven / layer.spread[None, :]) @ layer.drivers.T


def features(v: Rows) -> tuple[Rows, Rows]:
    """The features of every driver, ``(particles, drivers * FEATURES)``, and their derivatives by that driver."""
    xp = v.__array_namespace__()
    each = v[:, :, None]
    away = (each - KNOTS.astype(v.dtype)[None, None, :]) / _WIDTH
    at_zero = _WIDTH * np.logaddexp(0, -KNOTS / _WIDTH).astype(v.dtype)
    hinge = _WIDTH * xp.logaddexp(xp.zeros_like(away), away) - at_zero[None, None, :]
    value = xp.concatenate([each, hinge, each**2], axis=2)
    slope = xp.concatenate([xp.ones_like(each), 0.5 * (1 + xp.tanh(0.5 * away)), 2 * each], axis=2)
    return value.reshape(len(v), -1), slope.reshape(len(v), -1)


def _exp(s: Rows) -> Rows:
    return s.__array_namespace__().exp(s)


def blank(dim: int, drivers: int, rotated: bool, dtype: np.dtype) -> DrivenLayer:
    """The layer x = u, of the shapes that a fitted one has."""
    none: PyTree = np.zeros((dim, dim), dtype)
    curve = np.zeros((drivers * FEATURES, dim), dtype)
    layer: PyTree = (
        np.zeros((), dtype),
        np.zeros((dim, drivers), dtype),
        np.zeros(dim, dtype),
        np.ones(drivers, dtype),
        Directions(none, none) if rotated else None,
        np.zeros(dim, dtype),
        np.zeros((drivers, dim), dtype),
        curve,
        curve,
    )
    return DrivenLayer(*layer)
