"""Inference methods, one per file: a frozen configuration whose ``fit(target, key)`` gives a `Sampler`."""

from __future__ import annotations

from ..protocols import Method
from ..runtime.errors import ConfigError, unknown
from .chees import ChEES
from .gei import GEI
from .ghmc import GHMC
from .hais import HAIS
from .hei import HEI
from .hvae import HVAE
from .hvi import HVI
from .laps import LAPS
from .long_chain import LongChain
from .meads import MEADS
from .mean_field import MeanField
from .nuts import NUTS
from .pathfinder import Pathfinder
from .rejection import Rejection
from .sghmc import SGHMC

_OURS = (GEI, LongChain)
_PAPERS = (HEI, MeanField, HVI, HVAE, GHMC, HAIS, SGHMC, Rejection)
_PEERS = (NUTS, ChEES, MEADS, LAPS, Pathfinder)
METHODS: dict[str, type[Method]] = {method.name: method for method in (*_OURS, *_PAPERS, *_PEERS)}


def get(name: str) -> type[Method]:
    """The method's class, by name, whatever the case."""
    for known, method in METHODS.items():
        if known.lower() == name.lower():
            return method
    raise ConfigError(unknown("method", name, METHODS))


__all__ = [
    "GEI",
    "GHMC",
    "HAIS",
    "HEI",
    "HVAE",
    "HVI",
    "LAPS",
    "MEADS",
    "METHODS",
    "NUTS",
    "SGHMC",
    "ChEES",
    "LongChain",
    "MeanField",
    "Pathfinder",
    "Rejection",
    "get",
]
