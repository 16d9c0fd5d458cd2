"""Draws as a data frame of pandas or Polars: what `Draws.to_pandas` and `Draws.to_polars` give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from ..diagnostics.summary import scalar_names
from ..draws import Draws, framing
from ..runtime.extras import require


@framing.provide
def to_frame(draws: Draws, library: Literal["pandas", "polars"], var_names: Sequence[str] | None) -> Any:
    """A row per draw, a column per scalar, then ``lp``, which is log π*, and the draw's chain, where several ran."""
    extra = {"pandas": "results", "polars": "polars"}[library]
    frames, scalars = require(library, extra, f"Draws.to_{library}"), scalar_names(draws.target)
    columns = {
        name: column
        for variable, values in draws.to_numpy(var_names).items()
        for name, column in zip(scalars[variable], values.reshape(len(draws), -1).T, strict=True)
    }
    columns["lp"] = draws.logdensity
    if draws.chains > 1:
        columns["chain"] = np.arange(len(draws)) % draws.chains
    return frames.DataFrame(columns)
