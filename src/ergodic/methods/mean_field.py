"""Mean-field variational inference: the diagonal Gaussian of largest ELBO, by reparameterisation and Adam.

The cheapest baseline, and P0 without a chain: what ergodic inference starts from and improves on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from ..initial import DiagonalGaussian
from ..protocols import FixedShapes, Independent
from ..runtime.drawing import Batch
from ..runtime.programs import Stopwatch
from ..runtime.validation import Rule
from ..sampler import Sampler
from ..target import Density, Target
from ..tuning.ascent import ADAM, check_adam, train
from ..tuning.checks import require_usable
from ..tuning.elbo import Elbo
from .from_gaussian import FromGaussian


@dataclass(frozen=True)
class MeanField(FromGaussian, FixedShapes, Independent):
    """Settings of mean-field VI.

    Attributes:
      iterations, particles, learning_rate, adam: of the optimisation.
    """

    iterations: int = 1000
    particles: int = 100
    learning_rate: float = 0.02
    adam: tuple[float, float, float] = ADAM

    name: ClassVar[str] = "MeanField"
    title: ClassVar[str] = "mean-field variational inference"
    rules: ClassVar[Mapping[str, Rule]] = {"adam": check_adam}

    def begin(self, target: Target, key: Array) -> DiagonalGaussian:
        """The Gaussian before tuning."""
        return self.initial(target)

    def fit(self, target: Target, key: Array, *, progress: bool | None = None) -> Sampler:
        """Maximise the ELBO by Adam."""
        clock = Stopwatch()
        check_key, train_key = jax.random.split(key)
        params = self.begin(target, key)
        require_usable(target, check_key, params)
        params, record = train(self, Elbo(self.particles), target.density, params, train_key, progress=progress)
        depth = len(record.get("objective", ()))
        return Sampler(target, self, params, record, clock.cost(depth * self.particles, depth))

    def depth(self, params: PyTree) -> int:
        """One evaluation per draw."""
        return 1

    def simulate(self, density: Density, params: DiagonalGaussian, key: Array, particles: int) -> Batch:
        """Independent draws of the Gaussian."""
        position = params.sample(key, particles)
        logdensity = jax.vmap(density)(position)
        return Batch(position, logdensity, {}, {"expected_logdensity": jnp.mean(logdensity)[None]})
