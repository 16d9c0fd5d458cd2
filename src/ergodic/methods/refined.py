"""`refine`: a greedy schedule made shorter, for samplers from which very many draws will be made.

Of a schedule's T steps T' are kept, evenly spread, and tuned together (`tuning/refine.py`). Of them as they were and as
they were tuned, those are taken of which fresh particles of the sampler's own P0 remember less. They are enough if that
is no more than the whole schedule leaves (or next to nothing), and averages are the whole schedule's as far as the
particles can tell.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..charts.linear import Dense
from ..kernels.ensemble import Ensemble
from ..runtime.drawing import chain_program
from ..runtime.errors import ConfigError
from ..runtime.programs import Cost, Stopwatch, compiled
from ..runtime.validation import positive_int
from ..sampler import Sampler, require_key
from ..target import Density
from ..tuning.shortening import Fixed, Refinement, Tuned, ascend, stretched
from ..tuning.walking import generator, remembered, still
from .gei import GEIParams

_JUDGES = 2048
_FORGOTTEN = 0.1


class Judged(NamedTuple):
    """What fresh particles say of a chain."""

    memory: float
    """The largest correlation between a function of the start and the same of the end."""
    end: Ensemble


def refine(
    sampler: Sampler, key: Array, *, steps: int | None = None, iterations: int = 100, particles: int = 256
) -> Sampler:
    """A sampler with fewer steps, not certified yet, or the one given where that cannot be had at equal memory.

    Its ``record["memory"]`` has what the steps remember as tuned, and as they were.

    Args:
      sampler: one of `GEI`'s, not annealed.
      key: a JAX random key.
      steps: T', which is then what you get. None: a half, else three quarters of what there is, if that is enough.
      iterations: of Adam.
      particles: runs of the chain an iteration.
    """
    params, clock = _plain(sampler), Stopwatch()
    have = int(params.schedule.step.shape[0])
    iterations, particles = positive_int(iterations, "iterations"), positive_int(particles, "particles")
    if steps is not None and positive_int(steps, "steps") > have:
        raise ConfigError(f"the schedule has {have} steps; refining to {steps} would not shorten it")
    key = require_key(key)
    whole = judge(sampler, jax.random.fold_in(key, 0))
    gradients, depth = sampler.depth * _JUDGES, sampler.depth
    wanted = [steps] if steps is not None else [count for count in (have // 2, 3 * have // 4) if 0 < count < have]
    for index, count in enumerate(wanted):
        short = shortened(sampler, count)
        tuned, record = tune(short, jax.random.fold_in(key, 1 + index), iterations, particles)
        both = [(one, judge(one, jax.random.fold_in(key, 0))) for one in (tuned, short)]
        best, judged = min(both, key=lambda pair: pair[1].memory)
        gradients += (iterations * particles + 2 * _JUDGES) * short.depth
        depth += (iterations + 1) * short.depth
        enough = judged.memory < max(_FORGOTTEN, whole.memory)
        if steps is not None or (enough and still(whole.end, judged.end, _metric(best.params))):
            cost, before = clock.cost(gradients, depth), sampler.cost
            record = record | {"memory": np.array([each.memory for _, each in both])}
            return replace(best, record=record, cost=_sum(before, cost))
    return sampler


def shortened(sampler: Sampler, steps: int) -> Sampler:
    """The sampler with so many of its steps, evenly spread, and nothing tuned."""
    params = _plain(sampler)
    chosen = np.linspace(0, params.schedule.step.shape[0] - 1, steps).round().astype(int)
    schedule = jax.tree_util.tree_map(lambda leaf: leaf[chosen], params.schedule)
    params = params._replace(schedule=schedule)
    return replace(sampler, params=params, record={}, cost=Cost(), certificate=None)


def judge(sampler: Sampler, key: Array, particles: int = _JUDGES) -> Judged:
    """Fresh particles of P0 through the chain: what they remember, and where they end."""
    params = sampler.params
    position = jnp.asarray(params.initial.sample_on_host(generator(key), particles))
    density = sampler.target.density
    origin = Ensemble(position, *compiled(_evaluate, (density,), position)(position))
    batch = chain_program(sampler, position, key)
    end = Ensemble(batch.position, *compiled(_evaluate, (density,), batch.position)(batch.position))
    return Judged(remembered(origin, end, _metric(params)), end)


def tune(sampler: Sampler, key: Array, iterations: int, particles: int) -> tuple[Sampler, dict[str, np.ndarray]]:
    """Step sizes, and a dense metric's stretch, by Adam."""
    target, params = sampler.target, sampler.params
    metric, dense = _metric(params), isinstance(params.metrics, Dense)
    objective = Refinement(sampler.method.kernel, particles, metric=dense)
    begin = Tuned(jnp.log(params.schedule.step), jnp.zeros(target.dim, target.dtype))
    fixed = Fixed(params.initial, params.schedule.leapfrogs, metric)
    tuned, record = ascend(objective, target.density, begin, fixed, key, iterations)
    if dense:
        metric = stretched(metric, tuned.log_stretch)
    found = params._replace(
        schedule=params.schedule._replace(step=jnp.exp(tuned.log_step)),
        metrics=jax.tree_util.tree_map(lambda leaf: leaf[None], metric),
    )
    return replace(sampler, params=found), {name: np.stack(rows) for name, rows in record.items()}


def _plain(sampler: Sampler) -> GEIParams:
    """The sampler's parameters, if they are a greedy schedule in one metric."""
    params = sampler.params if isinstance(sampler, Sampler) else None
    if not isinstance(params, GEIParams) or params.schedule.beta is not None:
        raise ConfigError(f"refine needs a sampler of eg.GEI, not annealed (of a family, a member's), not {sampler!r}")
    return params


def _sum(one: Cost, other: Cost) -> Cost:
    return Cost(*(getattr(one, name) + getattr(other, name) for name in asdict(one)))


def _metric(params: GEIParams) -> Any:
    return jax.tree_util.tree_map(lambda leaf: leaf[0], params.metrics)


def _evaluate(density: Density, position: Array) -> tuple[Array, Array]:
    return density.batched(position)
