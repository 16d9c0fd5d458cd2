"""Draws as ArviZ InferenceData. The one file that knows ArviZ's API (0.23 on Python 3.11; it changes in 1.x)."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from .._version import __version__

if TYPE_CHECKING:
    from ..draws import Draws


def to_inference_data(draws: Draws) -> Any:
    """chain=1, draw=n: posterior, sample_stats (``lp`` and the draws' statistics), and attributes on both."""
    with warnings.catch_warnings():  # ArviZ 0.23 announces 1.x on import
        warnings.simplefilter("ignore", FutureWarning)
        import arviz

    leaves = jax.tree_util.tree_flatten_with_path(draws.position)[0]
    posterior = {
        jax.tree_util.keystr(path, simple=True, separator=".") or "x": np.asarray(leaf)[None] for path, leaf in leaves
    }
    stats = {"lp": draws.logdensity[None]} | {name: column[None] for name, column in draws.stats.items()}
    attributes = {
        name: int(value) if isinstance(value, bool) else value  # netCDF has no booleans
        for name, value in draws.attributes.items()
    }
    attributes |= {
        "inference_library": "ergodic",
        "inference_library_version": __version__,
        "target": draws.target.name,
        "sampling_time": draws.cost.run_seconds,
        "gradients": draws.cost.gradients,
    }
    return arviz.from_dict(
        posterior=posterior, sample_stats=stats, posterior_attrs=attributes, sample_stats_attrs=attributes
    )
