"""Networks fitted to a table: a sampler of their posterior, sampled networks, and the file that holds both.

The file is a sampler's (`runtime/sampler_files.py`): `ergodic sample` and `ergodic certify` understand it. Its source
is ``{"network": {"features": [...], "target": ..., "hidden": [...]}}``; beside the sampler it holds the training rows,
as they were, and the sampled networks: ``extra/x``, ``extra/y``, ``extra/networks``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array

from ..runtime.errors import ConfigError, StorageError
from ..runtime.files import read_arrays
from ..runtime.sampler_files import read
from ..runtime.validation import record
from ..sampler import Sampler
from ..target import Target
from .chain import network_chain
from .network import RegressionNetwork
from .prediction import Mixture, predict
from .scaling import Scaling

_EARLIER = "ergodic-network"
"""The metadata of files that earlier versions wrote."""


_NETWORK = {"features": "list", "target": "str", "hidden": "list"}


class FittedNetwork(NamedTuple):
    """Draws of a network's posterior, with all that predicting needs."""

    network: RegressionNetwork
    positions: np.ndarray
    """``(networks, dim)``."""
    scaling: Scaling
    features: list[str]
    target: str

    def predict(self, x: np.ndarray) -> Mixture:
        """The predictive distribution of raw rows."""
        return predict(self.network, self.positions, self.scaling, x)


def fit(
    x: np.ndarray,
    y: np.ndarray,
    features: list[str],
    target: str,
    key: Array,
    *,
    hidden: tuple[int, ...] = (50,),
    networks: int = 200,
    effort: float = 1.0,
) -> tuple[Sampler, np.ndarray]:
    """Tune a chain to a network's posterior given raw rows, and sample networks.

    Args:
      x, y: training rows, in their own units.
      features, target: the columns' names.
      key: a JAX random key.
      hidden: units of every hidden layer.
      networks: how many networks to sample.
      effort: length of the chain's trajectories in units of the default.

    Returns:
      the sampler, which has the rows and the sampled networks as ``extra``: `fitted` gives them, ``save`` writes all;
      and E_{p_t}[log p(w, y)] along the chain.
    """
    network, fit_key, sample_key = RegressionNetwork(x.shape[1], hidden), *jax.random.split(key)
    sampler = network_chain(network, len(y), effort).fit(_posterior(network, x, y), fit_key)
    draws = sampler.sample(sample_key, networks)
    sampler.source = {"network": {"features": features, "target": target, "hidden": list(hidden)}}
    sampler.extra = {"x": np.asarray(x), "y": np.asarray(y), "networks": draws.unconstrained}
    return sampler, draws.trace["expected_logdensity"]


def fitted(source: Mapping[str, Any], extra: Mapping[str, np.ndarray]) -> FittedNetwork:
    """What predicting needs, from the source and the extra arrays of a sampler."""
    known: dict[str, Any] = record(
        dict, source["network"], "a network", {"features": "list", "target": "str", "hidden": "list"}
    )
    features, hidden = known.get("features", ()), known.get("hidden", ())
    if not all(type(units) is int and units > 0 for units in hidden) or not all(type(f) is str for f in features):
        raise ConfigError("a network must have features with names, and whole numbers of hidden units")
    x, y, networks = (extra[name] for name in ("x", "y", "networks"))
    dim = 1 + sum((inputs + 1) * units for inputs, units in pairwise((len(features), *hidden, 1)))
    if x.shape != (len(y), len(features)) or y.shape != (len(x),) or networks.shape != (len(networks), dim):
        raise ConfigError(f"networks of {dim} values on rows of {len(features)} columns do not fit the arrays")
    if not len(networks) or not all(np.isfinite(array).all() for array in (x, y, networks)):
        raise ConfigError("a network's rows and values must be finite, and there must be any")
    network = RegressionNetwork(len(features), tuple(hidden))
    return FittedNetwork(network, extra["networks"], Scaling.of(extra["x"], extra["y"]), features, str(known["target"]))


def load(path: str | os.PathLike[str]) -> FittedNetwork:
    """Read sampled networks back from what `ergodic bnn fit` wrote."""
    metadata, _ = read_arrays(path, "a network's file")
    if _EARLIER in metadata:
        raise StorageError(f"{path} was written by an earlier version of ergodic, which kept no sampler; fit again")
    if "ergodic" not in metadata:
        raise StorageError(f"{path} is not a network's file; `ergodic bnn fit` writes one")
    header, arrays = read(path)
    return _checked(path, header["source"], _extra(path, header["source"], arrays))


def target_in(path: str | os.PathLike[str]) -> Target:
    """The posterior that a network's file was fitted to, given the rows in the file."""
    header, arrays = read(path)
    extra = _extra(path, header["source"], arrays)
    return _posterior(_checked(path, header["source"], extra).network, extra["x"], extra["y"])


def _checked(path: str | os.PathLike[str], source: Mapping[str, Any], extra: Mapping[str, np.ndarray]) -> FittedNetwork:
    """What a file says of its networks, once it fits the arrays in it: nothing is allocated before."""
    try:
        return fitted(source, extra)
    except ConfigError as error:
        raise StorageError(f"{path} is damaged: {error}") from error


def _extra(
    path: str | os.PathLike[str], source: Mapping[str, object], arrays: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    names = ("x", "y", "networks")
    if "network" not in source or any(f"extra/{name}" not in arrays for name in names):
        raise StorageError(f"{path} is not a network's file; `ergodic bnn fit` writes one")
    return {name: arrays[f"extra/{name}"] for name in names}


def _posterior(network: RegressionNetwork, x: np.ndarray, y: np.ndarray) -> Target:
    return network.target(Scaling.of(x, y).data(x, y))
