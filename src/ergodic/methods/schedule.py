"""The schedule of greedy ergodic inference: what `GEI` tunes, how a chain runs along it, and its shapes in a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from ..chain import advance
from ..charts import DenseChart, LinearChart, LowRankChart, chart_at
from ..charts.coordinates import Coordinates
from ..charts.coordinates import template_of as coordinates_of
from ..initial.mixture import KernelMixture
from ..kernels.affine import AffineHMC, AffineParams
from ..kernels.coupled import Pairs, land
from ..kernels.ensemble import BatchedDensity, Ensemble, Info, start
from ..kernels.pulled_back import pulled_back
from ..kernels.tempered import log_ratio, temper, tempered, untemper
from ..protocols import Shapes
from ..runtime.drawing import Batch
from ..runtime.errors import StorageError
from ..runtime.noise import generator
from ..target import Target
from ..tuning.greedy import APPLY, LAND, PAIRED
from ..tuning.stepping import Way
from ..tuning.tempering import Tempered
from ..tuning.walking import Walked, stacked

_LEAST_LANDINGS = 2
_LATER = 1.5


class Schedule(NamedTuple):
    """The T transitions: a step size, a length and one of few charts each."""

    step: Float[Array, "steps"]
    leapfrogs: Int[Array, "steps"]
    which: Int[Array, "steps"]
    beta: Float[Array, "steps"] | None = None
    """The temperature at which each moves; None where all are at 1 and draws have no weights."""
    varied: Float[Array, "steps"] | None = None
    """0 for a landing, 1 for the others; None where there are no landings."""


class GEIParams(NamedTuple):
    """What was tuned; for a family P0, charts and coordinates have an axis of members in front."""

    initial: KernelMixture
    schedule: Schedule
    charts: LinearChart
    """Stacked along a leading axis, behind that of the members."""
    coordinates: Coordinates = Coordinates()
    """u, in which all of the above is; a schedule along temperatures has u = x."""
    floor: Float[Array, ""] | None = None
    """A start with less log π* in u than this is drawn once more; a family, and temperatures, have none."""


class _Scheduled(NamedTuple):
    """The kernel with its charts: what `chain.advance` moves an ensemble by."""

    kernel: AffineHMC
    charts: LinearChart

    def transition(
        self, density: BatchedDensity, params: Schedule, ensemble: Ensemble, key: Array
    ) -> tuple[Ensemble, Info]:
        """One step of the schedule."""
        varied = 1.0 if params.varied is None else params.varied
        step = AffineParams(params.step, params.leapfrogs, chart_at(self.charts, params.which), varied)
        return self.kernel.transition(density, step, ensemble, key)


def run(
    kernel: AffineHMC, density: BatchedDensity, params: GEIParams, position: Float[Array, "particles dim"], key: Array
) -> Batch:
    """The T transitions from given positions; along temperatures, where the schedule has any. The trace is of u."""
    coordinates = params.coordinates
    density = pulled_back(density, coordinates)
    ensemble, scheduled = start(density, coordinates.inverse(position)), _Scheduled(kernel, params.charts)
    if params.schedule.beta is not None:
        return _annealed(scheduled, density, params.initial, params.schedule, params.schedule.beta, ensemble, key)
    end, stats, trace = advance(density, scheduled, params.schedule, ensemble, key)
    x, volume = coordinates.forward(end.position)
    return Batch(x, end.logdensity - volume, stats._asdict(), trace._asdict())


def begun(way: Way, params: GEIParams, rng: np.random.Generator, particles: int) -> Ensemble:
    """Fresh runs at P0, in u."""
    floors = () if params.floor is None else (float(params.floor),)
    return way.started([params.initial], rng, particles, floors)


def run_in_steps(way: Way, params: GEIParams, ensemble: Ensemble, key: Array) -> Batch:
    """The same without temperatures, step by step with the program that tuned them: nothing is compiled for it."""
    schedule, charts = jax.device_get((params.schedule, params.charts))
    states, infos = [ensemble], []
    for t, (step, leapfrogs, which) in enumerate(zip(schedule.step, schedule.leapfrogs, schedule.which, strict=True)):
        mode = LAND if _lands(schedule, t) else APPLY
        ensemble, info = way.applied(states[-1], chart_at(charts, which), float(step), int(leapfrogs), t, key, mode)
        states.append(ensemble)
        infos.append(info)
    levels = np.stack([way.left(np.asarray(state.position), np.asarray(state.logdensity))[1] for state in states])
    x, _ = way.left(np.asarray(states[-1].position), levels[-1])
    return batch_of(x, levels[-1], stacked(jax.device_get(infos)), levels)


def run_together(way: Way, params: GEIParams, pairs: Pairs, key: Array) -> Pairs:
    """Pairs once through the chain: what is shared brings them near, and in a landing they may meet."""
    schedule, charts = jax.device_get((params.schedule, params.charts))

    def evaluated(position: np.ndarray) -> Ensemble:
        return way.evaluated(position, chart_at(charts, schedule.which[0]))

    for t, (step, leapfrogs, which) in enumerate(zip(schedule.step, schedule.leapfrogs, schedule.which, strict=True)):
        chart = chart_at(charts, which)
        if _lands(schedule, t):
            pairs = land(pairs, chart, float(step), evaluated, generator(jax.random.fold_in(key, t)))
        else:
            pairs = pairs.moved(way.applied(pairs.joined(), chart, float(step), int(leapfrogs), t, key, PAIRED)[0])
    return pairs


def _lands(schedule: Schedule, t: int) -> bool:
    return schedule.varied is not None and not schedule.varied[t]


def batch_of(position: np.ndarray, logdensity: np.ndarray, infos: Info, levels: np.ndarray) -> Batch:
    """Draws, from what every transition did, and log π* before and after each, ``(steps, particles)``."""
    finite = np.isfinite(levels)
    stats: PyTree = {
        "acceptance_rate": infos.acceptance.mean(axis=0, dtype=levels.dtype),
        "diverging": infos.diverged.any(axis=0),
        "energy_error": infos.energy_error[-1],
    }
    trace: PyTree = {
        "expected_logdensity": np.where(finite, levels, 0).sum(axis=1) / np.maximum(finite.sum(axis=1), 1),
        "acceptance": infos.acceptance.mean(axis=1),
        "divergence": infos.diverged.mean(axis=1),
    }
    x: PyTree = position
    level: PyTree = logdensity
    return Batch(x, level, stats, trace)


def _annealed(
    kernel: _Scheduled,
    density: BatchedDensity,
    initial: KernelMixture,
    schedule: Schedule,
    beta: Float[Array, "steps"],
    ensemble: Ensemble,
    key: Array,
) -> Batch:
    """Annealed importance sampling along the schedule: where particles end, and their log-weights."""

    def step(
        carry: tuple[Ensemble, Array], inputs: tuple[Array, Array, Schedule, Array]
    ) -> tuple[tuple[Ensemble, Array], Array]:
        ensemble, log_weight = carry
        before, beta, now, key = inputs
        log_weight = log_weight + (beta - before) * log_ratio(initial, ensemble)
        at_beta = tempered(density, initial, beta)
        moved, info = kernel.transition(at_beta, now, temper(initial, beta, ensemble), key)
        return (untemper(initial, beta, moved), log_weight), jnp.mean(info.acceptance)

    before = jnp.concatenate([jnp.zeros(1, beta.dtype), beta[:-1]])
    begin = (ensemble, jnp.zeros_like(ensemble.logdensity))
    inputs = (before, beta, schedule, jax.random.split(key, beta.shape[0]))
    (end, log_weight), acceptance = jax.lax.scan(step, begin, inputs)
    return Batch(end.position, end.logdensity, {"log_weight": log_weight}, {"acceptance": acceptance})


def params_of(
    initial: KernelMixture | list[KernelMixture],
    walked: Walked,
    members: tuple[int, ...],
    floors: Sequence[float] = (),
) -> GEIParams:
    """The schedule that a walk left, and landings, with its one chart; of a family, with one per member."""
    mixture = stacked(initial) if isinstance(initial, list) else initial
    charts = stacked(walked.charts) if members else walked.charts[0]
    chosen, dtype = walked.chosen, mixture.centres.dtype
    behind = landings(np.asarray(chosen.leapfrogs), walked.way.settings.landing)
    landing = chosen.step[-2:].max()  # of two steps one is not fine
    # not jnp.asarray, which compiles a copy for every new number of steps
    schedule = Schedule(
        jax.device_put(np.insert(chosen.step, behind, landing).astype(dtype)),
        jax.device_put(np.insert(chosen.leapfrogs, behind, 1).astype(np.int32)),
        jax.device_put(np.zeros(len(chosen.step) + len(behind), np.int32)),
        varied=jax.device_put(np.insert(np.ones(len(chosen.step)), behind, 0).astype(dtype)),
    )
    return GEIParams(
        jax.tree_util.tree_map(jnp.asarray, mixture),
        schedule,
        jax.tree_util.tree_map(lambda leaf: jnp.asarray(np.expand_dims(leaf, len(members))), charts),
        walked.way.coordinates,
        jnp.asarray(np.asarray(floors[0], dtype)) if floors else None,
    )


def landings(leapfrogs: np.ndarray, share: float) -> np.ndarray:
    """Behind how many transitions there is a landing: evenly, two at least, the last one behind all of them.

    Each costs one gradient and lets chains meet that are near, which a single one does three times out of four. Chains
    that come near only now and then, from mode to mode, may not be near again at the end.
    """
    count = min(len(leapfrogs), max(_LEAST_LANDINGS, round(share * int(leapfrogs.sum()))))
    return np.ceil(np.arange(1, count + 1) * len(leapfrogs) / count).astype(int)


def params_of_tempered(way: Tempered) -> GEIParams:
    """The schedule of a way through temperatures."""
    dtype = way.initial.centres.dtype
    schedule = Schedule(
        jnp.asarray(way.chosen.step, dtype),
        jnp.asarray(way.chosen.leapfrogs, jnp.int32),
        jnp.asarray(way.which, jnp.int32),
        jnp.asarray(way.beta, dtype),
    )
    return GEIParams(way.initial, schedule, jax.tree_util.tree_map(jnp.asarray, way.charts))


def retimed(schedule: Schedule) -> Schedule:
    """As many other temperatures, β'(s) = β(s^1.5) for s from 0 to 1, with the steps and charts of the nearest."""
    assert schedule.beta is not None
    beta = np.asarray(schedule.beta)
    rising = int(np.argmax(beta >= 1)) + 1 if (beta >= 1).any() else len(beta)
    place = (np.arange(1, rising + 1) / rising) ** _LATER * rising
    other = np.interp(place, np.arange(rising + 1), np.append(0, beta[:rising])).astype(beta.dtype)
    nearest = np.append(np.clip(np.ceil(place - 1e-6).astype(int) - 1, 0, rising - 1), np.arange(rising, len(beta)))
    moved: Schedule = jax.tree_util.tree_map(lambda leaf: leaf[nearest], schedule)
    return moved._replace(beta=jnp.asarray(np.append(other, beta[rising:])))


