"""Draws as ArviZ InferenceData. The one file that knows ArviZ's API (0.23 on Python 3.11; it changes in 1.x)."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from .._version import __version__
from ..target import leaf_name

if TYPE_CHECKING:
    from ..draws import Draws


def to_inference_data(draws: Draws) -> Any:
    """Posterior, sample_stats (``lp`` and the draws' statistics) and attributes; one chain unless several ran."""
    arviz = _arviz()
    leaves = jax.tree_util.tree_flatten_with_path(draws.position)[0]
    posterior = {leaf_name(path): draws.by_chain(np.asarray(leaf)) for path, leaf in leaves}
    columns = {"lp": draws.logdensity, **draws.stats}
    stats = {name: draws.by_chain(column) for name, column in columns.items()}
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
    target = draws.target
    named = target.constrain is None and [len(shape) for shape in target.layout.shapes] == [1]
    (name,) = posterior if named else ("",)  # one vector: its coordinates have the target's names
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "More chains")  # many short chains are what ensembles give
        return arviz.from_dict(
            posterior=posterior,
            sample_stats=stats,
            posterior_attrs=attributes,
            sample_stats_attrs=attributes,
            dims={name: [f"{name}_dim"]} if named else None,
            coords={f"{name}_dim": list(target.names)} if named else None,
        )


def bulk_effective_size(draws: Draws) -> float:
    """The smallest bulk effective sample size over unconstrained coordinates and log π*.

    Chains of fewer than four steps tell nothing of correlation: they count as one draw each.
    """
    columns = np.concatenate([draws.unconstrained, draws.logdensity[:, None]], axis=1, dtype=np.float64)
    chains = draws.by_chain(columns)
    if chains.shape[1] < 4:
        return float(min(draws.chains, len(draws)))
    ess = _arviz().ess
    return float(min(ess(chains[:, :, i], method="bulk") for i in range(chains.shape[2])))


def _arviz() -> Any:
    with warnings.catch_warnings():  # ArviZ 0.23 announces 1.x on import
        warnings.simplefilter("ignore", FutureWarning)
        import arviz
    return arviz
