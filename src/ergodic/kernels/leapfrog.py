"""The leapfrog integrator of the paper's appendix, for a whole ensemble.

With U = -log π*, momentum variance φ1 and step size φ2, both a vector over dimensions, one sub-step is

    r ← r - φ2/2 ∂U(x);    x ← x + φ2/φ1 r;    r ← r - φ2/2 ∂U(x)

The second half-kick of one sub-step and the first of the next use the same force, so they are taken together: L
sub-steps cost L new gradients, the first force coming with the ensemble. Only the last sub-step needs log π* itself.
"""

from __future__ import annotations

from typing import Any

import jax
from jaxtyping import Array, Float, Int

from .ensemble import BatchedDensity, Ensemble


def leapfrog(
    density: BatchedDensity,
    ensemble: Ensemble,
    momentum: Float[Array, "particles dim"],
    step: Float[Array, "#particles #dim"],
    variance: Float[Array, "#particles #dim"],
    count: int | Int[Array, ""],
) -> tuple[Ensemble, Float[Array, "particles dim"]]:
    """Integrate ``count`` sub-steps from (x, r); returns the ensemble at x' and the momentum r'.

    A count that is an array, of 1 or more, is not part of the program, which then cannot be differentiated in reverse;
    there the density is evaluated at one place in the program, so that it is compiled once.
    """
    speed = step / variance
    if not isinstance(count, int):
        return _counted(density, ensemble, momentum, step, speed, count)

    def sub_step(
        _: Any, carry: tuple[Array, Array]
    ) -> tuple[Float[Array, "particles dim"], Float[Array, "particles dim"]]:
        x, r = carry
        x = x + speed * r
        force = density(x)[1]
        return x, r + step * force

    x, r = ensemble.position, momentum + 0.5 * step * ensemble.gradient
    x, r = jax.lax.fori_loop(0, count - 1, sub_step, (x, r))
    x = x + speed * r
    logdensity, force = density(x)
    return Ensemble(x, logdensity, force), r + 0.5 * step * force


def _counted(
    density: BatchedDensity,
    ensemble: Ensemble,
    momentum: Float[Array, "particles dim"],
    step: Float[Array, "#particles #dim"],
    speed: Float[Array, "#particles #dim"],
    count: Int[Array, ""],
) -> tuple[Ensemble, Float[Array, "particles dim"]]:
    """Full kicks all the way, half a kick taken back at the end."""

    def sub_step(_: Any, carry: tuple[Ensemble, Array]) -> tuple[Ensemble, Array]:
        ensemble, r = carry
        x = ensemble.position + speed * r
        logdensity, force = density(x)
        return Ensemble(x, logdensity, force), r + step * force

    begin = (ensemble, momentum + 0.5 * step * ensemble.gradient)
    end, r = jax.lax.fori_loop(0, count, sub_step, begin)
    return end, r - 0.5 * step * end.gradient
