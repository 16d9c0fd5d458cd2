"""What is wrong with a NumPyro model's observed data, by site and row, before anything is sampled."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..runtime.errors import TargetError, TargetWarning

_ROWS = 5


def warn_of_broadcast(name: str, site: Mapping[str, Any]) -> None:
    """Warn where data and distribution broadcast to more terms than either has: (10, 1) and (10,) make 100."""
    distribution, value = site["fn"], jnp.shape(site["value"])
    own = tuple(distribution.batch_shape) + tuple(distribution.event_shape)
    try:
        both = np.broadcast_shapes(value, own)
    except ValueError:
        return  # NumPyro has an error of its own
    if both not in (value, own):
        warnings.warn(
            f"the observed site '{name}' has data of shape {value} and a distribution of shape {own}, which broadcast "
            f"to {int(np.prod(both))} terms: reshape one of them, unless this is meant",
            TargetWarning,
            stacklevel=2,
        )


def must_be(distribution: Any) -> str | None:
    """What values of a distribution must be, in words: that of a support that depends on nothing, or "numbers".

    None where some of them are masked, so that they need not be anything.
    """
    from numpyro.distributions import MaskedDistribution, constraints

    if isinstance(distribution, MaskedDistribution):
        return None
    support = distribution.support
    support = getattr(support, "base_constraint", support)  # of several values that are one event
    known = [
        (constraints.positive, "positive"),
        (constraints.nonnegative, "not negative"),
        (constraints.unit_interval, "in [0, 1]"),
        (constraints.boolean, "0 or 1"),
        (constraints.nonnegative_integer, "whole numbers, not negative"),
    ]
    return next((words for constraint, words in known if support is constraint), "numbers")


_INSIDE: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "numbers": lambda y: ~np.isnan(y),
    "positive": lambda y: y > 0,
    "not negative": lambda y: y >= 0,
    "in [0, 1]": lambda y: (y >= 0) & (y <= 1),
    "0 or 1": lambda y: (y == 0) | (y == 1),
    "whole numbers, not negative": lambda y: (y >= 0) & (y == np.floor(y)),
}


def check_values(name: str, value: np.ndarray, words: str | None) -> None:
    """Refuse observed values that no position can make likely: NaN, and what lies outside of a fixed support."""
    if words is None:
        return
    if (missing := value != value).any():
        raise TargetError(
            f"has NaN among the observed values of '{name}', {_rows(missing)}: leave those out, mask them "
            "(numpyro.handlers.mask), or sample them as latent values"
        )
    if (outside := ~_INSIDE[words](value)).any():
        raise TargetError(
            f"has observed values of '{name}' that its distribution cannot give, {_rows(outside)}: they must be {words}"
        )


def _rows(bad: np.ndarray) -> str:
    """Which entries, in a few words."""
    at = [",".join(map(str, index)) for index in np.argwhere(bad)]
    where = f"at [{'], ['.join(at[:_ROWS])}]" if bad.ndim else "its only one"
    return where + (f" and {len(at) - _ROWS:,} more" if len(at) > _ROWS else "")
