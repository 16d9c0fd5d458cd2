"""Do further transitions change anything? If the draws are from π, no transition that leaves π unchanged can.

Every draw x is moved once by a Metropolis-corrected trajectory, to x', and f(x') - f(x) is looked at for many f. HMC is
reversible: with x from π, (x, x') and (x', x) have one distribution, so the differences are symmetric about 0 and their
p-value is exact for any number of draws and any tails (`hypotheses.symmetric`). Trajectories of several lengths are
tried: short ones see what is wrong locally, long ones what is wrong with the spread.

The probe is not the sampler's own chain: it moves in a chart and with a step size found on the draws, so a badly tuned
chain cannot vouch for itself.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..kernels.ensemble import Ensemble
from ..protocols import Chart
from ..tuning.forgetting import Particles
from ..tuning.stepping import Way

ROWS = 512
_STEPS = 2.0 ** -np.arange(-1, 9)  # in the chart: 2 is the stability limit of a Gaussian
_ACCEPTANCE = 0.75
_QUARTER = np.pi / 2
_LONGEST = 16


class Moved(NamedTuple):
    """Where one trajectory length took the draws."""

    position: np.ndarray
    logdensity: np.ndarray
    acceptance: np.ndarray


class Probe(NamedTuple):
    """A trajectory's chart, step size and lengths, as the draws afford them."""

    way: Way
    chart: Chart
    step: float
    lengths: tuple[int, ...]
    """None of them, where no step size moves the draws."""
    gradients: int
    """What finding the step size cost."""

    @staticmethod
    def of(way: Way, draws: Particles, key: Array) -> Probe:
        """The longest step that most of some draws accept, and lengths up to a quarter period."""
        chart, rows = way.chart(draws), len(draws.position)
        for tried, step in enumerate(_STEPS, start=1):
            _, info = way.applied(Ensemble(*map(jnp.asarray, draws)), chart, float(step), 3, 0, key)
            if float(np.mean(np.asarray(info.acceptance))) >= _ACCEPTANCE:
                longest = int(np.clip(round(_QUARTER / step), 1, _LONGEST))
                lengths = sorted({1, round(np.sqrt(longest)), longest})
                return Probe(way, chart, float(step), tuple(lengths), 3 * tried * rows)
        return Probe(way, chart, float(step), (), 3 * tried * rows)

    def move(self, draws: Particles, rows: int, key: Array) -> dict[int, Moved]:
        """Every draw once by each length, ``rows`` at a time, so that there is one program."""
        found: dict[int, list[Moved]] = {length: [] for length in self.lengths}
        for at in range(0, len(draws.position), rows):
            block = Ensemble(*(jnp.asarray(np.resize(leaf[at : at + rows], (rows, *leaf.shape[1:]))) for leaf in draws))
            count = min(rows, len(draws.position) - at)
            for length in self.lengths:
                fold = jax.random.fold_in(key, length)
                end, info = self.way.applied(block, self.chart, self.step, length, at, fold)
                parts = jax.device_get((end.position, end.logdensity, info.acceptance))
                found[length].append(Moved(*(part[:count] for part in parts)))
        return {length: joined(parts) for length, parts in found.items()}


def joined(parts: list[Moved]) -> Moved:
    """Rows of several blocks."""
    return Moved(*(np.concatenate(leaves) for leaves in zip(*parts, strict=True)))
