"""Draws as ArviZ InferenceData: what `Draws.to_arviz` gives. ArviZ itself is behind `runtime/arviz.py`."""

from __future__ import annotations

import json
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._version import __version__
from ..draws import Draws, converting, variables
from ..runtime.arviz import inference_data
from ..runtime.errors import ConfigError, DrawsWarning
from ..runtime.programs import compiled
from ..target import Target

UNASKED_VALUES = 50_000_000
"""Groups of more values than this are made only when asked for."""
_CHUNK_DRAWS = 1 << 14
_CHUNK_VALUES = 1 << 22
_PREDICTIVE = 0x70726564
"""Folded into the draws' key, so that predictions are not made with the randomness that made the draws."""


@converting.provide
def to_inference_data(draws: Draws, *, predictive: bool | None = None, log_likelihood: bool | None = None) -> Any:
    """Posterior, sample_stats (``lp`` and the draws' statistics), attributes, and what the target's model knows.

    One chain unless several ran. The model gives dims, coords, observed_data, constant_data and, where it can,
    posterior_predictive and log_likelihood: one row per draw, simulated or computed now, and left out when that is more
    than 50 million values and was not asked for.
    """
    model = draws.target.model
    values = variables(draws.runs)
    ordered = [name for name in model.dims if name in values] + [name for name in values if name not in model.dims]
    attributes = _attributes(draws)
    dims, coords = _labels(draws.target, values)
    groups = {
        "posterior": {name: draws.by_chain(values[name]) for name in ordered},
        "sample_stats": {n: draws.by_chain(column) for n, column in {"lp": draws.logdensity, **draws.stats}.items()},
        "posterior_predictive": _simulated(draws, "predictive", predictive),
        "log_likelihood": _simulated(draws, "log_likelihood", log_likelihood),
        "observed_data": dict(model.observed) or None,
        "constant_data": dict(model.constant) or None,
    }
    described = ("posterior", "sample_stats", "posterior_predictive", "log_likelihood")
    return inference_data(
        {**groups, **{f"{group}_attrs": attributes for group in described}, "dims": dims, "coords": coords}
    )


def _labels(target: Target, values: dict[str, np.ndarray]) -> tuple[dict[str, list[str]], dict[str, Any]]:
    """Names of dimensions and labels along them: the model's, or the names that one plain vector was given."""
    dims = {name: list(names) for name, names in target.model.dims.items()}
    coords = {name: np.asarray(labels) for name, labels in target.model.coords.items()}
    given = target.names != target.layout.names()
    if given and target.constrain is None and [len(shape) for shape in target.layout.shapes] == [1]:
        (name,) = values
        if name not in dims:
            dims[name] = [f"{name}_dim"]
            coords[f"{name}_dim"] = np.asarray(target.names)
    return dims, coords


def _attributes(draws: Draws) -> dict[str, Any]:
    """Plain facts as netCDF has them: numbers and text. Yes and no are 1 and 0; what is neither is written as JSON."""
    facts = draws.attributes | {
        "inference_library": "ergodic",
        "inference_library_version": __version__,
        "target": draws.target.name,
        "sampling_time": draws.cost.run_seconds,
        "gradients": draws.cost.gradients,
    }
    return {name: plain(value) for name, value in facts.items()}


def plain(value: Any) -> Any:
    """A value that netCDF and Zarr can have as an attribute."""
    value = value.tolist() if isinstance(value, np.ndarray | np.generic | jax.Array) else value
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int):
        return value if abs(value) < 1 << 63 else str(value)
    return value if isinstance(value, float | str) else json.dumps(value, default=str)


def _simulated(draws: Draws, what: str, wanted: bool | None) -> dict[str, np.ndarray] | None:
    """The model's ``predictive`` or ``log_likelihood`` of every draw, ``(chains, steps, ...)`` by site, or None."""
    target, n = draws.target, len(draws)
    known = {"predictive": target.model.predictive, "log_likelihood": target.model.log_likelihood}[what] is not None
    if wanted and not known:
        raise ConfigError(f"the model of '{target.name}' gives no {what}; call to_arviz without {what}=True")
    if not known or wanted is False:
        return None
    function = {"predictive": _predict, "log_likelihood": _likelihood}[what]
    key = jax.random.fold_in(_key(draws), _PREDICTIVE)
    one = jax.eval_shape(lambda *args: function(target, *args), draws.unconstrained[:1], key, 0)
    size = sum(leaf.size for leaf in one.values())
    if wanted is None and n * size > UNASKED_VALUES:
        warnings.warn(
            f"{what} is left out, because it has {n * size:,} values; ask for it with to_arviz({what}=True)",
            DrawsWarning,
            stacklevel=4,
        )
        return None
    chunk = max(1, min(n, _CHUNK_DRAWS, _CHUNK_VALUES // max(size, 1)))
    double = np.float64 if what == "log_likelihood" else None  # az.loo gives NaN for a wide range in single precision
    out = {name: np.empty((n, *leaf.shape[1:]), double or leaf.dtype) for name, leaf in one.items()}
    for at in range(0, n, chunk):
        rows = jnp.asarray(draws.unconstrained[np.minimum(np.arange(at, at + chunk), n - 1)])  # one shape for all
        part = jax.device_get(compiled(function, (target,), rows, key, at)(rows, key, at))
        for name, array in part.items():
            out[name][at : at + chunk] = array[: n - at]
    return {name: draws.by_chain(array) for name, array in out.items()}


def _likelihood(target: Target, positions: Array, key: Array, at: Any) -> dict[str, Array]:
    function: Any = target.model.log_likelihood
    return jax.vmap(lambda flat: function(target.layout.unravel(flat)))(positions)


def _predict(target: Target, positions: Array, key: Array, at: Any) -> dict[str, Array]:
    """Draw i is predicted with the key folded with i, whatever the chunks."""
    function: Any = target.model.predictive
    keys = jax.vmap(lambda index: jax.random.fold_in(key, index))(at + jnp.arange(positions.shape[0]))
    return jax.vmap(lambda flat, k: function(target.layout.unravel(flat), k))(positions, keys)


def _key(draws: Draws) -> Array:
    """A key from the seed that the draws say they were made with."""
    seed, key = int(draws.attributes.get("seed", 0)), jax.random.key(0)
    while seed:
        key, seed = jax.random.fold_in(key, seed & 0xFFFFFFFF), seed >> 32
    return key
