"""MCMC transitions, one per file. A kernel is a frozen configuration that moves an `Ensemble` given its parameters."""

from .ensemble import Ensemble, Info, start
from .hmc import HMC, HMCParams
from .l2hmc import L2HMC, L2HMCParams
from .leapfrog import leapfrog

__all__ = ["HMC", "L2HMC", "Ensemble", "HMCParams", "Info", "L2HMCParams", "leapfrog", "start"]
