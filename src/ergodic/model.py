"""What a modelling language knows of a target beside its density: names, data, predictions, the prior."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Array, PyTree


class Model(NamedTuple):
    """What a modelling language knows of a target beside its density, for ArviZ; any part may be missing."""

    dims: Mapping[str, Sequence[str]] = {}
    """Names of the dimensions of constrained values and of observed data, by variable."""
    coords: Mapping[str, Sequence[object]] = {}
    """Labels along a named dimension."""
    observed: Mapping[str, np.ndarray] = {}
    """Observed data, by site."""
    constant: Mapping[str, np.ndarray] = {}
    """Data that were conditioned on, by name."""
    log_likelihood: Callable[[PyTree], dict[str, Array]] | None = None
    """``log_likelihood(position)``: log p(y_i | x) of every observation, by site, of one unconstrained position."""
    predictive: Callable[[PyTree, Array], dict[str, Array]] | None = None
    """``predictive(position, key)``: data simulated from one unconstrained position, by site."""
    prior: Callable[[Array], PyTree] | None = None
    """``prior(key)``: an unconstrained position drawn from the prior."""
    joint: Callable[[PyTree, dict[str, Array]], Array] | None = None
    """``joint(position, data)``: log π* where other data were observed, by site, as `predictive` simulates them."""
