"""A chart per member of a family: rows are the members' particles, one block of rows after the other.

    rows of member m:    x = A_m z

With it a family is one ensemble of members · N particles, which kernels move as they move any other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from ..protocols import Chart


class MembersChart(NamedTuple):
    """Charts of one form, stacked along a leading axis of members."""

    charts: PyTree

    def _each(
        self, apply: Callable[[Chart, Array], Array], rows: Float[Array, "particles dim"]
    ) -> Float[Array, "particles dim"]:
        return jax.vmap(apply)(self.charts, self._blocks(rows)).reshape(rows.shape)

    def _blocks(self, rows: Float[Array, "particles dim"]) -> Float[Array, "members block dim"]:
        members = jax.tree_util.tree_leaves(self.charts)[0].shape[0]
        return rows.reshape(members, -1, rows.shape[1])

    def push(self, z: Float[Array, "particles dim"]) -> Float[Array, "particles dim"]:
        """The displacement A_m z of x."""
        return self._each(lambda chart, block: chart.push(block), z)

    def pull(self, force: Float[Array, "particles dim"]) -> Float[Array, "particles dim"]:
        """The force A_m' f in z."""
        return self._each(lambda chart, block: chart.pull(block), force)

    def whiten(self, x: Float[Array, "particles dim"]) -> Float[Array, "particles dim"]:
        """A_m⁻¹ (x - the member's mean): displacements in z, each member about its own centre."""
        blocks = self._blocks(x)
        centred = blocks - jnp.mean(blocks, axis=1, keepdims=True)
        return self._each(lambda chart, block: chart.whiten(block), centred.reshape(x.shape))