def template_of(target: Target, found: Shapes, members: int | None) -> GEIParams:
    """The shapes that arrays of a file must have, given those that it has."""
    family = () if members is None else (members,)
    try:
        steps, centres = found["schedule/step"][0], found["initial/centres"][len(family)]
        count = found["charts/root" if "charts/root" in found else "charts/scale"][len(family)]
        rank = found["charts/vectors"][-1] if "charts/vectors" in found else 0
    except (KeyError, IndexError) as error:
        raise StorageError(f"no schedule in it: {error}") from error
    if not {"schedule/beta", "schedule/varied"} & set(found):
        raise StorageError("its schedule has no landing, as those of older versions; fit the target again")
    dim, dtype = target.dim, target.dtype

    def whole(*shape: int) -> PyTree:
        return jax.ShapeDtypeStruct(shape, np.int32)  # type: ignore[no-untyped-call]

    def real(*shape: int) -> PyTree:
        return jax.ShapeDtypeStruct(shape, dtype)  # type: ignore[no-untyped-call]

    def chart(*lead: int) -> LinearChart:
        if rank:
            return LowRankChart(real(*lead, dim), real(*lead, dim, rank), real(*lead, rank))
        return DenseChart(real(*lead, dim, dim), real(*lead, dim, dim), real(*lead))

    beta, varied = (real(steps) if f"schedule/{name}" in found else None for name in ("beta", "varied"))
    return GEIParams(
        KernelMixture(real(*family, centres, dim), chart(*family)),
        Schedule(real(steps), whole(steps), whole(steps), beta, varied),
        chart(*family, count),
        coordinates_of(found, dim, dtype, family),
        real() if "floor" in found else None,
    )
