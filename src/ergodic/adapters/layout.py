"""How a Zarr store of streamed draws is laid out: its groups, arrays and attributes, before it has any draws."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..draws import Draws
from ..runtime.extras import require
from .arviz import plain
from .files import datasets, inference_data
from .zarr_store import Array, Attributes, Store

if TYPE_CHECKING:
    from xarray import Variable
else:
    Variable = object  # may not be installed

_PASSING = ("created_at", "sampling_time", "gradients", "effective_size")  # attributes of one run, not of the draws


def layout(path: Path, draws: Draws, columns: Mapping[str, np.ndarray], settings: Attributes, rows: int) -> Store:
    """A store with ``rows`` draws per file, laid out as what ArviZ makes of a few draws."""
    stats = {name: column[:2] for name, column in draws.stats.items()}
    few = Draws(draws.target, draws.unconstrained[:2], draws.logdensity[:2], stats, attributes=draws.attributes)
    data = inference_data(few, predictive=False, log_likelihood=False)
    arrays: dict[str, Array] = {}
    attributes: dict[str, Attributes] = {"": settings}
    for group, dataset in datasets(data).items():
        attributes[group] = {str(name): plain(v) for name, v in dataset.attrs.items() if name not in _PASSING}
        for name, variable in dataset.variables.items():
            place = f"{group}/{name}"
            if place in columns:
                arrays[place] = Array(variable.dims, columns[place].dtype, columns[place].shape[1:])
            else:
                arrays[place] = _fixed(variable)
    return Store(path, rows, arrays, attributes)


def _fixed(variable: Variable) -> Array:
    """Labels or data that do not grow, as files have them: text as text, dates as numbers."""
    encoded = require("xarray.conventions", "results", "a Zarr store").encode_cf_variable(variable)
    values = np.asarray(encoded.values)
    values = values.astype(str) if values.dtype.kind in "OS" else values
    attributes = {name: plain(value) for name, value in encoded.attrs.items() if name != "_FillValue"}
    return Array(tuple(encoded.dims), values.dtype, values=values, attributes=attributes)
