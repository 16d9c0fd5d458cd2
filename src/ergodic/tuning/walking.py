"""The walks of greedy tuning, on the host between compiled steps, over M members at once: a target is M = 1.

1. `pilot`: from a simple start to every member's target. Scales of the start are raced for a few steps, the widest
   whose log π* is as good as the best goes on. Particles that are nowhere, or hopelessly far behind, are replaced by
   copies of others: the pilot need not be independent, it only has to know where the target is. It ends when nothing
   moves any more.
2. `retune`: fresh particles of a P0 fitted to the pilot. Nobody is replaced; every step that is made is kept. It ends
   when nearly all members' particles have forgotten where they started, and nothing moves (`forgetting.py`).
3. `prune`: others say how much of that schedule is needed, and which members it does not serve.

Member m has particles u = A_m z with a chart A_m of its own, measured on its own particles, in whose coordinates the
posteriors of one family look alike: hence one ε_t and one L_t for all. u is x, or coordinates that were learned, with
the member's own numbers in them. Its particles are one block of the ensemble's rows, which `greedy.advance` moves as it
moves any other ensemble.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..charts import LinearChart
from ..charts.coordinates import Coordinates
from ..charts.drivers import again, composed, either, learned, left
from ..charts.fisher import Pairs
from ..kernels.ensemble import Ensemble
from ..protocols import Initial
from ..runtime.budget import Budget
from ..runtime.errors import TargetError
from ..runtime.noise import generator
from ..runtime.progress import count_steps, phase
from ..statistics.levels import floor_of
from .checks import require_started, require_usable
from .forgetting import Particles, forgotten, particles_of, remembered, still
from .greedy import APPLY, FINE, REPEAT, SEARCH, TRANSIENT, Chosen, Walk, begin
from .greedy_settings import GreedySettings
from .precision import warn_of_rounding
from .stepping import Way, in_one

Tree = TypeVar("Tree")


class Walked(NamedTuple):
    """Where a walk ended."""

    way: Way
    """In the coordinates that it ended in."""
    walk: Walk
    charts: list[LinearChart]
    """One per member, on the host."""
    chosen: Chosen
    """Steps that moved the particles, stacked, on the host."""
    settled: np.ndarray
    """Which members have forgotten where they started, and stand still; of a pilot, which stand still."""
    memory: np.ndarray
    """The largest correlation with the start, per member; NaN for a pilot."""
    depth: int
    gradients: int

    def particles(self) -> list[Particles]:
        """Every member's particles, on the host."""
        return particles_of(self.walk.ensemble, len(self.charts))

    def centres(self, rng: np.random.Generator) -> list[np.ndarray]:
        """Where P0 may start: every member's particles, but for those that live far below the others.

        P0 need not be unbiased. A few that stay in a spurious mode would put as many into every P0 to come.
        """
        return [rescued(one, _far_below(one), rng).position for one in self.particles()]

    def floors(self) -> list[float]:
        """Below which log π* no start of a member should be."""
        return [float(np.median(_finite(one))) - _far_below(one) for one in self.particles()]

    def astray(self) -> bool:
        """Whether a few particles live far below the others."""
        pairs = zip(self.particles(), self.floors(), strict=True)
        return any(bool((one.logdensity < floor).any()) for one, floor in pairs)


