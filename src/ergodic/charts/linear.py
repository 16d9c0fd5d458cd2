"""Metrics: the linear maps A in x = A z, in the form that the dimension affords. Momentum is N(0, I) in z.

    Diagonal   A = diag(s)                                      O(d) a particle
    LowRank    A = diag(s) (I + U diag(t - 1) U'),  U'U = I     O(d k)
    Dense      A any matrix, with its inverse                   O(d²)

Every form answers the same calls, row by row on ``(particles, dim)``: `push` A z, `pull` A'f for forces, `whiten` A⁻¹x,
`log_volume` log|det A|. Leaves may carry a leading axis, one metric a row, of which `at` takes one.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

Rows = Any
"""``(particles, dim)``: of JAX within a program, of NumPy between them."""


class Diagonal(NamedTuple):
    """A = diag(scale)."""

    scale: Float[Array, "*metrics dim"]

    def push(self, z: Rows) -> Rows:
        """A z."""
        return z * self.scale[None, :]

    def pull(self, force: Rows) -> Rows:
        """A'f."""
        return force * self.scale[None, :]

    def whiten(self, x: Rows) -> Rows:
        """A⁻¹ x."""
        return x / self.scale[None, :]

    def log_volume(self) -> Float[Array, ""]:
        """log|det A|."""
        return jnp.sum(jnp.log(self.scale))

    def times(self, factor: float) -> Diagonal:
        """The metric factor · A."""
        return Diagonal(self.scale * factor)


class LowRank(NamedTuple):
    """A = diag(scale) (I + U diag(stretch - 1) U') with orthonormal columns U."""

    scale: Float[Array, "*metrics dim"]
    vectors: Float[Array, "*metrics dim rank"]
    stretch: Float[Array, "*metrics rank"]

    def _along(self, z: Rows, by: Any) -> Rows:
        return z + ((z @ self.vectors) * (by - 1)[None, :]) @ self.vectors.T

    def push(self, z: Rows) -> Rows:
        """A z."""
        return self._along(z, self.stretch) * self.scale[None, :]

    def pull(self, force: Rows) -> Rows:
        """A'f."""
        return self._along(force * self.scale[None, :], self.stretch)

    def whiten(self, x: Rows) -> Rows:
        """A⁻¹ x."""
        return self._along(x / self.scale[None, :], 1 / self.stretch)

    def log_volume(self) -> Float[Array, ""]:
        """log|det A|."""
        return jnp.sum(jnp.log(self.scale)) + jnp.sum(jnp.log(self.stretch))

    def times(self, factor: float) -> LowRank:
        """The metric factor · A."""
        return self._replace(scale=self.scale * factor)


class Dense(NamedTuple):
    """A = root, with its inverse and log|det A|, which come with it for nothing where it is made."""

    root: Float[Array, "*metrics dim dim"]
    inverse: Float[Array, "*metrics dim dim"]
    log_det: Float[Array, "*metrics"]

    def push(self, z: Rows) -> Rows:
        """A z."""
        return z @ self.root.T

    def pull(self, force: Rows) -> Rows:
        """A'f."""
        return force @ self.root

    def whiten(self, x: Rows) -> Rows:
        """A⁻¹ x."""
        return x @ self.inverse.T

    def log_volume(self) -> Float[Array, ""]:
        """log|det A|."""
        return self.log_det

    def times(self, factor: float) -> Dense:
        """The metric factor · A."""
        dim = self.root.shape[-1]
        return Dense(self.root * factor, self.inverse / factor, self.log_det + dim * math.log(factor))


Metric = Diagonal | LowRank | Dense


def at(metrics: Any, which: Int[Array, "*steps"]) -> Any:
    """One, or one a step, of several metrics stacked along a leading axis."""
    return jax.tree_util.tree_map(lambda leaf: leaf[which], metrics)
