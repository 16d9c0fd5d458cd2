"""Sampled networks as a file, for predicting new rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._version import __version__
from ..runtime.errors import StorageError
from ..runtime.files import digest, read_arrays, write_atomically
from .chain import long_chain
from .network import Data, Network
from .prediction import Mixture, predict
from .scaling import Scaling

_MARK = "ergodic-network"
_PARTS = 8
"""In which networks are drawn, as if of so many splits: the processor's cores share them."""


class FittedNetwork(NamedTuple):
    """Draws of a network's posterior, with all that predicting needs."""

    network: Network
    positions: np.ndarray
    """``(networks, dim)``."""
    scaling: Scaling
    features: list[str]
    target: str

    def predict(self, x: np.ndarray) -> Mixture:
        """The predictive distribution of raw rows."""
        return predict(self.network, self.positions, self.scaling, x)

    def save(self, path: Path) -> None:
        """Write it, whole or not at all."""
        from safetensors.numpy import save

        arrays = {
            "positions": np.asarray(self.positions, np.float32),
            "x_mean": np.asarray(self.scaling.x_mean),
            "x_scale": np.asarray(self.scaling.x_scale),
        }
        header = {
            "version": __version__,
            "sha256": digest(arrays),
            "hidden": list(self.network.hidden),
            "features": self.features,
            "target": self.target,
            "y_mean": self.scaling.y_mean,
            "y_scale": self.scaling.y_scale,
        }
        write_atomically(path, save(arrays, metadata={_MARK: json.dumps(header)}))


def load(path: Path) -> FittedNetwork:
    """Read it back."""
    metadata, arrays = read_arrays(path, "a network's file")
    if _MARK not in metadata:
        raise StorageError(f"{path} is not a network's file; `ergodic bnn fit` writes one")
    header = json.loads(metadata[_MARK])
    if digest(arrays) != header["sha256"]:
        raise StorageError(f"{path} is damaged: its numbers are not those that were saved; fit again")
    network = Network(len(header["features"]), tuple(header["hidden"]))
    scaling = Scaling(arrays["x_mean"], arrays["x_scale"], header["y_mean"], header["y_scale"])
    return FittedNetwork(network, arrays["positions"], scaling, header["features"], header["target"])


def fit(
    x: np.ndarray,
    y: np.ndarray,
    features: list[str],
    target: str,
    key: Any,
    *,
    hidden: tuple[int, ...] = (50,),
    networks: int = 200,
    effort: float = 1.0,
) -> tuple[FittedNetwork, np.ndarray]:
    """Sample networks given raw rows; also E_{p_t}[log p(w, y)] along the chain. ``effort`` is its length's factor."""
    network, scaling = Network(x.shape[1], hidden), Scaling.of(x, y)
    data = scaling.data(x, y)
    one = Data(jnp.asarray(data.x)[None], jnp.asarray(data.y)[None])
    chain = long_chain(data.rows, effort)
    fit_key, sample_key = jax.random.split(key)
    params = chain.fit(network, one, fit_key).params
    parts = min(_PARTS, networks)
    rows, params = jax.tree.map(lambda leaf: jnp.repeat(leaf, parts, axis=0), (one, params))
    positions, trace = chain.sample(network, rows, params, sample_key, -(-networks // parts))
    sampled = positions.reshape(-1, network.dim)[:networks]
    expected = np.mean(trace.expected_logdensity, axis=0)
    return FittedNetwork(network, sampled, scaling, features, target), expected
