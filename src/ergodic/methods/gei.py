"""Greedy ergodic inference, the default: a chain that tunes itself. Ours, not the paper's (docs/greedy.md).

What is the paper's: P0 followed by T Hamiltonian transitions with Metropolis correction, each with parameters of its
own, from which independent draws cost one short run each. What is ours: no objective and no gradient of one. An
ensemble goes through the chain once, and every step is chosen from the particles as they stand (`tuning/greedy.py`).

1. A pilot finds the target from a simple start whose scale is raced (`tuning/walking.py`).
2. P0 becomes a mixture around the pilot's particles (`mixture.py`), and the chain is tuned on fresh particles of it
   until they have forgotten where they started. That is T: it comes from the data.
3. Where they cannot forget, modes are separate: the chain is annealed instead, and its draws carry weights
   (`tuning/tempering.py`).
4. Fresh draws are certified. Where there is evidence against them the walk goes on, from better particles.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ..chain import ChainParams, advance
from ..charts.linear import Dense, LowRank, at
from ..draws import Batch
from ..initial import DiagonalGaussian, diagonal
from ..initial.mixture import KernelMixture
from ..kernels.affine import AffineHMC, AffineParams
from ..kernels.ensemble import BatchedDensity, Ensemble, Info, start
from ..kernels.tempered import log_ratio, temper, tempered, untemper
from ..runtime.drawing import independent, prepare
from ..runtime.errors import StorageError, TargetError
from ..runtime.programs import Cost, Stopwatch
from ..runtime.progress import Progress
from ..runtime.validation import boolean, optional, positive_int, settle
from ..sampler import Sampler
from ..target import Density, Target
from ..tuning.tempering import Tempered, anneal, gaussian_around
from ..tuning.walking import Walked, pilot, prune, retune

_SCALES = (1.0, 0.1)
_ROUNDS = 4


class Spent:
    """Gradients so far."""

    def __init__(self, depth: int, gradients: int):
        self.depth, self.gradients = depth, gradients

    def add(self, depth: int, gradients: int) -> None:
        """And more."""
        self.depth += depth
        self.gradients += gradients

    def now(self) -> tuple[int, int]:
        """As a `Stopwatch` wants them."""
        return self.gradients, self.depth


class Schedule(NamedTuple):
    """The T transitions: a step size, a length and one of few metrics each."""

    step: Float[Array, "steps"]
    leapfrogs: Int[Array, "steps"]
    which: Int[Array, "steps"]
    beta: Float[Array, "steps"] | None = None
    """The temperature at which each moves; None where all are at 1 and draws have no weights."""


class GEIParams(NamedTuple):
    """What was tuned."""

    initial: KernelMixture
    schedule: Schedule
    metrics: Any
    """Stacked along a leading axis."""

    @property
    def depth(self) -> int:
        """Gradients one draw costs: Σ L_t + 1."""
        return 1 + int(np.sum(self.schedule.leapfrogs))

    def attributes(self) -> dict[str, Any]:
        """Plain facts for the draws' attributes."""
        weighted = self.schedule.beta is not None
        facts = {"independent_draws": not weighted, "steps": int(self.schedule.step.shape[0]), "depth": self.depth}
        return facts | ({"weighted_draws": True, "annealed": True} if weighted else {})


class _Scheduled(NamedTuple):
    """The kernel with its metrics: what `chain.advance` moves an ensemble by."""

    kernel: AffineHMC
    metrics: Any

    def transition(
        self, density: BatchedDensity, params: Schedule, ensemble: Ensemble, key: Array
    ) -> tuple[Ensemble, Info]:
        step = AffineParams(params.step, params.leapfrogs, at(self.metrics, params.which))
        return self.kernel.transition(density, step, ensemble, key)


