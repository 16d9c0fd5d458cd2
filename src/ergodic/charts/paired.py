"""A layer of a nonlinear chart in which every coordinate has its own driver, as in a horseshoe: λ_i drives β_i.

Coordinate i follows v_i = a_i (x_j(i) - m_j(i)) + b_i h·(x - m), its own driver j(i) and one that many may share. With
drivers unchanged, x = P(u) is

    x_i - m_i = c_i + B_i v_i + e^{s_i(v_i)} (ρ_i + μ_i(v_i) + u_i - m_i),      log|det ∂x/∂u| = Σ_i s_i(v_i)

with curves s and μ of the features of `driven.py`. Own and shared driver enter as one sum because scales multiply: of
β_i ~ N(0, (λ_i τ)²) the log scale is log λ_i + log τ. ρ is a mean of many conditional scales, which remains one where
the scale changes: of z_i where data hold z_i λ_i fast. A coordinate that nothing drives has zeros, and is as it was.
It takes O(d) operations per particle, and its shapes are those of the dimension alone.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float, PyTree

from .driven import FEATURES, features
from .rows import Rows


class Slopes(NamedTuple):
    """Derivatives of x_i at some rows, which the way there has at hand for the way back."""

    grown: Array | np.ndarray
    """∂x_i/∂u_i = e^{s_i}."""
    turned: Array | np.ndarray
    """∂x_i/∂v_i."""
    volume: Array | np.ndarray
    """∂s_i/∂v_i."""


class PairedLayer(NamedTuple):
    """μ_i(v_i) and s_i(v_i) of every coordinate, and what v_i is."""

    moving: Float[Array, ""]
    """1 where any coordinate is driven; 0 spares the work."""
    driver: Float[Array, "dim"]
    """j(i), whole numbers; drivers are not driven."""
    centre: Float[Array, "dim"]
    own: Float[Array, "dim"]
    """a."""
    common: Float[Array, "dim"]
    """h, 1 at the shared driver; or zeros."""
    share: Float[Array, "dim"]
    """b."""
    shift: Float[Array, "dim"]
    """c."""
    slope: Float[Array, "dim"]
    """B."""
    rise: Float[Array, "dim"]
    """ρ."""
    mean: Float[Array, "features dim"]
    scale: Float[Array, "features dim"]

    def forward(self, u: Rows) -> tuple[Rows, Rows]:
        """x and log|det ∂x/∂u| of every row."""
        x, volume, _ = self.there(u)
        return x, volume

    def there(self, u: Rows) -> tuple[Rows, Rows, Slopes]:
        """The same, with what the way back needs."""
        if isinstance(u, np.ndarray):
            with np.errstate(over="ignore", invalid="ignore"):  # far out, where nothing is finite anyway
                return _there(self, u) if self.moving else _same(self, u)
        return jax.lax.cond(self.moving > 0, _there, _same, self, u)

    def inverse(self, x: Rows) -> Rows:
        """u of every row."""
        if isinstance(x, np.ndarray):
            with np.errstate(over="ignore", invalid="ignore"):
                return _inverse(self, x) if self.moving else x
        return jax.lax.cond(self.moving > 0, _inverse, lambda _, x: x, self, x)

    def back(self, slopes: Slopes, force: Rows) -> Rows:
        """∂(log π(x(u)) + log|det|)/∂u, from the force ∂log π/∂x at x(u)."""
        if isinstance(force, np.ndarray):
            with np.errstate(over="ignore", invalid="ignore"):
                return _back(self, slopes, force) if self.moving else force
        return jax.lax.cond(self.moving > 0, _back, lambda _, slopes, force: force, self, slopes, force)

    def pull_back(self, u: Rows, force: Rows) -> Rows:
        """The same, where it is not known what the way there found."""
        return self.back(self.there(u)[2], force)

    def moves(self) -> np.ndarray:
        """Which coordinates are other than x, on the host."""
        return np.asarray((self.own != 0) & (self.moving > 0))

    def unmoved(self) -> PairedLayer:
        """The layer x = u, in the same shapes."""
        return jax.tree_util.tree_map(lambda leaf: leaf * 0, self)

    def idle(self) -> PairedLayer:
        """The layer that does nothing, and does the work."""
        return self.unmoved()._replace(moving=self.moving)

    def drivers(self) -> list[int]:
        """The coordinates that drive any, the shared one among them, on the host."""
        own = np.asarray(self.driver)[self.moves()].astype(int)
        return sorted({*own.tolist(), *np.flatnonzero(np.asarray(self.common)).tolist()})


def _driving(layer: PairedLayer, away: Rows) -> Rows:
    together = away @ layer.common
    return away[:, layer.driver.astype(np.int32)] * layer.own[None, :] + together[:, None] * layer.share[None, :]


def _curves(layer: PairedLayer, v: Rows) -> tuple[Rows, Rows, Rows, Rows]:
    """μ and s at v, and their derivatives."""
    value, slope = (part.reshape(*v.shape, FEATURES) for part in features(v))
    mean, scale = layer.mean.T[None, :, :], layer.scale.T[None, :, :]
    return (value * mean).sum(-1), (value * scale).sum(-1), (slope * mean).sum(-1), (slope * scale).sum(-1)


def _same(layer: PairedLayer, u: Rows) -> tuple[Rows, Rows, Slopes]:
    return u, 0 * u[:, 0], Slopes(u, u, u)


def _there(layer: PairedLayer, u: Rows) -> tuple[Rows, Rows, Slopes]:
    q = u - layer.centre[None, :]
    v = _driving(layer, q)
    mean, s, mean_slope, scale_slope = _curves(layer, v)
    grown = s.__array_namespace__().exp(s)
    inner = layer.rise[None, :] + mean + q
    moved = layer.shift[None, :] + v * layer.slope[None, :] + grown * inner
    turned = layer.slope[None, :] + grown * (mean_slope + inner * scale_slope)
    return u + (moved - q), s.sum(axis=1), Slopes(grown, turned, scale_slope)


def _inverse(layer: PairedLayer, x: Rows) -> Rows:
    t = x - layer.centre[None, :]
    v = _driving(layer, t)
    mean, s, _, _ = _curves(layer, v)
    shrunk = s.__array_namespace__().exp(-s)
    plain = layer.shift[None, :] + v * layer.slope[None, :]
    return x + ((t - plain) * shrunk - layer.rise[None, :] - mean - t)


def _back(layer: PairedLayer, slopes: Slopes, force: Rows) -> Rows:
    driven = force * slopes.turned + slopes.volume
    kept = force * slopes.grown + (driven @ layer.share)[:, None] * layer.common[None, :]
    own, driver = driven * layer.own[None, :], layer.driver.astype(np.int32)
    if isinstance(own, np.ndarray):
        np.add.at(kept.T, driver, own.T)
        return kept
    return kept.at[:, driver].add(own)


def alone(dim: int, dtype: np.dtype) -> PairedLayer:
    """The layer x = u, in which nothing drives anything."""
    none: PyTree = np.zeros(dim, dtype)
    curve: PyTree = np.zeros((FEATURES, dim), dtype)
    return PairedLayer(np.zeros((), dtype), none, none, none, none, none, none, none, none, curve, curve)  # type: ignore[arg-type]
