"""MCMC transitions, one a file. A kernel is a frozen configuration that moves an `Ensemble` given its parameters."""

from .ensemble import Ensemble, Info, start
from .hmc import HMC, HMCParams
from .leapfrog import leapfrog

__all__ = ["HMC", "Ensemble", "HMCParams", "Info", "leapfrog", "start"]
