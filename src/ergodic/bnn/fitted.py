"""Networks fitted to a table: a sampler of their posterior, sampled networks, and the file that holds both.

The file is a sampler's (`runtime/sampler_files.py`): `ergodic sample` and `ergodic certify` understand it. Its source
is ``{"network": {"features": [...], "target": ..., "hidden": [...]}}``; beside the sampler it holds the training rows,
as they were, and the sampled networks: ``extra/x``, ``extra/y``, ``extra/networks``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array

from ..runtime.errors import StorageError
from ..runtime.files import read_arrays
from ..runtime.sampler_files import read
from ..sampler import Sampler
from ..target import Target
from .chain import network_chain
from .network import RegressionNetwork
from .prediction import Mixture, predict
from .scaling import Scaling

_EARLIER = "ergodic-network"
"""The metadata of files that earlier versions wrote."""


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


def fitted(
    source: Mapping[str, Mapping[str, list[str] | list[int] | str]], extra: Mapping[str, np.ndarray]
) -> FittedNetwork:
    """What predicting needs, from the source and the extra arrays of a sampler."""
    known = source["network"]
    features = [str(name) for name in known["features"]]
    network = RegressionNetwork(len(features), tuple(int(units) for units in known["hidden"]))
    return FittedNetwork(network, extra["networks"], Scaling.of(extra["x"], extra["y"]), features, str(known["target"]))


def load(path: str | os.PathLike[str]) -> FittedNetwork:
    """Read sampled networks back from what `ergodic bnn fit` wrote."""
    metadata, _ = read_arrays(path, "a network's file")
    if _EARLIER in metadata:
        raise StorageError(f"{path} was written by an earlier version of ergodic, which kept no sampler; fit again")
    if "ergodic" not in metadata:
        raise StorageError(f"{path} is not a network's file; `ergodic bnn fit` writes one")
    header, arrays = read(path)
    return fitted(header["source"], _extra(path, header["source"], arrays))


def target_in(path: str | os.PathLike[str]) -> Target:
    """The posterior that a network's file was fitted to, given the rows in the file."""
    header, arrays = read(path)
    extra = _extra(path, header["source"], arrays)
    return _posterior(fitted(header["source"], extra).network, extra["x"], extra["y"])


def _extra(
    path: str | os.PathLike[str], source: Mapping[str, object], arrays: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    names = ("x", "y", "networks")
    if "network" not in source or any(f"extra/{name}" not in arrays for name in names):
        raise StorageError(f"{path} is not a network's file; `ergodic bnn fit` writes one")
    return {name: arrays[f"extra/{name}"] for name in names}


def _posterior(network: RegressionNetwork, x: np.ndarray, y: np.ndarray) -> Target:
    return network.target(Scaling.of(x, y).data(x, y))