@dataclass(frozen=True)
class GEI:
    """Settings of greedy ergodic inference; ``GEI().fit(target, key)`` gives a `Sampler`. None needs to be set.

    Attributes:
      particles: the ensemble that is tuned on.
      steps: T, transitions a draw, at most; how many there are comes from the target.
      pilot: steps of the pilot, at most.
      anneal: whether the chain goes through temperatures, and its draws carry weights. None: where particles cannot
        forget where they started, and the certificate says so.
      certify: whether fresh draws are certified, and what failed is tuned further.
    """

    particles: int = 512
    steps: int = 96
    pilot: int = 96
    anneal: bool | None = None
    certify: bool = True

    name: ClassVar[str] = "GEI"
    title: ClassVar[str] = "Greedy ergodic inference: a chain that tunes itself (the default)"

    def __post_init__(self) -> None:
        settle(
            self,
            **dict.fromkeys(("particles", "steps", "pilot"), positive_int),
            anneal=optional(boolean),
            certify=boolean,
        )

    draw = independent
    starts_apart: ClassVar[bool] = True
    kernel: ClassVar[AffineHMC] = AffineHMC()

    def starts(self, target: Target) -> list[DiagonalGaussian]:
        """Where the pilot may start, from wide to narrow: the prior, where there is one, and N(0, s²)."""
        prior = [] if target.prior is None else [target.prior]
        return prior + [diagonal(0.0, scale, target.dim, target.dtype) for scale in _SCALES]

    def fit(self, target: Target, key: Array, *, progress: bool | None = None) -> Sampler:
        """Tune a chain to the target, and certify it."""
        clock, starts = Stopwatch(), self.starts(target)
        with Progress("tuning", _ROUNDS, enabled=progress) as bar:
            found = pilot(
                *(target, self.kernel, starts, jax.random.fold_in(key, 0)), particles=self.particles, most=self.pilot
            )
            spent = Spent(found.depth, found.gradients)
            if self.anneal:
                return self._judged(self._through_temperatures(target, found, key, spent, clock), key, 0)
            made: list[Sampler] = []
            for attempt in range(_ROUNDS):
                least = 2 * len(found.chosen.step) if attempt else 0
                found, sampler = self._walked(target, found, key, attempt, least, spent, clock)
                made.append(self._judged(sampler, key, attempt))
                bar.advance()
                if not self.certify or not _failed(sampler):
                    break
                self._count(sampler, spent)
                if self.anneal is None and attempt == 0 and (not found.settled or _remembers(sampler)):
                    other = self._through_temperatures(target, found, key, spent, clock)
                    made.append(self._judged(other, key, _ROUNDS))
                    if not _failed(other):
                        break
                    self._count(other, spent)
        return max(reversed(made), key=_rank)  # of those alike, the one tuned longest

    def _walked(
        self, target: Target, found: Walked, key: Array, attempt: int, least: int, spent: Spent, clock: Stopwatch
    ) -> tuple[Walked, Sampler]:
        """P0 around the last walk's particles, and a chain tuned on fresh ones."""
        initial = KernelMixture.around(np.asarray(found.walk.ensemble.position), jax.device_get(found.metric))
        ways = (target.density, self.kernel, initial)
        metric, step, walk_key = found.metric, found.walk.step, jax.random.fold_in(key, 1 + attempt)
        found = retune(*ways, metric, step, walk_key, particles=self.particles, most=self.steps, least=least)
        if found.settled and attempt == 0:
            found = prune(*ways, found, jax.random.fold_in(key, 50))
        spent.add(found.depth, found.gradients)
        if not len(found.chosen.step):
            raise TargetError(
                f"'{target.name}' rejects every step, however small, from where its pilot ended: is its gradient right?"
            )
        record = {name: getattr(found.chosen, name) for name in ("step", "leapfrogs", "acceptance")}
        record["memory"] = np.array([found.memory])
        return found, Sampler(target, self, params_of(initial, found), record, clock.cost(*spent.now()))

    def _through_temperatures(
        self, target: Target, found: Walked, key: Array, spent: Spent, clock: Stopwatch
    ) -> Sampler:
        """The annealed chain, from one wide Gaussian around the particles."""
        initial = gaussian_around(np.asarray(found.walk.ensemble.position))
        way = anneal(target.density, self.kernel, initial, jax.random.fold_in(key, 51), particles=self.particles)
        spent.add(way.depth, way.gradients)
        record = {name: getattr(way.chosen, name) for name in ("step", "leapfrogs", "acceptance")}
        return Sampler(target, self, params_of_tempered(way), record, clock.cost(*spent.now()))

    def _judged(self, sampler: Sampler, key: Array, attempt: int) -> Sampler:
        if self.certify:
            watch = Stopwatch()
            prepare(sampler)  # what drawing compiles is not the certificate's cost
            more = watch.cost(0, 0)
            sampler.cost = replace(
                sampler.cost,
                compile_seconds=sampler.cost.compile_seconds + more.compile_seconds,
                run_seconds=sampler.cost.run_seconds + more.run_seconds,
            )
            sampler.certify(jax.random.fold_in(key, 101 + attempt))
        return sampler

    def _count(self, sampler: Sampler, spent: Spent) -> None:
        """A certificate that decides what is done next is part of tuning."""
        if sampler.certificate is not None:
            spent.add(sampler.certificate.cost.depth, sampler.certificate.cost.gradients)

    def annealed(self, sampler: Sampler, key: Array) -> Sampler:
        """The sampler annealed from P0's centres, for log Z: its draws carry weights."""
        if sampler.params.schedule.beta is not None:
            return sampler
        initial = gaussian_around(np.asarray(sampler.params.initial.centres))
        way = anneal(sampler.target.density, self.kernel, initial, key, particles=self.particles)
        return Sampler(sampler.target, self, params_of_tempered(way), {}, Cost(way.gradients, way.depth))

    def elsewhere(self, params: GEIParams, shift: float, factor: float) -> GEIParams:
        """An annealed chain from another P0: displaced by ``shift`` of its spreads, ``factor`` times as wide."""
        initial = params.initial
        away = initial.metric.push(jnp.full((1, initial.centres.shape[1]), shift, initial.centres.dtype))
        return params._replace(initial=KernelMixture(initial.centres + away, initial.metric.times(factor)))

    def simulate(self, density: Density, params: GEIParams, key: Array, particles: int) -> Batch:
        """Independent runs of the chain."""
        start_key, chain_key = jax.random.split(key)
        return self.go_on(density, params, params.initial.sample(start_key, particles), chain_key)

    def go_on(self, density: Density, params: GEIParams, position: Array, key: Array) -> Batch:
        """The chain's T transitions from given positions ``(particles, dim)``, as a certificate tries them."""
        ensemble = start(density.batched, position)
        if params.schedule.beta is not None:
            end, log_weight, acceptance = _annealed(self.kernel, density.batched, params, ensemble, key)
            return Batch(end.position, end.logdensity, {"log_weight": log_weight}, {"acceptance": acceptance})
        kernel = _Scheduled(self.kernel, params.metrics)
        end, stats, trace = advance(density.batched, kernel, params.schedule, ensemble, key)
        return Batch(end.position, end.logdensity, stats._asdict(), trace._asdict())

    def chain(self, params: GEIParams) -> ChainParams | None:
        """The chain with a metric a step, for looking at with `kernel`; None for an annealed one."""
        schedule = params.schedule
        if schedule.beta is not None:
            return None
        return ChainParams(
            params.initial, AffineParams(schedule.step, schedule.leapfrogs, at(params.metrics, schedule.which))
        )

    def shapes(self, target: Target, found: dict[str, tuple[int, ...]], members: int | None = None) -> GEIParams:
        """The shapes that arrays of a file must have: T, the number of centres and the form of metrics are its own.

        With ``members``, those of a family, whose P0 and metrics have an axis of members first.
        """
        family = () if members is None else (members,)
        try:
            steps, centres = found["schedule/step"][0], found["initial/centres"][len(family)]
            count = found["metrics/root" if "metrics/root" in found else "metrics/scale"][len(family)]
            rank = found["metrics/vectors"][-1] if "metrics/vectors" in found else 0
        except (KeyError, IndexError) as error:
            raise StorageError(f"no schedule in it: {error}") from error
        dim, dtype = target.dim, target.dtype

        def real(*shape: int) -> Any:
            return jax.ShapeDtypeStruct(shape, dtype)  # type: ignore[no-untyped-call]

        def metric(*lead: int) -> Any:
            if rank:
                return LowRank(real(*lead, dim), real(*lead, dim, rank), real(*lead, rank))
            return Dense(real(*lead, dim, dim), real(*lead, dim, dim), real(*lead))

        beta = real(steps) if "schedule/beta" in found else None
        counts: Any = jax.ShapeDtypeStruct((steps,), np.int32)  # type: ignore[no-untyped-call]
        return GEIParams(
            KernelMixture(real(*family, centres, dim), metric(*family)),
            Schedule(real(steps), counts, counts, beta),
            metric(*family, count),
        )

    def attributes(self) -> dict[str, Any]:
        """Plain facts for the draws' attributes."""
        return {"method": self.name, "adjusted": True}