class _Walker:
    """A walk: where it is, what it has chosen, and what it has cost."""

    def __init__(
        self, way: Way, ensemble: Ensemble, step: float | Array, key: Array, budget: Budget, starting: int = 1
    ):
        self.starting = starting  # evaluations before the first step
        self.way, self.key, self.rng, self.budget = way, key, generator(key), budget
        self.walk, self.charts = begin(ensemble, step), list[LinearChart]()
        self.chosen: list[Chosen] = []
        self.made = self.looks = 0
        self.divergence = 0.0  # what the coordinates left where they were learned

    def go(self, modes: list[int], *, measure: bool) -> None:
        """As many steps as there are modes; charts are measured anew before each that is not a repetition.

        Where a budget ends there are no more of them, but for the first.
        """
        new: list[Chosen] = []
        rows = self.walk.ensemble.position.shape[0]
        for mode in modes:
            if self.made and self.budget.over():
                break
            if measure and mode not in (REPEAT, APPLY):
                self.measure()
            most = self.budget.affords(rows)
            self.walk, chosen, _ = self.way.moved(self.walk, in_one(self.charts), mode, self.made, self.key, most)
            new.append(jax.device_get(chosen))  # waits, so that the budget is known
            self.made += 1
            count_steps(gradients=rows * int(new[-1].gradients))
        self.chosen += new

    def particles(self) -> list[Particles]:
        """Every member's particles, on the host."""
        return particles_of(self.walk.ensemble, len(self.way.members))

    def measure(self) -> None:
        """Every member's chart, from its particles as they stand."""
        self.charts = [self.way.chart(each) for each in self.particles()]

    def rescue(self, below: float, rng: np.random.Generator) -> None:
        """Particles that are nowhere, or hopelessly far behind, become copies of others of their member."""
        kept = [rescued(each, below, rng) for each in self.particles()]
        ensemble = Ensemble(*(jnp.asarray(np.concatenate(leaves)) for leaves in zip(*kept, strict=True)))
        self.walk = self.walk._replace(ensemble=ensemble)

    def learn(self) -> bool:
        """Coordinates, anew, from where the particles are and the forces there; whether any are worth having.

        Pairs need not be draws of the target: so the layers that were found are fitted again with pairs further
        out along their drivers besides, where a neck or a plain begins that particles hardly visit.
        """
        way, settings = self.way, self.way.settings
        like = way.like._replace(pairs=way.own()[0].pairs)
        here = self._pairs(way.left(np.asarray(self.walk.ensemble.position), np.zeros(()))[0])
        pairs = [_stored(each) for each in particles_of(here, len(way.members))]
        found = learned(pairs, self.rng, like, way.members[0].hints, settings.gain)
        if not found:
            return False
        drivers = sorted({driver for each in found for driver in each.drivers})
        beyond = way.learned(composed(found, like)).own()
        blocks = zip(beyond, np.split(here.position, len(way.members)), strict=True)
        x = [_beyond(*each, drivers, settings.beyond) for each in blocks]
        there = [_stored(each) for each in particles_of(self._pairs(np.concatenate(x)), len(way.members))]
        wider = again([one.beside(other) for one, other in zip(pairs, there, strict=True)], found)
        found = either(left(pairs, wider) < 1.2 * left(pairs, found) + 0.02, wider, found)
        self.divergence = float(left(pairs, found).mean())
        self.way = way.learned(composed(found, like))
        self.walk = self.walk._replace(ensemble=Ensemble(*map(jnp.asarray, self.way.entered(here))))
        self.measure()
        return True

    def changed(self) -> bool:
        """Whether particles are where the coordinates that there are do not straighten, as they did where learned."""
        inside = [_stored(each) for each in self.particles()]
        return float(left(inside, []).mean()) > self.way.settings.changed * self.divergence

    def enough(self) -> float:
        """The share of members that must have settled: all, in learned coordinates, where steps are cheap."""
        return 1.0 if self.way.coordinates.layers else self.way.settings.nearly

    def _pairs(self, x: np.ndarray) -> Particles:
        """log π* and its force at all members' positions x."""
        self.looks += 1
        members = len(self.way.members)
        chart = in_one([self.way.plain(len(x) // members)] * members)
        return particles_of(self.way.outside().evaluated(x, chart))[0]

    def levels(self) -> np.ndarray:
        """Every member's median of log π*."""
        values = np.stack([each.logdensity for each in self.particles()])
        return np.median(np.where(np.isfinite(values), values, -np.inf), axis=1)

    def depth(self) -> int:
        """Gradients one after the other so far, the start's included."""
        return self.starting + self.looks + sum(int(chosen.gradients) for chosen in self.chosen)

    def done(self, settled: np.ndarray, memory: np.ndarray) -> Walked:
        """The steps that are not dead, and where they led."""
        chosen = stacked(self.chosen)
        kept = Chosen(*(leaf[~chosen.dead] for leaf in chosen))
        rows = self.walk.ensemble.position.shape[0]
        return Walked(self.way, self.walk, self.charts, kept, settled, memory, self.depth(), self.depth() * rows)


def _stored(particles: Particles) -> Pairs:
    """Those of particles that are usable, in double precision."""
    usable = np.isfinite(particles.logdensity) & np.isfinite(particles.gradient).all(axis=1)
    return Pairs(*(leaf[usable].astype(np.float64) for leaf in (particles.position, particles.gradient)))


def _beyond(coordinates: Coordinates, x: np.ndarray, drivers: list[int], further: float) -> np.ndarray:
    """Positions with their drivers twice as far out, within so many spreads of most, and all others along with them."""
    u = coordinates.inverse(x)
    low, middle, high = np.quantile(u[:, drivers], (0.01, 0.5, 0.99), axis=0)
    reach = further * u[:, drivers].std(axis=0)
    u[:, drivers] = np.clip(middle + 2 * (u[:, drivers] - middle), low - reach, high + reach)
    return coordinates.forward(u)[0]


@np.errstate(over="ignore", invalid="ignore")  # along a flat coordinate particles go beyond all numbers
def pilot(
    way: Way, starts: Sequence[Initial], key: Array, *, particles: int, most: int, budget: Budget | None = None
) -> Walked:
    """Find every member from the best of several starts, given from wide to narrow, the same for all.

    Depth is that of one walk: the starts are raced side by side.
    """
    settings, members, budget = way.settings, way.members, budget or Budget()
    dim = members[0].dim
    phase("pilot", most)
    runners: list[_Walker] = []
    lost = 0
    for index, initial in enumerate(starts):
        walk_key = jax.random.fold_in(key, index)
        rng = generator(walk_key)
        ensemble = way.started([initial] * len(members), rng, particles)
        walker = _Walker(way, ensemble, settings.first_step, walk_key, budget)
        nowhere = [at for at, each in enumerate(walker.particles()) if not np.isfinite(each.logdensity).any()]
        if nowhere:
            lost = nowhere[0]
            continue
        _insist(way, walker.particles())
        walker.rescue(np.inf, rng)
        walker.go([TRANSIENT] * settings.raced, measure=True)
        walker.rescue(hopeless(dim), walker.rng)
        runners.append(walker)
    if not runners:
        require_usable(members[lost], key, starts[-1])
        raise TargetError(f"'{members[lost].name}' has no finite log-density where it starts: give a `prior`")
    levels = np.stack([runner.levels() for runner in runners])
    best = runners[int(np.argmax((levels >= levels.max(axis=0) - 0.5 * dim).mean(axis=1)))]
    deepest, others = max(runner.depth() for runner in runners), sum(runner.depth() for runner in runners)
    others, raced = others - best.depth(), best.depth()
    arrived = settled = np.zeros(len(members), bool)
    looking, due = bool(way.like.layers), 0
    while best.made < most and settled.mean() < best.enough() and not budget.over():
        before, level = best.particles(), best.levels()
        best.go(modes_of(settings.chunk) if arrived.all() else [TRANSIENT] * settings.chunk, measure=True)
        best.rescue(hopeless(dim), best.rng)
        arrived = arrived | (best.levels() < level + dim)
        if arrived.all():
            trios = zip(before, best.particles(), best.charts, strict=True)
            settled = np.array([_mixed(*trio, settings) for trio in trios])
            if looking and (settled.mean() >= best.enough() or best.made >= due):
                known = best.looks > 0
                if best.changed() and best.learn():
                    settled = settled & known
                due = 2 * best.made
    best.measure()
    walked = best.done(settled, np.full(len(members), np.nan))
    if len(members) == 1 and arrived.all():
        warn_of_rounding(walked, best.rng)
    rows = len(members) * particles
    return walked._replace(depth=deepest + best.depth() - raced, gradients=walked.gradients + others * rows)


def relearned(walked: Walked, key: Array) -> Walked:
    """The same particles in coordinates learned from them, where any are worth having; its cost is that of learning."""
    walker = _Walker(walked.way, walked.walk.ensemble, walked.walk.step, key, Budget())
    walker.charts = walked.charts
    if walked.way.like.layers:
        walker.learn()
    walk = walked.walk._replace(ensemble=walker.walk.ensemble)
    rows = walk.ensemble.position.shape[0]
    found = walked._replace(way=walker.way, walk=walk, charts=walker.charts)
    return found._replace(depth=walker.looks, gradients=walker.looks * rows)


def retune(
    way: Way,
    initials: Sequence[Initial],
    charts: list[LinearChart],
    step: float | Array,
    key: Array,
    *,
    particles: int,
    most: int,
    least: int = 0,
    fine: bool = False,
    floors: Sequence[float] = (),
    budget: Budget | None = None,
) -> Walked:
    """Choose a schedule for fresh particles of every member's P0, with one chart per member for all its steps.

    One of ``least`` steps is asked for where a shorter one was not enough; ``fine``: every other step is a fine one.
    With ``floors``, starts with less log π* are drawn once more.
    """
    settings, budget = way.settings, budget or Budget()
    phase("tuning", most)
    ensemble = way.started(initials, generator(key), particles, floors)
    walker = _Walker(way, ensemble, step, key, budget, 1 + bool(floors))
    walker.charts = charts
    origin, first = walker.particles(), None
    settled, memory = np.zeros(len(initials), bool), np.ones(len(initials))
    while walker.made < most and walker.depth() < settings.deepest and not (walker.made and budget.over()):
        before = walker.particles()
        walker.go(modes_of(settings.chunk // 2, fine=fine), measure=False)
        settled, memory = forgotten(origin, before, walker.particles(), charts, settings)
        if settled.mean() < settings.nearly:
            first = None
            continue
        first = first or walker.made
        if 2 * walker.made >= 3 * first and walker.made >= least:  # half as much again, and it still stands
            break
    return walker.done(settled, memory)


def prune(way: Way, initials: Sequence[Initial], walked: Walked, key: Array, floors: Sequence[float] = ()) -> Walked:
    """Drop last steps that fresh particles do not need: they have forgotten, and nothing moves, after two thirds.

    Who has settled, and how much each member remembers, is what the fresh particles say after the steps that are kept.
    """
    settings, chosen, count = way.settings, walked.chosen, len(walked.chosen.step)
    phase("pruning", count)
    particles = walked.walk.ensemble.position.shape[0] // len(initials)
    ensemble = way.started(initials, generator(key), particles, floors)
    walker = _Walker(way, ensemble, walked.walk.step, key, Budget(), 1 + bool(floors))
    walker.charts = walked.charts
    origin, needed = walker.particles(), count
    seen: list[tuple[int, np.ndarray, np.ndarray]] = []
    for at in range(0, count, settings.chunk // 2):
        before, until = walker.particles(), min(at + settings.chunk // 2, count)
        for index in range(at, until):
            walker.walk = walker.walk._replace(step=chosen.step[index], length=chosen.leapfrogs[index])
            walker.go([APPLY], measure=False)
        seen.append((until, *forgotten(origin, before, walker.particles(), walked.charts, settings)))
        needed = min(needed, until) if seen[-1][1].mean() >= settings.nearly else count
    needed = min(count, max(settings.least, math.ceil(1.5 * needed)))
    _, settled, memory = next(each for each in seen if each[0] >= needed)
    return walked._replace(
        chosen=Chosen(*(leaf[:needed] for leaf in chosen)),
        settled=settled,
        memory=memory,
        depth=walked.depth + walker.depth(),
        gradients=walked.gradients + walker.depth() * walker.walk.ensemble.position.shape[0],
    )


def modes_of(count: int, fine: bool = False) -> list[int]:
    """Every fourth step searches for its length; every other one is fine, where that is asked for."""
    pattern = (SEARCH, FINE, REPEAT, FINE) if fine else (SEARCH, REPEAT, REPEAT, REPEAT)
    return [pattern[index % 4] for index in range(count)]


def stacked(parts: Sequence[Tree]) -> Tree:
    """Trees of like shapes as one, with a leading axis, on the host."""
    return jax.tree_util.tree_map(lambda *leaves: np.stack(leaves), *parts)


def _mixed(before: Particles, after: Particles, chart: LinearChart, settings: GreedySettings) -> bool:
    """Whether averages stand still over a chunk of steps, in which particles have moved about."""
    return still(before, after, chart, settings.unsettled) and remembered(before, after, chart) < settings.mixed


def _insist(way: Way, starting: list[Particles]) -> None:
    """Refuse the first member whose log-density is not usable where it starts."""
    for target, each in zip(way.members, starting, strict=True):
        require_started(target, way.left(each.position, each.logdensity)[0], each.logdensity, each.gradient)


def rescued(particles: Particles, below: float, rng: np.random.Generator) -> Particles:
    """Particles that are not finite, or further ``below`` the median of log π*, become copies of others."""
    logdensity = particles.logdensity
    finite = np.isfinite(logdensity) & np.isfinite(particles.gradient).all(axis=1)
    if not finite.any():
        return particles
    good = finite & (logdensity >= np.median(logdensity[finite]) - below)
    if good.all():
        return particles
    chosen = np.where(good, np.arange(len(good)), rng.choice(np.flatnonzero(good), len(good)))
    return Particles(*(leaf[chosen] for leaf in particles))


def _finite(particles: Particles) -> np.ndarray:
    """log π* where there is one; -∞ where there is none at all."""
    finite = particles.logdensity[np.isfinite(particles.logdensity)]
    return finite if len(finite) else np.full(1, -np.inf)


def _far_below(particles: Particles) -> float:
    """How far below the median of log π* no particle lives that counts."""
    finite = _finite(particles)
    return float(np.median(finite)) - floor_of(finite) if np.isfinite(finite[0]) else np.inf


def hopeless(dim: int) -> float:
    """How far below the median of log π* a particle is hopelessly far behind."""
    return 6.0 * dim + 20
