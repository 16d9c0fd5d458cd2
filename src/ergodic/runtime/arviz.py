"""The one file that knows ArviZ's API (0.23 on Python 3.11; it changes in 1.x). It knows arrays, no noun of ours."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from .extras import installed, require


def arviz(what: str = "ArviZ's estimates") -> Any:
    """ArviZ, without what it announces of its 1.x; an error that says how to install it where it is missing."""
    with warnings.catch_warnings():  # ArviZ 0.23 announces 1.x on import
        warnings.simplefilter("ignore", FutureWarning)
        return require("arviz", "results", what)


def available() -> bool:
    """Whether ArviZ is installed."""
    return installed("arviz")


def ess(chains: np.ndarray) -> float:
    """The bulk effective sample size of ``(chains, steps)``."""
    return float(arviz("the effective size of correlated draws").ess(chains, method="bulk"))


def mcse(chains: np.ndarray) -> float:
    """The standard error of the mean of ``(chains, steps)``."""
    return np.asarray(arviz("the error of correlated draws").mcse(chains, method="mean")).item()


def inference_data(groups: Mapping[str, Any]) -> Any:
    """InferenceData from ``arviz.from_dict``'s arguments; many short chains are what ensembles give, so no warning."""
    package = arviz("to_arviz()")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "More chains")
        return package.from_dict(**groups)
