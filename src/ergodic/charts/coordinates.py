"""Coordinates u of a target, x = C_1(C_2(... u)): layers one inside the other, through which densities are pulled back.

In u the density is log π*(x(u)) + log|det ∂x/∂u|, so a transition that leaves it unchanged leaves π unchanged in x,
whatever the layers are: they change the speed, never the answer. Layers are arguments of compiled programs; layers that
do nothing stand in for those that were not needed, so that learning one compiles nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from ..protocols import Shapes
from ..runtime.errors import StorageError
from .driven import UNMOVED, DrivenLayer, blank
from .paired import PairedLayer, alone
from .rows import Rows

SLOTS = 4
"""Drivers that one layer has, at most."""


class Coordinates(NamedTuple):
    """Layers, the outermost first; without any, u is x."""

    layers: tuple[DrivenLayer, ...] = ()
    pairs: PairedLayer | None = None
    """Outside of all layers; None until it is needed, since a program with it takes longer to compile."""

    def forward(self, u: Rows) -> tuple[Rows, Rows]:
        """x and log|det ∂x/∂u| of every row."""
        volume: Rows = u[:, 0] * 0
        for layer in reversed(self.each()):
            u, more = layer.forward(u)
            volume = volume + more
        return u, volume

    def inverse(self, x: Rows) -> Rows:
        """u of every row."""
        for layer in self.each():
            x = layer.inverse(x)
        return x

    def pull_back(self, u: Rows, force: Rows) -> Rows:
        """The force of the density in u, from that of log π* at x(u)."""
        return self.within(u, lambda x: (x[:, 0] * 0, force))[1]

    def within(self, u: Rows, density: Callable[[Rows], tuple[Rows, Rows]]) -> tuple[Rows, Rows]:
        """The density in u and its force, from that of x: every layer is gone through once there and once back."""
        inside, volume = list[Rows](), u[:, 0] * 0
        for layer in reversed(self.layers):
            inside.append(u)
            u, more = layer.forward(u)
            volume = volume + more
        if self.pairs is None:
            value, force = density(u)
        else:
            u, more, slopes = self.pairs.there(u)
            value, force = density(u)
            value, force = value + more, self.pairs.back(slopes, force)
        for layer, here in zip(self.layers, reversed(inside), strict=True):
            force = layer.pull_back(here, force)
        return value + volume, force

    def names(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """What to call every u: as x, where it is x."""
        same, host = np.ones(len(names), bool), self.on_host()
        for layer in host.each():
            same &= ~layer.moves()
        return tuple(name if kept else f"{name} in the chart" for name, kept in zip(names, same, strict=True))

    def drivers(self) -> list[int]:
        """The coordinates that drive any others."""
        host = self.on_host()
        layers = [layer.drivers for layer in host.layers if layer.kind != UNMOVED]
        own = [] if host.pairs is None or not host.pairs.moving else host.pairs.drivers()
        return sorted({*own, *(int(j) for drivers in layers for j in np.flatnonzero(drivers.any(axis=1)))})

    def unmoved(self) -> Coordinates:
        """u = x, in the same shapes."""
        host = self.on_host()
        pairs = None if host.pairs is None else host.pairs.unmoved()
        return Coordinates(tuple(layer.unmoved() for layer in host.layers), pairs)

    def kinds(self) -> PyTree:
        """What every layer does: for all members of a family the same."""
        return [layer.kind for layer in self.layers]

    def of_kinds(self, kinds: PyTree) -> Coordinates:
        """The same with layers that do something else."""
        pairs = zip(self.layers, kinds, strict=True)
        return self._replace(layers=tuple(layer._replace(kind=kind) for layer, kind in pairs))

    def numbers(self) -> Coordinates:
        """The same without kinds: what every member has of its own."""
        return self.of_kinds([None] * len(self.layers))

    def axes(self) -> Coordinates:
        """Where a family's coordinates have members, as `jax.vmap` takes it: kinds have none."""
        return jax.tree_util.tree_map(lambda leaf: 0, self.numbers())

    def each(self) -> tuple[DrivenLayer | PairedLayer, ...]:
        """All layers, the outermost first."""
        return self.layers if self.pairs is None else (self.pairs, *self.layers)

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


def of_members(each: Sequence[Coordinates]) -> Coordinates:
    """Coordinates of a family: layers of one kind with numbers of every member's own, stacked."""
    stacked = jax.tree_util.tree_map(lambda *leaves: np.stack(leaves), *(one.numbers() for one in each))
    return stacked.of_kinds(each[0].kinds())


def of_member(coordinates: Coordinates, member: int) -> Coordinates:
    """One member's own coordinates."""
    own = jax.tree_util.tree_map(lambda leaf: leaf[member], coordinates.numbers())
    return own.of_kinds(coordinates.kinds())


def template_of(found: Shapes, dim: int, dtype: np.dtype, family: tuple[int, ...] = ()) -> Coordinates:
    """The shapes that coordinates in a file must have, given those of its arrays, ``coordinates/layers/0/...``."""
    each = {path.split("/")[2] for path in found if path.startswith("coordinates/layers/")}

    def real(shape: tuple[int, ...]) -> PyTree:
        return jax.ShapeDtypeStruct(shape, dtype)  # type: ignore[no-untyped-call]

    def layer(at: int) -> DrivenLayer:
        path = f"coordinates/layers/{at}"
        slots = found.get(f"{path}/spread", ())[-1:]
        if not slots:
            raise StorageError(f"no array '{path}/spread' in it, which a chart has")
        split = any(name.startswith(f"{path}/directions/") for name in found)
        shapes = blank(dim, slots[0], split, dtype)
        return jax.tree_util.tree_map(lambda leaf: real(leaf.shape and (*family, *leaf.shape)), shapes)

    like: PyTree = alone(dim, dtype) if "coordinates/pairs/driver" in found else None
    pairs: PyTree = jax.tree_util.tree_map(lambda leaf: real((*family, *leaf.shape)), like)
    return Coordinates(tuple(layer(at) for at in range(len(each))), pairs)
