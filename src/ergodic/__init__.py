"""Ergodic inference: independent, low-bias draws from an unnormalised log-density.

import jax, ergodic as eg

target = eg.targets.get("dual-moon")
sampler = eg.fit(target, jax.random.key(0), method=eg.HEI(steps=10, leapfrogs=5))
draws = sampler.sample(jax.random.key(1), 100_000)
"""

from . import targets
from ._version import __version__
from .adapters import arviz as _arviz  # noqa: F401 provides Draws.to_arviz
from .adapters import frames as _frames  # noqa: F401 provides Draws.to_pandas
from .adapters import plots as _plots  # noqa: F401 provides Draws.plot and Sampler.plot
from .adapters.numpyro import from_numpyro
from .adapters.pymc import from_pymc
from .api import fit, load
from .calibration import Calibration, sbc
from .certificate import Certificate
from .diagnostics import summary as _summary  # noqa: F401 provides Draws.summary
from .draws import Draws, WeightedDraws, concatenate
from .family import Family
from .family_sampler import FamilyDraws, FamilySampler
from .many import ManySamplers, fit_many, sample_many
from .methods import GEI, GHMC, HAIS, HEI, HVAE, HVI, LAPS, MEADS, NUTS, SGHMC, ChEES, MeanField, Pathfinder, Rejection
from .methods.long_chain import LongChain
from .methods.refined import refine
from .model import Model
from .runtime.errors import (
    ConfigError,
    DataError,
    DrawsWarning,
    ErgodicError,
    ModelError,
    StorageError,
    TargetError,
    TargetWarning,
)
from .runtime.logs import set_verbosity
from .sampler import Sampler
from .target import Reference, Target, Truth

__all__ = [
    "GEI",
    "GHMC",
    "HAIS",
    "HEI",
    "HVAE",
    "HVI",
    "LAPS",
    "MEADS",
    "NUTS",
    "SGHMC",
    "Calibration",
    "Certificate",
    "ChEES",
    "ConfigError",
    "DataError",
    "Draws",
    "DrawsWarning",
    "ErgodicError",
    "Family",
    "FamilyDraws",
    "FamilySampler",
    "LongChain",
    "ManySamplers",
    "MeanField",
    "Model",
    "ModelError",
    "Pathfinder",
    "Reference",
    "Rejection",
    "Sampler",
    "StorageError",
    "Target",
    "TargetError",
    "TargetWarning",
    "Truth",
    "WeightedDraws",
    "__version__",
    "concatenate",
    "fit",
    "fit_many",
    "from_numpyro",
    "from_pymc",
    "load",
    "refine",
    "sample_many",
    "sbc",
    "set_verbosity",
    "targets",
]
