"""The random splits of regression tables that the literature on Bayesian networks compares on."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int

SPLITS = 20
TRAINED_ON = 0.9


def pbp_splits(rows: int) -> tuple[Int[np.ndarray, "splits train"], Int[np.ndarray, "splits test"]]:
    """Row numbers for training and testing in the 20 splits of Hernández-Lobato & Adams (ICML 2015), in their order.

    Gal & Ghahramani's are the same. The recipe is the generator below, seeded once for all splits; NumPy promises that
    this one never changes.
    """
    generator = np.random.RandomState(1)
    orders = np.stack([generator.choice(range(rows), rows, replace=False) for _ in range(SPLITS)])
    cut = round(TRAINED_ON * rows)
    return orders[:, :cut], orders[:, cut:]
