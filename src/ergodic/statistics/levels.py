"""Which values of log π* are those of draws, and which are of places that no mode has that would count."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

_FLOOR = 10.0


def floor_of(logdensity: Float[np.ndarray, "draws"]) -> float:
    """log π* that no mode has that would count: so many spreads below the median of the draws."""
    low, middle = np.quantile(logdensity, (0.16, 0.5))
    return float(middle - _FLOOR * max(middle - low, 1.0))
