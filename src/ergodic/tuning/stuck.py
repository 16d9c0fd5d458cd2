"""Why no step leads on: what log π* does where particles are, coordinate by coordinate, and what to do about it."""

from __future__ import annotations

import numpy as np

from .forgetting import Particles

_SAME = 1e-3
"""A force is constant whose spread is a smaller share of its size."""


def why_stuck(particles: Particles, names: tuple[str, ...]) -> str:
    """In words, why these particles reject every step: improper along a coordinate, or a wrong gradient."""
    usable = np.isfinite(particles.logdensity) & np.isfinite(particles.gradient).all(axis=1)
    x, force = (leaf[usable].astype(np.float64) for leaf in (particles.position, particles.gradient))
    if not len(x):
        return "log π* is finite at none of its particles: is its gradient finite within the support?"
    size, spread = np.abs(force).max(axis=0), np.ptp(force, axis=0)
    flat = size == 0
    endless = ~flat & (spread <= _SAME * size)
    away = ~flat & ~endless & (np.mean(force * (x - x.mean(axis=0)), axis=0) > 0)
    for which, words in (
        (flat, "it does not depend on {}, so that it has no finite integral: give that coordinate a prior"),
        (endless, "it rises without end along {}, so that it has no finite integral: give that coordinate a prior"),
        (away, "it rises outward along {}, as no density with a finite integral does: look at its sign"),
    ):
        if which.any():
            named = ", ".join(f"'{names[i]}'" for i in np.flatnonzero(which)[:5])
            return words.format(named)
    return "is its gradient right?"
