"""Two chains of one law that are brought together: what their meeting says of the law, no single chain can say.

Two particles that go through the same HMC transitions with the same momenta, step sizes and uniforms come nearer to
each other where log π* is concave, but they never meet. In a *landing* they may: a transition of one leapfrog proposes
x' ~ N(m, ε² AA'), m = x + ½ε² AA'∂log π(x), and two such proposals can be drawn so that they are equal as often as two
Gaussians can be (a maximal coupling, by reflection: Bou-Rabee, Eberle & Zimmer 2020). With r ~ N(0, I) and
Δ = A⁻¹(m_X - m_Y)/ε,

    r_Y = r + Δ                    with probability min(1, φ(r + Δ)/φ(r)): the proposals are equal;
    r_Y = r - 2 (e·r) e, e = Δ/|Δ|     otherwise.

r_Y is N(0, I) in either case, so each of the two moves as if it were alone. They accept with the same uniform; once
they have met, they stay together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import PyTree

from ..charts import LinearChart
from .ensemble import Ensemble


class Pairs(NamedTuple):
    """Two ensembles, row by row, on the host."""

    first: Ensemble
    second: Ensemble
    met: np.ndarray
    """Which rows are one and the same from now on."""

    @staticmethod
    def of(first: Ensemble, second: Ensemble) -> Pairs:
        """Pairs that have not met yet."""
        return Pairs(_on_host(first), _on_host(second), np.zeros(len(first.position), bool))

    def rows(self, which: np.ndarray) -> Pairs:
        """Some of the pairs."""
        first, second = (Ensemble(*(leaf[which] for leaf in each)) for each in self[:2])
        return Pairs(first, second, self.met[which])

    def and_also(self, more: Pairs) -> Pairs:
        """These pairs, and more of them behind."""
        leaves: PyTree = [
            [np.concatenate(both) for both in zip(*each, strict=True)] for each in zip(self[:2], more[:2], strict=True)
        ]
        return Pairs(Ensemble(*leaves[0]), Ensemble(*leaves[1]), np.append(self.met, more.met))

    def joined(self) -> Ensemble:
        """Both in one ensemble, the first in the first half."""
        leaves: PyTree = [np.concatenate(both) for both in zip(self.first, self.second, strict=True)]
        return Ensemble(*leaves)

    def moved(self, both: Ensemble) -> Pairs:
        """Where both went; what has met stays together to the last bit."""
        ends, half = _on_host(both), len(self.met)
        first, second = (Ensemble(*(leaf[rows] for leaf in ends)) for rows in (slice(0, half), slice(half, 2 * half)))
        return Pairs(first, _where(self.met, first, second), self.met)


def land(
    pairs: Pairs,
    chart: LinearChart,
    step: float,
    evaluated: Callable[[np.ndarray], Ensemble],
    rng: np.random.Generator,
) -> Pairs:
    """One leapfrog of size ε for both of every pair, coupled maximally."""
    n, dim = pairs.first.position.shape
    r, uniform, same = rng.normal(size=(n, dim)), rng.random(n), rng.random(n)
    means = [each.position + 0.5 * step**2 * chart.push(chart.pull(each.gradient)) for each in pairs[:2]]
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        apart = chart.whiten(means[0] - means[1]) / step
        length = np.linalg.norm(apart, axis=1)
        equal = np.log(same) < -0.5 * np.sum((r + apart) ** 2 - r**2, axis=1)
    equal |= pairs.met
    along = apart / np.where(length > 0, length, 1)[:, None]
    reflected = r - 2 * np.sum(r * along, axis=1, keepdims=True) * along
    momenta = r, np.where(pairs.met[:, None], r, np.where(equal[:, None], r + apart, reflected))
    dtype = pairs.first.position.dtype
    tried: list[PyTree] = [(mean + step * chart.push(v)).astype(dtype) for mean, v in zip(means, momenta, strict=True)]
    tried[1] = np.where(equal[:, None], tried[0], tried[1])
    proposals = _halves(_on_host(evaluated(np.concatenate(tried))))
    ends, accepted = [], []
    for each, proposal, momentum in zip(pairs[:2], proposals, momenta, strict=True):
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            end = momentum + 0.5 * step * (chart.pull(each.gradient) + chart.pull(proposal.gradient))
            rise = 0.5 * np.sum(end**2 - momentum**2, axis=1) - (proposal.logdensity - each.logdensity)
            accept = np.log(uniform) < -np.where(np.isnan(rise), np.inf, rise)
        accepted.append(accept)
        ends.append(_where(accept, proposal, each))
    met = pairs.met | (equal & accepted[0] & accepted[1])
    return Pairs(ends[0], _where(met, ends[0], ends[1]), met)


def _halves(both: Ensemble) -> tuple[Ensemble, Ensemble]:
    half = len(both.position) // 2
    return Ensemble(*(leaf[:half] for leaf in both)), Ensemble(*(leaf[half:] for leaf in both))


def _on_host(ensemble: Ensemble) -> Ensemble:
    leaves: PyTree = [np.asarray(leaf) for leaf in ensemble]
    return Ensemble(*leaves)


def _where(chosen: np.ndarray, yes: Ensemble, no: Ensemble) -> Ensemble:
    """Rows of one ensemble where they are chosen, of another elsewhere."""
    each = (chosen[:, None], chosen, chosen[:, None])
    leaves: PyTree = [np.where(rows, *both) for rows, *both in zip(each, yes, no, strict=True)]
    return Ensemble(*leaves)
