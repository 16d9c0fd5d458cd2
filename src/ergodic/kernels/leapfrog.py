"""The leapfrog integrator of the paper's appendix, for a whole ensemble.

With U = -log π*, momentum variance φ1 and step size φ2, both a vector over dimensions, one sub-step is

    r ← r - φ2/2 ∂U(x);    x ← x + φ2/φ1 r;    r ← r - φ2/2 ∂U(x)

The second half-kick of one sub-step and the first of the next use the same force, so they are taken together: L
sub-steps cost L new gradients, the first force coming with the ensemble. Only the last sub-step needs log π* itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
from jaxtyping import Array, Float, Int, PyTree

from .ensemble import BatchedDensity, Ensemble

Field = Callable[[Float[Array, "particles dim"]], tuple[PyTree, Float[Array, "particles dim"]]]
"""Positions to whatever comes with the force, and the force."""


class Carried(NamedTuple):
    """Particles on a trajectory: the force, and what was computed along with it."""

    position: Float[Array, "particles dim"]
    payload: PyTree
    """log π* for the plain leapfrog; other kernels carry more."""
    force: Float[Array, "particles dim"]


def leapfrog(
    density: BatchedDensity,
    ensemble: Ensemble,
    momentum: Float[Array, "particles dim"],
    step: Float[Array, "#particles #dim"],
    variance: Float[Array, "#particles #dim"],
    count: int | Int[Array, ""],
) -> tuple[Ensemble, Float[Array, "particles dim"]]:
    """Integrate ``count`` sub-steps from (x, r); returns the ensemble at x' and the momentum r'."""
    end, r = integrate(density, Carried(*ensemble), momentum, step, variance, count)
    return Ensemble(*end), r


def integrate(
    field: Field,
    begin: Carried,
    momentum: Float[Array, "particles dim"],
    step: Float[Array, "#particles #dim"],
    variance: Float[Array, "#particles #dim"],
    count: int | Int[Array, ""],
) -> tuple[Carried, Float[Array, "particles dim"]]:
    """The same for any field of forces, carrying along whatever comes with the force.

    A count that is an array, of 1 or more, is not part of the program, which then cannot be differentiated in reverse;
    there the field is evaluated at one place in the program, so that it is compiled once.
    """
    speed = step / variance
    if not isinstance(count, int):
        return _counted(field, begin, momentum, step, speed, count)

    def sub_step(_: Int[Array, ""], carry: tuple[Array, Array]) -> tuple[Array, Array]:
        x, r = carry
        x = x + speed * r
        return x, r + step * field(x)[1]

    x, r = begin.position, momentum + 0.5 * step * begin.force
    x, r = jax.lax.fori_loop(0, count - 1, sub_step, (x, r))
    x = x + speed * r
    payload, force = field(x)
    return Carried(x, payload, force), r + 0.5 * step * force


def _counted(
    field: Field,
    begin: Carried,
    momentum: Float[Array, "particles dim"],
    step: Float[Array, "#particles #dim"],
    speed: Float[Array, "#particles #dim"],
    count: Int[Array, ""],
) -> tuple[Carried, Float[Array, "particles dim"]]:
    """Full kicks all the way, half a kick taken back at the end."""

    def sub_step(_: Int[Array, ""], carry: tuple[Carried, Array]) -> tuple[Carried, Array]:
        at, r = carry
        x = at.position + speed * r
        payload, force = field(x)
        return Carried(x, payload, force), r + step * force

    end, r = jax.lax.fori_loop(0, count, sub_step, (begin, momentum + 0.5 * step * begin.force))
    return end, r - 0.5 * step * end.force
