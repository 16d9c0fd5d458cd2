"""Hamiltonian variational inference (Salimans, Kingma & Welling 2015), as the paper runs it in section 4.1.

The chain is HEI's without the Metropolis step, from P0 = N(0, I); what differs is the objective: an ELBO with an
auxiliary reverse model (`tuning/hvi_elbo.py`). 1,000 iterations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import jax
from jaxtyping import Array, PyTree

from ..chain import ChainParams, simulate
from ..initial import DiagonalGaussian
from ..kernels import HMC
from ..protocols import Fact, FixedShapes, Independent
from ..runtime.drawing import Batch
from ..runtime.programs import Stopwatch
from ..runtime.validation import Rule
from ..sampler import Sampler
from ..target import Density, Target
from ..tuning.ascent import ADAM, check_adam, train
from ..tuning.checks import require_usable
from ..tuning.hvi_elbo import HviElbo, HVIParams
from ..tuning.mlp import init_mlp
from .from_gaussian import FromGaussian


@dataclass(frozen=True)
class HVI(FromGaussian, FixedShapes, Independent):
    """Settings of Hamiltonian variational inference.

    Attributes:
      steps, leapfrogs: T and L.
      hidden: units of each step's reverse network.
      iterations, particles, learning_rate, adam: of the optimisation.
      tune_initial: whether P0 is tuned with the rest. The paper keeps it standard normal.
      step_size: range from which the initial step sizes are drawn uniformly.
    """

    steps: int = 10
    leapfrogs: int = 5
    hidden: int = 32
    iterations: int = 1000
    particles: int = 100
    learning_rate: float = 0.01
    tune_initial: bool = False
    step_size: tuple[float, float] = (0.01, 0.025)
    adam: tuple[float, float, float] = ADAM

    name: ClassVar[str] = "HVI"
    title: ClassVar[str] = "Hamiltonian variational inference (Salimans et al. 2015)"
    rules: ClassVar[Mapping[str, Rule]] = {"adam": check_adam}

    def depth(self, params: PyTree) -> int:
        """T L + 1: the gradients that one draw costs."""
        return 1 + self.steps * self.leapfrogs

    def begin(self, target: Target, key: Array) -> HVIParams:
        """The parameters before tuning: HEI's first step sizes, reverse networks that predict the momentum's prior."""
        chain_key, network_key = jax.random.split(key)
        dim, dtype = target.dim, target.dtype
        return HVIParams(
            self.initial(target),
            HMC(self.leapfrogs).init(chain_key, self.steps, dim, dtype, self.step_size),
            jax.vmap(lambda key: init_mlp(key, dim, self.hidden, 2 * dim, dtype))(
                jax.random.split(network_key, self.steps)
            ),
        )

    def fit(self, target: Target, key: Array, *, progress: bool | None = None) -> Sampler:
        """Maximise the lower bound of log Z by Adam."""
        clock = Stopwatch()
        begin_key, check_key, train_key = jax.random.split(key, 3)
        params = self.begin(target, begin_key)
        require_usable(target, check_key, params.initial)
        params, record = train(
            self,
            HviElbo(self.leapfrogs, self.particles, self.tune_initial),
            target.density,
            params,
            train_key,
            progress=progress,
        )
        depth = len(record.get("objective", ())) * 2 * self.depth(params)  # forward and back
        return Sampler(target, self, params, record, clock.cost(depth * self.particles, depth))

    def start(self, params: HVIParams) -> DiagonalGaussian:
        """P0, from which every run starts."""
        return params.initial

    def simulate(self, density: Density, params: HVIParams, key: Array, particles: int) -> Batch:
        """Independent runs of the chain, without a Metropolis step."""
        chain = ChainParams(params.initial, params.transitions)
        end, stats, trace = simulate(density.batched, HMC(self.leapfrogs, adjusted=False), chain, key, particles)
        return Batch(end.position, end.logdensity, stats._asdict(), trace._asdict())

    def facts(self, params: PyTree) -> dict[str, Fact]:
        """Plain facts for the draws' attributes."""
        return {"steps": self.steps, "leapfrogs": self.leapfrogs, "adjusted": False}
