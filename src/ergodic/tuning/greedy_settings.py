"""Every number that greedy tuning goes by, in one place; `GEI(details=GreedySettings(...))` changes them.

The defaults were chosen by measurement (docs/greedy.md). None of them depends on the target.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..runtime.errors import ConfigError
from ..runtime.validation import settle


@dataclass(frozen=True)
class GreedySettings:
    """Constants of the greedy search for a step, of walks, of families, of temperatures, of charts, and of a whole fit.

    Attributes:
      acceptance: a step's size follows the acceptance a of the last step, ε *= exp(a - acceptance).
      longest: leapfrogs that one step may have, at most.
      dead: a step with less acceptance is not kept, and ε is halved.
      easy: with more acceptance ε is doubled.
      quarter: leapfrogs of a step on the way from a far start, at most.
      length_cost: the exponent by which a length's cost counts in the search for it.
      finer: how much finer a fine step is; it has as many times more leapfrogs.
      chunk: steps of a pilot between two looks at it; other walks are looked at twice as often.
      first_step: ε before anything is known.
      unsettled: averages stand still while no p-value is below this.
      forgotten: the largest correlation with the start that counts as none, in units of 1/√N: what chance gives two
        hundred correlations.
      mixed: a pilot has arrived when a chunk of steps leaves less than this correlation.
      least: steps of a schedule, at least.
      landing: landings for each gradient of a schedule's other transitions.
      deepest: gradients one after the other in a walk that chooses a schedule, at most.
      raced: steps after which the starts of a pilot are compared.
      nearly: the share of a family's members that must have settled.
      shuffles: shuffled starts from which a family learns what correlation chance gives.
      stray: spreads beyond which a particle is brought near when a family's particles are pooled.
      together: particles whose limit is asked of a family as a whole, where it has as many.
      wider: how much wider than the ensemble an annealed chain's P0 is.
      variance: what the variance of log-weights of a run may be, about.
      after: greedy steps at β = 1.
      temperatures: temperatures that an ensemble may take, at most.
      spread_out: temperatures of the schedule for each that the ensemble took, at most.
      chart_reach: how much one ensemble may stretch or shrink a direction of its own covariance, at most.
      chart_rank: leading directions of positions, and of forces, that a low-rank chart looks at.
      chart_noise: a stretch nearer to 1 may be the noise of few particles, and is left out.
      layers: of the coordinates that are learned (`charts/driven.py`), at most.
      beyond: spreads beyond the particles to which pairs are looked at along the drivers, too.
      directions: whether layers may have directions of their own, where there are particles enough to tell them.
      gain: the share of what is left that a driver must take away, besides more than its error; None for no share.
      changed: coordinates are learned anew where they leave so many times what they left.
      scales: of the normal distributions around 0 that a pilot may start from, from wide to narrow.
      rounds: fits of a target, each from better particles, while the certificate fails.
      patience: a further round begins only while less than so many times the seconds of the first have passed.
      slow: seconds from which one evaluation of all particles is slow, so that there are fewer of them.
      heavy: bytes that one gradient's operations make, from which there are few particles from the beginning.
      fewest: particles, at least, however dear the density.
    """

    acceptance: float = 0.8
    longest: int = 64
    dead: float = 0.25
    easy: float = 0.95
    quarter: int = 16
    length_cost: float = 0.75
    finer: int = 4
    chunk: int = 8
    first_step: float = 0.5
    unsettled: float = 1e-3
    forgotten: float = 3.8
    mixed: float = 0.5
    least: int = 8
    landing: float = 0.2
    deepest: int = 2000
    raced: int = 8
    nearly: float = 0.9
    shuffles: int = 100
    stray: float = 4.0
    together: int = 512
    wider: float = 1.25
    variance: float = 0.3
    after: int = 4
    temperatures: int = 200
    spread_out: int = 24
    chart_reach: float = 100.0
    chart_rank: int = 16
    chart_noise: float = 2.0
    layers: int = 2
    beyond: float = 1.5
    directions: bool = True
    gain: float | None = None
    changed: float = 1.5
    scales: tuple[float, ...] = (1.0, 0.1)
    rounds: int = 4
    patience: float = 4.0
    slow: float = 0.1
    heavy: float = 5e5
    fewest: int = 128

    def __post_init__(self) -> None:
        settle(self)
        if self.chunk < 2:
            raise ConfigError(f"chunk must be at least 2, not {self.chunk}")
        if not isinstance(self.scales, tuple) or not self.scales:
            raise ConfigError(f"scales must be a list of at least one number, not {self.scales!r}")


def details_of(value: object, what: str) -> GreedySettings:
    """The settings, given as themselves or, as a file has them, by name."""
    if isinstance(value, Mapping):
        settings: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in value.items()}
        return GreedySettings(**settings)
    if not isinstance(value, GreedySettings):
        raise ConfigError(f"{what} must be a GreedySettings, not {value!r}")
    return value
