"""Hard faults: samplers that GEI itself tuned, with all that a certificate asks for, and one thing wrong.

What is wrong is the density that the chain moves on (`Planted`). Everything that is the sampler's own has the fault:
its pilot, its chart, P0, the schedule, coupled chains, other starts. Only the certificate's own evaluations of log π*
are the target's. A neck that is walled off is never entered: neither by draws nor by any chain that is started
elsewhere. Or the schedule is cut in half (`halved`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

import ergodic as eg
from ergodic.charts import chart_at
from ergodic.family import Family
from ergodic.kernels.coupled import Pairs
from ergodic.kernels.ensemble import Ensemble
from ergodic.methods.schedule import GEIParams, run_together
from ergodic.runtime.drawing import Batch
from ergodic.sampler import Sampler
from ergodic.target import Target
from ergodic.tuning.stepping import Way

from . import hard_targets as on
from .hard_targets import Posed

_WALL, _SLOPE = 1e3, 1.0
"""By how much log π* is lower behind a wall, in nats, and what leads out of there, in nats per unit."""

Depth = Callable[[Float[Array, "dim"]], Array]
"""How far behind a wall a position is; negative where it is not."""


@dataclass(frozen=True)
class Planted(eg.GEI):
    """GEI's chain, moving on another density than that of the target it is said to sample."""

    moves_on: Target | None = field(default=None, compare=False, repr=False)

    name: ClassVar[str] = "Planted"

    def _way(self, target: Target | Family, params: GEIParams | None = None) -> Way:
        assert self.moves_on is not None
        return super()._way(self.moves_on, params)

    def _run(self, target: Target, params: GEIParams, ensemble: Ensemble, key: Array) -> Batch:
        """The chain's draws, with the target's log π*."""
        batch = super()._run(target, params, ensemble, key)
        way = super()._way(target, params)
        u = way.coordinates.on_host().inverse(np.asarray(batch.position))
        found = way.evaluated(u, chart_at(params.charts, np.int32(0)))
        level: PyTree = way.left(u, np.asarray(found.logdensity))[1]
        return batch._replace(logdensity=level)

    def together(self, target: Target, params: GEIParams, pairs: Pairs, key: Array) -> Pairs:
        """Pairs through that chain; what they carry in and out is the target's."""
        wrong, right = self._way(target, params), super()._way(target, params)
        chart = chart_at(params.charts, np.int32(0))
        begin = pairs.moved(wrong.evaluated(pairs.joined().position, chart))
        end = run_together(wrong, params, begin, key)
        return end.moved(right.evaluated(end.joined().position, chart))


class Case(NamedTuple):
    """One row: a target, what its chain moves on, and whether only half of its schedule is left."""

    fault: str
    """Empty where the sampler is sound."""
    name: str
    """Of the target."""
    dim: int
    posed: Callable[[], Posed]
    wrong: Callable[[Posed], Target] | None = None
    half: bool = False
    anneal: bool | None = None

    def sampler(self, key: Array) -> Sampler:
        """Tuned by GEI with this key."""
        posed = self.posed()
        moves_on = posed.target if self.wrong is None else _wrong(self.wrong, posed)
        fitted = eg.fit(moves_on, key, eg.GEI(anneal=self.anneal), progress=False)
        if self.wrong is not None:
            fitted = replace(fitted, target=posed.target, method=Planted(moves_on=moves_on))
        params = halved(fitted.params) if self.half else fitted.params
        return replace(fitted, params=params, certificate=None, draws=None, gathered=None)


@cache
def _wrong(make: Callable[[Posed], Target], posed: Posed) -> Target:
    return make(posed)


def halved(params: GEIParams) -> GEIParams:
    """Every other of the transitions left out, so that half of them are left, and the landings."""
    landing = np.asarray(params.schedule.varied) == 0
    others = np.flatnonzero(~landing)
    kept = np.sort(np.concatenate([others[len(others) % 2 :: 2], np.flatnonzero(landing)]))
    return params._replace(schedule=jax.tree_util.tree_map(lambda leaf: leaf[kept], params.schedule))


def walled(depth: Callable[[Posed], Depth], posed: Posed) -> Target:
    """The target, but for what is behind a wall."""
    right, behind = posed.target, depth(posed)

    def logdensity(x: Float[Array, "dim"]) -> Array:
        deep = behind(x)
        return right.density(x) - jnp.where(deep > 0, _WALL + _SLOPE * deep, 0.0)

    return _like(right, logdensity)