def _failed(sampler: Sampler) -> bool:
    """Whether there is evidence against it; or, for weighted draws, whether they are worth too little to tell."""
    certificate = sampler.certificate
    if certificate is None:
        return False
    weighted = sampler.params.schedule.beta is not None
    return certificate.passed is False or (weighted and certificate.passed is None)


def _rank(sampler: Sampler) -> int:
    """How little speaks against it."""
    return 0 if sampler.certificate is None else {True: 2, None: 1, False: 0}[sampler.certificate.passed]


def _remembers(sampler: Sampler) -> bool:
    """Whether its certificate has seen that chains from one point stay together."""
    findings = () if sampler.certificate is None else sampler.certificate.findings
    return any(finding.name == "nested R-hat" and finding.verdict == "failed" for finding in findings)


def _annealed(
    kernel: AffineHMC, density: BatchedDensity, params: GEIParams, ensemble: Ensemble, key: Array
) -> tuple[Ensemble, Float[Array, "particles"], Float[Array, "steps"]]:
    """Annealed importance sampling along the schedule: where particles end, their log-weights, acceptance."""
    initial, beta = params.initial, cast(Array, params.schedule.beta)

    def step(carry: tuple[Ensemble, Array], inputs: Any) -> tuple[tuple[Ensemble, Array], Array]:
        ensemble, log_weight = carry
        before, schedule, key = inputs
        log_weight = log_weight + (schedule.beta - before) * log_ratio(initial, ensemble)
        at_beta = tempered(density, initial, schedule.beta)
        moved, info = _Scheduled(kernel, params.metrics).transition(
            at_beta, schedule, temper(initial, schedule.beta, ensemble), key
        )
        return (untemper(initial, schedule.beta, moved), log_weight), jnp.mean(info.acceptance)

    before = jnp.concatenate([jnp.zeros(1, beta.dtype), beta[:-1]])
    begin = (ensemble, jnp.zeros_like(ensemble.logdensity))
    inputs = (before, params.schedule, jax.random.split(key, beta.shape[0]))
    (end, log_weight), acceptance = jax.lax.scan(step, begin, inputs)
    return end, log_weight, acceptance


def params_of_tempered(way: Tempered) -> GEIParams:
    """The schedule of a way through temperatures."""
    dtype = way.initial.centres.dtype
    schedule = Schedule(
        jnp.asarray(way.chosen.step, dtype),
        jnp.asarray(way.chosen.leapfrogs, jnp.int32),
        jnp.asarray(way.which, jnp.int32),
        jnp.asarray(way.beta, dtype),
    )
    return GEIParams(way.initial, schedule, jax.tree_util.tree_map(jnp.asarray, way.metrics))


def params_of(initial: KernelMixture, walked: Walked) -> GEIParams:
    """The schedule that a walk left, with its one metric."""
    chosen, count = walked.chosen, len(walked.chosen.step)
    schedule = Schedule(
        jnp.asarray(np.asarray(chosen.step, initial.centres.dtype)),
        jnp.asarray(np.asarray(chosen.leapfrogs, np.int32)),
        jnp.asarray(np.zeros(count, np.int32)),
    )
    return GEIParams(
        jax.tree_util.tree_map(jnp.asarray, initial),
        schedule,
        jax.tree_util.tree_map(lambda leaf: jnp.asarray(np.asarray(leaf)[None]), walked.metric),
    )
