"""Nested R-hat (Margossian et al. 2024): have many short chains forgotten where they started?

There are K superchains of M chains each; the chains of one superchain start at one point. With one value per chain,

    nR̂ = √(1 + B/W),    B the variance of the K superchain means, W the mean variance within superchains

tends to √(1 + 1/M) for chains that have forgotten; separate modes that no chain leaves make B as large as W or larger.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float


def nested_rhat(values: Float[np.ndarray, "superchains chains *rest"]) -> Float[np.ndarray, "*rest"]:
    """nR̂ of one value per chain; the trailing axes are kept."""
    values = np.asarray(values, np.float64)
    between = np.var(values.mean(axis=1), axis=0, ddof=1)
    within = np.mean(np.var(values, axis=1, ddof=1), axis=0)
    apart = (within <= 0) & (between > 0)
    return np.asarray(np.where(apart, np.inf, np.sqrt(1 + between / np.where(within > 0, within, 1))))