def narrowed(at: int, posed: Posed) -> Target:
    """The target, 10 % narrower along one coordinate, about its mean as far as that is known to be 0."""
    right, factor = posed.target, np.ones(posed.target.dim, np.float32)
    factor[at] = 1 / 0.9
    return _like(right, lambda x: right.density(x * jnp.asarray(factor, x.dtype)))


def _like(right: Target, logdensity: Callable[[Array], Array]) -> Target:
    """A target of flat positions that starts where the other one does."""
    like = jnp.zeros(right.dim, right.dtype)
    return Target(logdensity, like, name=f"{right.name}, wrong", names=right.names, prior=right.prior)


def _neck(posed: Posed) -> Depth:
    limit = posed.quantile(0, 0.02)
    return lambda x: limit - x[0]


def _tails(posed: Posed) -> Depth:
    """1 % of the first coordinate, which is symmetric."""
    limit = posed.quantile(0, 0.995)
    return lambda x: jnp.abs(x[0]) - limit


_CUT_NECK, _CUT_TAILS, _NARROW = partial(walled, _neck), partial(walled, _tails), partial(narrowed, 0)
_NARROW_CREDIT = partial(narrowed, 7)  # its mean is a seventh of its spread


def _one_mode(posed: Posed) -> Target:
    return on.gaussian(posed.target.dim).target


def _other_weight(posed: Posed) -> Target:
    return on.modes(posed.target.dim, 0.6).target


_DIMS = (2, 10, 50, 100)
_MADE: dict[str, Callable[[int], Posed]] = {
    "gaussian": on.gaussian,
    "student": on.student,
    "funnel": on.funnel,
    "hierarchy": on.hierarchy,
    "modes .98/.02": lambda dim: on.modes(dim, 0.98),
    "modes .5/.5": lambda dim: on.modes(dim, 0.5),
    "eight-schools-centred": lambda dim: on.eight_schools(),
    "german-credit": lambda dim: on.german_credit(),
}


def _each(
    fault: str,
    name: str,
    dims: tuple[int, ...] = _DIMS,
    wrong: Callable[[Posed], Target] | None = None,
    half: bool = False,
    anneal: bool | None = None,
) -> list[Case]:
    return [Case(fault, name, dim, partial(_MADE[name], dim), wrong, half, anneal) for dim in dims]


def _necks(fault: str, wrong: Callable[[Posed], Target] | None = None, half: bool = False) -> list[Case]:
    """On funnels, hierarchies, and eight schools."""
    return [
        *_each(fault, "funnel", _DIMS, wrong, half),
        *_each(fault, "hierarchy", (10, 50, 100), wrong, half),
        *_each(fault, "eight-schools-centred", (10,), wrong, half),
    ]


_NECK, _TAIL, _THIN = "neck cut at its 2 % quantile", "tails cut at 1 %", "one direction 10 % too narrow"
_GONE, _UNEVEN, _HALF = "mode of 2 % missing", "modes .5/.5 that are .6/.4", "schedule half as long"
CASES: tuple[Case, ...] = (
    *_each("", "gaussian"),
    *_each("", "student", (2, 10)),
    *_necks(""),
    *_each("", "german-credit", (25,)),
    *_each("", "modes .98/.02", anneal=False),
    *_each("", "modes .5/.5", (2, 10), anneal=False),
    *_necks(_NECK, _CUT_NECK),
    *_each(_TAIL, "gaussian", wrong=_CUT_TAILS),
    *_each(_TAIL, "student", (2, 10), wrong=_CUT_TAILS),
    *_each(_THIN, "gaussian", wrong=_NARROW),
    *_each(_THIN, "funnel", (10, 100), wrong=_NARROW),
    *_each(_THIN, "german-credit", (25,), wrong=_NARROW_CREDIT),
    *_each(_GONE, "modes .98/.02", wrong=_one_mode),
    *_each(_UNEVEN, "modes .5/.5", (2, 10), wrong=_other_weight, anneal=False),
    *_necks(_HALF, half=True),
    *_each(_HALF, "gaussian", half=True),
    *_each(_HALF, "german-credit", (25,), half=True),
)
"""Chains of the two modes of .5 go from one to the other in few dimensions only: in 50 tuning takes minutes."""
