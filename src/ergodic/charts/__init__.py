"""Charts: coordinates z of the position x in which the target is nearly N(0, I), so that one step size suits all of it.

The linear ones here are what HMC calls a metric, in the form that the dimension affords: `DiagonalChart`,
`LowRankChart`, `DenseChart`; `MembersChart` has one per member of a family. `protocols.Chart` says what each must
offer; `fitting.py` makes one from an ensemble. A chart maps displacements: x = x_0 + A z from where a particle stands.
"""

import jax
import numpy as np
from jaxtyping import Array, Int, PyTree

from .dense import DenseChart
from .diagonal import DiagonalChart
from .low_rank import LowRankChart

LinearChart = DiagonalChart | LowRankChart | DenseChart


def chart_at(charts: PyTree, which: Int[Array, "*steps"] | np.int32) -> PyTree:
    """One of several charts stacked along a leading axis; with an array of indices, one per step."""
    return jax.tree_util.tree_map(lambda leaf: leaf[which], charts)


__all__ = ["DenseChart", "DiagonalChart", "LinearChart", "LowRankChart", "chart_at"]
