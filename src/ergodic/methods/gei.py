"""Greedy ergodic inference, the default: a chain that tunes itself. Ours, not the paper's (docs/greedy.md).

What is the paper's: P0 followed by T Hamiltonian transitions with Metropolis correction, each with parameters of its
own, from which independent draws cost one short run each. What is ours: no objective and no gradient of one. An
ensemble goes through the chain once, and every step is chosen from the particles as they stand (`tuning/greedy.py`).

1. A pilot finds the target from a simple start whose scale is raced (`tuning/walking.py`).
2. P0 becomes a mixture around the pilot's particles (`initial/mixture.py`), and the chain is tuned on fresh particles
   of it until they have forgotten where they started. That is T: it comes from the data.
3. Where they cannot forget, modes are separate: the chain is annealed instead, and its draws carry weights
   (`tuning/tempering.py`).
4. Fresh draws are certified. Where there is evidence against them the walk goes on, from better particles.

A family goes through the first two at once: every member has its own P0, coordinates and chart, step sizes ε_t and
lengths L_t are the family's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..charts.coordinates import Coordinates, plain
from ..diagnostics.lengthening import as_asked
from ..family import Family
from ..family_sampler import FamilySampler
from ..initial import DiagonalGaussian, diagonal
from ..initial.mixture import KernelMixture
from ..initial.pushed import Pushed
from ..kernels.affine import AffineHMC
from ..kernels.coupled import Pairs
from ..kernels.ensemble import Ensemble
from ..protocols import Annealable, Budgeted, Coupled, Fact, Familial, Shapes
from ..runtime.budget import Budget
from ..runtime.drawing import Batch, Kind, spread
from ..runtime.errors import ConfigError, TargetError
from ..runtime.noise import generator
from ..runtime.programs import Stopwatch
from ..runtime.progress import Progress
from ..runtime.validation import Rule
from ..sampler import Sampler
from ..target import Density, Target
from ..tuning.greedy_settings import GreedySettings, details_of
from ..tuning.stepping import Way
from ..tuning.stuck import why_stuck
from ..tuning.tempering import gaussian_around, through_temperatures
from ..tuning.walking import Walked, pilot, prune, relearned, retune
from .schedule import (
    GEIParams,
    begun,
    params_of,
    params_of_tempered,
    retimed,
    run,
    run_in_steps,
    run_together,
    template_of,
)
from .spending import Spent
from .verdicts import biased, failed, no_nearer, rank, short

_PILOT, _WALK, _PRUNE, _ANNEAL, _LEARN, _CENTRES, _CERTIFY = 0, 1, 50, 51, 60, 80, 101
"""By which number the key of a fit is folded for each of its parts; the number of the round is added to two of them."""

_LONGER, _APART = 2, 100
"""How often a chain may be made longer on the word of its pairs; what is between their keys."""
_LEAST_SECONDS = 10.0
"""Further rounds may begin for as long, however short the first was."""
_LEAST_WORTH = 0.1
"""What an annealed run must be worth, as a share of a draw."""


@dataclass(frozen=True)
class GEI(Annealable, Coupled, Familial, Budgeted):
    """Settings of greedy ergodic inference; ``GEI().fit(target, key)`` gives a `Sampler`. None needs to be set.

    Attributes:
      particles: the ensemble that is tuned on; for a family, per member.
      steps: T, transitions per draw, at most; how many there are comes from the target.
      pilot: steps of the pilot, at most.
      anneal: whether the chain goes through temperatures, and its draws carry weights. None: where particles cannot
        forget where they started, and the certificate says so.
      chart: whether coordinates are learned in which necks and bends are straight (docs/charts.md).
      certify: whether fresh draws are certified, and what failed is tuned further.
      details: every other number that tuning goes by.
    """

    particles: int = 512
    steps: int = 96
    pilot: int = 96
    anneal: bool | None = None
    chart: bool = True
    certify: bool = True
    details: GreedySettings = field(default=GreedySettings(), repr=False)

    name: ClassVar[str] = "GEI"
    title: ClassVar[str] = "Greedy ergodic inference: a chain that tunes itself (the default)"
    kernel: ClassVar[AffineHMC] = AffineHMC()
    rules: ClassVar[Mapping[str, Rule]] = {"details": details_of}

    def starts(self, target: Target) -> list[DiagonalGaussian]:
        """Where the pilot may start, from wide to narrow: the prior, where there is one, and N(0, s²)."""
        prior = [] if target.prior is None else [target.prior]
        return prior + [diagonal(0.0, scale, target.dim, target.dtype) for scale in self.details.scales]

    def fit(self, target: Target, key: Array, *, progress: bool | None = None, budget: Budget | None = None) -> Sampler:
        """Tune a chain to the target, and certify it; where the budget ends, or at Ctrl-C, the best so far."""
        budget, rounds = budget or Budget(), self.details.rounds
        spent = Spent(Stopwatch(), budget)
        with Progress(enabled=progress), budget.interruptible():
            fitted = self._paced(target, key, spent)
            found = fitted._found(fitted._way(target), key, spent)
            if self.anneal:
                return fitted._judged(fitted._tempered(target, found, key, spent), key, 0, spent)
            made: list[Sampler] = []
            limit, annealed = 0.0, False
            for attempt in range(rounds):
                finer = bool(made) and failed(made[-1]) and not biased(made[-1])
                least = 2 * len(found.chosen.step) if made else 0
                if attempt:
                    found = relearned(found, jax.random.fold_in(key, _LEARN + attempt))
                    spent.add(found.depth, found.gradients)
                floors = found.floors()
                initials, found = fitted._walked(found, key, spent, attempt, least, finer, floors)
                if not attempt and rounds > 1 and self.certify and found.astray() and not budget.over():
                    continue  # so would draws be: a better P0 first
                record = {name: getattr(found.chosen, name) for name in ("step", "leapfrogs", "acceptance")}
                record["memory"] = found.memory
                sampler = Sampler(target, self, params_of(initials[0], found, (), floors), record, spent.cost())
                made.append(sampler := self._judged(sampler, key, attempt, spent))
                seconds = spent.cost().run_seconds
                limit = limit or max(self.details.patience * seconds, _LEAST_SECONDS)
                if not self.certify or not (failed(sampler) or short(sampler)) or budget.over() or seconds > limit:
                    break
                spent.count(sampler)
                separate = not found.settled[0]
                if len(made) > 1:
                    separate = no_nearer(made[-1], made[-2])
                if self.anneal is None and separate and len(made) <= 2 and not annealed:
                    annealed = True
                    other = fitted._tempered(target, found, key, spent)
                    if budget.over():  # it may not have come to its end
                        break
                    if spent.worth(other, key) < _LEAST_WORTH:
                        continue
                    made.append(self._judged(other, key, rounds, spent))
                    if not failed(other):
                        break
                    spent.count(other)
        return max(reversed(made), key=rank)  # of those alike, the one tuned longest

    def _way(self, target: Target | Family, params: GEIParams | None = None) -> Way:
        """How ensembles go, in the coordinates that were learned, or where none were yet."""
        layers = self.details.layers if self.chart and target.dim > 1 else 0
        telling = self.particles if self.details.directions else 0  # so few can tell no directions
        inside = plain(layers, telling, target.dim, target.dtype) if params is None else params.coordinates
        return Way.on(target, self.kernel, self.details, inside)

    def _paced(self, target: Target, key: Array, spent: Spent) -> GEI:
        """The settings with as many particles as the density's cost affords: one evaluation is timed."""
        particles, budget = self.particles, spent.budget
        telling = 4 * target.dim  # as many can tell directions of their own; where all cannot, half do
        fewest = min(particles, max(self.details.fewest, telling if telling <= particles else particles // 2))
        if fewest < particles and target.density.work.bytes > self.details.heavy:
            particles = fewest
        while True:
            way = replace(self, particles=particles)._way(target)
            started = way.started([self.starts(target)[-1]], generator(key), particles)  # compiles
            budget.pace = min(_seconds(way, started, particles) for _ in range(2))
            spent.add(3, 3 * particles)
            fewer = max(fewest, int(particles * self.details.slow / budget.pace))
            if 2 * fewer > particles:
                return replace(self, particles=particles)
            particles = max(fewest, fewer // 32 * 32)  # which has divisors

    def fit_family(self, family: Family, key: Array) -> FamilySampler:
        """Tune one schedule to all members. Nothing is certified or annealed: certify the members you doubt."""
        if self.anneal:
            raise ConfigError(f"a family is tuned without annealing, not by {self!r}; fit its members one by one")
        spent, way = Spent(Stopwatch(), Budget()), self._way(family)
        initials, found = self._walked(self._found(way, key, spent), key, spent)
        params = params_of(initials, found, (len(family),))
        return FamilySampler(family, self, params, found.settled, found.memory, spent.cost())

    def _found(self, way: Way, key: Array, spent: Spent) -> Walked:
        """Where the pilot ends."""
        pilot_key, starts = jax.random.fold_in(key, _PILOT), self.starts(way.members[0])
        found = pilot(way, starts, pilot_key, particles=self.particles, most=self.pilot, budget=spent.budget)
        spent.add(found.depth, found.gradients)
        for member, here in zip(way.members, found.particles(), strict=True):
            if not np.nanmax(np.abs(here.position)) < math.sqrt(np.finfo(here.position.dtype).max):
                said = why_stuck(here, member.names)
                raise TargetError(f"'{member.name}' leads beyond all numbers from where its pilot began: {said}")
        return found

    def _walked(
        self,
        found: Walked,
        key: Array,
        spent: Spent,
        attempt: int = 0,
        least: int = 0,
        fine: bool = False,
        floors: Sequence[float] = (),
    ) -> tuple[list[KernelMixture], Walked]:
        """A chain tuned on fresh particles of a P0 around the last walk's, member by member; and P0 around its end.

        The chain's end is nearer to π than its beginning, so a chain that starts there ends nearer still: of what its
        P0 was off it has forgotten the same share twice.
        """
        way, rng = found.way, generator(jax.random.fold_in(key, _CENTRES + attempt))
        initials, pilot_end = _around(found, rng), found.particles()[0]
        found = retune(
            way,
            initials,
            found.charts,
            found.walk.step,
            jax.random.fold_in(key, _WALK + attempt),
            particles=self.particles,
            most=self.steps,
            least=least,
            fine=fine,
            floors=floors,
            budget=spent.budget,
        )
        if not len(found.chosen.step):
            why = why_stuck(pilot_end, way.members[0].names)
            raise TargetError(f"'{way.members[0].name}' rejects every step from where its pilot ended: {why}")
        family = len(way.members) > 1
        if family or (found.settled[0] and not least and not spent.budget.over()):
            pruned = prune(way, initials, found, jax.random.fold_in(key, _PRUNE), floors)
            said = pruned if family else found
            found = pruned._replace(settled=said.settled, memory=said.memory)
        spent.add(found.depth, found.gradients)
        return initials if family else _around(found, rng), found

    def _tempered(self, target: Target, found: Walked, key: Array, spent: Spent) -> Sampler:
        """The annealed chain, from one wide Gaussian around the particles."""
        position, _ = found.way.left(found.particles()[0].position, np.zeros(()))
        initial = gaussian_around(position, self.details.wider)
        size, tempering = {"particles": self.particles}, jax.random.fold_in(key, _ANNEAL)
        way = through_temperatures(target, self.kernel, self.details, initial, tempering, budget=spent.budget, **size)
        spent.add(way.depth, way.gradients)
        record = {name: getattr(way.chosen, name) for name in ("step", "leapfrogs", "acceptance")}
        return Sampler(target, self, params_of_tempered(way), record, spent.cost())

    def _judged(self, sampler: Sampler, key: Array, attempt: int, spent: Spent) -> Sampler:
        """The sampler with its certificate, as far as the budget goes; longer, where its pairs of chains ask for it."""
        if not self.certify:
            return sampler
        sampler.certify(jax.random.fold_in(key, _CERTIFY + attempt), budget=spent.budget)
        for more in range(1, _LONGER + 1):
            if spent.budget.over() or (longer := as_asked(self, sampler, spent.cost())) is sampler:
                break
            spent.count(sampler)
            longer = replace(longer, cost=spent.cost())
            longer.certify(jax.random.fold_in(key, _CERTIFY + attempt + more * _APART), budget=spent.budget)
            if longer.draws is None:  # a single look at it is too dear
                break
            sampler = longer
        return sampler

    def elsewhere(self, params: GEIParams, shift: float, factor: float) -> GEIParams:
        """An annealed chain from another P0: displaced by ``shift`` of its spreads, ``factor`` times as wide."""
        initial = params.initial
        away = initial.chart.push(jnp.full((1, initial.centres.shape[1]), shift, initial.centres.dtype))
        return params._replace(initial=KernelMixture(initial.centres + away, initial.chart.times(factor)))

    def otherwise(self, params: GEIParams) -> GEIParams:
        """An annealed chain with more temperatures at the beginning, and fewer at the end."""
        return params._replace(schedule=retimed(params.schedule))

    def start(self, params: GEIParams) -> KernelMixture | Pushed:
        """P0, around the pilot's particles."""
        return Pushed(params.initial, params.coordinates) if params.coordinates.layers else params.initial

    def coordinates(self, params: GEIParams) -> Coordinates:
        """Those that were learned."""
        return params.coordinates

    def transitions(self, params: GEIParams) -> int:
        """T, which came from the target."""
        return int(params.schedule.step.shape[0])

    def kind(self, params: GEIParams) -> Kind:
        """Weighted where the chain is annealed."""
        return Kind.INDEPENDENT if params.schedule.beta is None else Kind.WEIGHTED

    def depth(self, params: GEIParams) -> int:
        """Gradients that one draw costs: Σ L_t, and one at its start, or two, where hopeless starts are drawn again."""
        return 1 + (params.floor is not None) + int(np.asarray(params.schedule.leapfrogs).sum())

    def go_on(self, density: Density, params: GEIParams, position: Float[Array, "particles dim"], key: Array) -> Batch:
        """The chain's T transitions from given positions, as a certificate tries them."""
        return run(self.kernel, density.batched, params, position, key)

    def batches(
        self, target: Target, params: GEIParams, key: Array, start: int, count: int, size: int
    ) -> Iterator[Batch]:
        """P0 is drawn on the host, where the chain is not annealed: that needs no compiling."""
        if params.schedule.beta is not None:
            return super().batches(target, params, key, start, count, size)

        def one(index: int) -> Batch:
            here = jax.random.fold_in(key, index)
            start_key, chain_key = jax.random.fold_in(here, 0), jax.random.fold_in(here, 1)
            begin = self.fresh(target, params, generator(start_key), size)
            return self._run(target, params, begin, chain_key)

        return spread(one, range(start, start + count))

    def chain(self, target: Target, params: GEIParams, position: Float[Array, "particles dim"], key: Array) -> Batch:
        """The same by compiled programs: that which tuned the steps, where the chain is not annealed."""
        if params.schedule.beta is not None:
            return super().chain(target, params, position, key)
        way = self._way(target, params)
        inside = way.coordinates.on_host().inverse(np.asarray(position))
        return self._run(target, params, way.evaluated(inside, way.plain(len(inside))), key)

    def _run(self, target: Target, params: GEIParams, ensemble: Ensemble, key: Array) -> Batch:
        return run_in_steps(self._way(target, params), params, ensemble, key)

    def fresh(self, target: Target, params: GEIParams, rng: np.random.Generator, rows: int) -> Ensemble:
        """Fresh runs at P0, as every draw begins."""
        return begun(self._way(target, params), params, rng, rows)

    def together(self, target: Target, params: GEIParams, pairs: Pairs, key: Array) -> Pairs:
        """The T transitions for pairs of chains, by the program that tuned them."""
        return run_together(self._way(target, params), params, pairs, key)

    def longer(self, params: GEIParams, times: int) -> GEIParams:
        """The schedule, so many times one after the other."""
        every = np.tile(np.arange(self.transitions(params)), times)
        return params._replace(schedule=jax.tree_util.tree_map(lambda leaf: leaf[every], params.schedule))

    def chunk(self, dim: int, params: GEIParams) -> int:
        """As many as were tuned on, which is how many P0 has centres: there is a program for that."""
        centres = params.initial.centres
        alone = params.schedule.beta is None and centres.ndim == 2  # no temperatures, no family
        return len(centres) if alone else super().chunk(dim, params)

    def rows(self, n: int, size: int) -> int:
        """All that the program moves, however few are wanted."""
        return size

    def template(self, target: Target, found: Shapes, members: int | None = None) -> GEIParams:
        """The shapes that arrays of a file must have: T, the number of centres and the form of charts are its own."""
        return template_of(target, found, members)

    def axes(self, params: GEIParams) -> GEIParams:
        """P0, charts and coordinates are a member's own, the schedule is the family's."""
        return GEIParams(initial=0, schedule=None, charts=0, coordinates=params.coordinates.axes())  # type: ignore[arg-type]

    def facts(self, params: GEIParams) -> dict[str, Fact]:
        """Plain facts for the draws' attributes."""
        annealed: dict[str, Fact] = {} if params.schedule.beta is None else {"annealed": True}
        return {"adjusted": True, "steps": self.transitions(params), "depth": self.depth(params), **annealed}


def _around(found: Walked, rng: np.random.Generator) -> list[KernelMixture]:
    """P0 around a walk's particles, member by member."""
    pairs = zip(found.centres(rng), found.charts, strict=True)
    return [KernelMixture.around(centres, chart) for centres, chart in pairs]


def _seconds(way: Way, ensemble: Ensemble, particles: int) -> float:
    """How long one evaluation of the whole ensemble takes."""
    watch = Stopwatch()
    jax.device_get(way.evaluated(ensemble.position, way.plain(particles)).logdensity)
    return watch.cost(0, 0).run_seconds
