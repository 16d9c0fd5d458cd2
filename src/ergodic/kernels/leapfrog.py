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
    step: Float[Array, "#particles dim"],
    variance: Float[Array, "#particles dim"],
    count: int | Int[Array, ""],
) -> tuple[Ensemble, Float[Array, "particles dim"]]:
    """Integrate ``count`` sub-steps from (x, r); returns the ensemble at x' and the momentum r'.

    A count that is an array is not part of the program, which then cannot be differentiated in reverse.
    """
    speed = step / variance

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
