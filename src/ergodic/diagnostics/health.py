"""What should worry the user of some draws, in plain sentences. Cheap signs, not a proof that all is well."""

from __future__ import annotations

import numpy as np

from ..draws import Draws

_STILL_MOVING = 4.0
_DEAD = 0.05


def worries(draws: Draws) -> list[str]:
    """Sentences about non-finite draws, divergences, dead transitions and a chain that has not settled."""
    found, n = [], len(draws)
    lost = int(np.sum(~np.isfinite(draws.logdensity)))
    if lost:
        found.append(f"{lost:,} of {n:,} draws lie where log π* is not finite: P0 reaches outside the support")
    diverging = int(np.sum(draws.stats.get("diverging", False)))
    if diverging > 0.01 * n:
        found.append(f"{diverging:,} of {n:,} draws had a diverging transition: step sizes are too large somewhere")
    acceptance = draws.trace.get("acceptance", np.ones(0))
    dead = np.flatnonzero(acceptance < _DEAD) + 1
    if dead.size:
        found.append(f"almost every proposal is rejected at step {', '.join(map(str, dead))}: those steps do nothing")
    curve = draws.trace.get("expected_logdensity", np.ones(0))
    if curve.size >= 4:
        inside = draws.logdensity[np.isfinite(draws.logdensity)].astype(np.float64)
        error = inside.std() / np.sqrt(max(len(inside), 1)) + 1e-300
        change = float(curve[-1] - curve[curve.size // 2])
        if abs(change) > _STILL_MOVING * error and abs(change) > 0.02 * draws.target.dim:
            found.append(f"E[log π*] still moves, by {change:+.3g} over the second half of the chain: use more steps")
    return found
