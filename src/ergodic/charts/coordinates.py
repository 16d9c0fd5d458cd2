"""Coordinates u of a target, x = C_1(C_2(... u)): layers one inside the other, through which densities are pulled back.

In u the density is log π*(x(u)) + log|det ∂x/∂u|, so a transition that leaves it unchanged leaves π unchanged in x,
whatever the layers are: they change the speed, never the answer. Layers are arguments of compiled programs; layers that
do nothing stand in for those that were not needed, so that learning one compiles nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .driven import DrivenLayer, blank
from .rows import Rows

SLOTS = 4
"""Drivers that one layer has, at most."""


class Coordinates(NamedTuple):
    """Layers, the outermost first; without any, u is x."""

    layers: tuple[DrivenLayer, ...] = ()

    def forward(self, u: Rows) -> tuple[Rows, Rows]:
        """x and log|det ∂x/∂u| of every row."""
        volume: Rows = u[:, 0] * 0
        for layer in reversed(self.layers):
            u, more = layer.forward(u)
            volume = volume + more
        return u, volume

    def inverse(self, x: Rows) -> Rows:
        """u of every row."""
        for layer in self.layers:
            x = layer.inverse(x)
        return x

    def pull_back(self, u: Rows, force: Rows) -> Rows:
        """The force of the density in u, from that of log π* at x(u)."""
        inside = [u]
        for layer in reversed(self.layers[1:]):
            inside.append(layer.forward(inside[-1])[0])
        for layer, here in zip(self.layers, reversed(inside), strict=False):
            force = layer.pull_back(here, force)
        return force

    def names(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """What to call every u: as x, where it is x."""
        same = np.ones(len(names), bool)
        for layer in self.on_host().layers:
            same &= ~layer.moves()
        return tuple(name if kept else f"{name} in the chart" for name, kept in zip(names, same, strict=True))

    def unmoved(self) -> Coordinates:
        """u = x, in the same shapes."""
        return Coordinates(tuple(layer.unmoved() for layer in self.layers))

    def on_host(self) -> Coordinates:
        """The same with NumPy's arrays, which on a processor costs no copy."""
        return jax.tree_util.tree_map(np.asarray, self)

    def on_device(self, dtype: np.dtype) -> Coordinates:
        """The same with JAX's arrays of a precision."""
        return jax.tree_util.tree_map(lambda leaf: jnp.asarray(leaf, dtype), self)


def plain(layers: int, particles: int, dim: int, dtype: np.dtype) -> Coordinates:
    """u = x, in the shapes that coordinates learned from as many particles have."""
    none = blank(dim, min(SLOTS, dim), rotated(particles, dim), dtype)
    return Coordinates((none,) * layers).on_device(dtype)


def rotated(particles: int, dim: int) -> bool:
    """Whether as many particles can tell directions of their own: the limit of dense charts."""
    return 4 * dim <= particles
