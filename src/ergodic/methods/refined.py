"""`refine`: a greedy schedule made shorter, for samplers from which very many draws will be made.

Of a schedule's T steps T' are kept, evenly spread, and tuned together (`tuning/shortening.py`). Of them as they were
and as they were tuned, those are taken of which fresh particles of the sampler's own P0 remember less. They are
enough if that is no more than the whole schedule leaves (or next to nothing), and averages stay as far as the
particles can tell.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..charts import DenseChart, LinearChart
from ..kernels.ensemble import Ensemble
from ..runtime.errors import ConfigError
from ..runtime.noise import generator
from ..runtime.programs import Cost, Stopwatch, compiled
from ..runtime.validation import positive_int
from ..sampler import Sampler, require_key
from ..target import Density
from ..tuning.forgetting import Particles, particles_of, remembered, still
from ..tuning.shortening import Fixed, Refinement, Tuned, ascend, stretched
from .gei import GEI
from .schedule import GEIParams

_JUDGES = 2048
_JUDGE_KEY, _TUNE_KEY = 0, 1
_FORGOTTEN = 0.1


class Judged(NamedTuple):
    """What fresh particles say of a chain."""

    memory: float
    """The largest correlation between a function of the start and the same of the end."""
    end: Particles


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
      particles: runs of the chain per iteration.
    """
    method, params = _plain(sampler)
    clock = Stopwatch()
    have = int(params.schedule.step.shape[0])
    iterations, particles = positive_int(iterations, "iterations"), positive_int(particles, "particles")
    if steps is not None and positive_int(steps, "steps") > have:
        raise ConfigError(f"the schedule has {have} steps; refining to {steps} would not shorten it")
    key = require_key(key)
    whole = judge(sampler, jax.random.fold_in(key, _JUDGE_KEY))
    gradients, depth = sampler.depth * _JUDGES, sampler.depth
    wanted = [steps] if steps is not None else [count for count in (have // 2, 3 * have // 4) if 0 < count < have]
    for index, count in enumerate(wanted):
        short = shortened(sampler, count)
        tuned, record = tune(short, jax.random.fold_in(key, _TUNE_KEY + index), iterations, particles)
        both = [(one, judge(one, jax.random.fold_in(key, _JUDGE_KEY))) for one in (tuned, short)]
        best, judged = min(both, key=lambda pair: pair[1].memory)
        gradients += (iterations * particles + 2 * _JUDGES) * short.depth
        depth += (iterations + 1) * short.depth
        enough = judged.memory < max(_FORGOTTEN, whole.memory)
        if steps is not None or (
            enough and still(whole.end, judged.end, _chart(best.params), method.details.unsettled)
        ):
            cost, before = clock.cost(gradients, depth), sampler.cost
            record = record | {"memory": np.array([each.memory for _, each in both])}
            return replace(best, record=record, cost=before + cost)
    return sampler


def shortened(sampler: Sampler, steps: int) -> Sampler:
    """The sampler with so many of its steps, evenly spread, and nothing tuned."""
    _, params = _plain(sampler)
    chosen = np.linspace(0, params.schedule.step.shape[0] - 1, steps).round().astype(int)
    schedule = jax.tree_util.tree_map(lambda leaf: leaf[chosen], params.schedule)
    params = params._replace(schedule=schedule)
    return replace(sampler, params=params, record={}, cost=Cost(), certificate=None, draws=None, gathered=None)


def judge(sampler: Sampler, key: Array, particles: int = _JUDGES) -> Judged:
    """Fresh particles of P0 through the chain: what they remember, and where they end."""
    method, params = _plain(sampler)
    position = jnp.asarray(params.initial.sample_on_host(generator(key), particles))
    density = sampler.target.density
    origin = Ensemble(position, *compiled(_evaluate, (density,), position)(position))
    batch = method.chain(sampler.target, params, position, key)
    end = Ensemble(batch.position, *compiled(_evaluate, (density,), batch.position)(batch.position))
    then, now = particles_of(origin)[0], particles_of(end)[0]
    return Judged(remembered(then, now, _chart(params)), now)


def tune(sampler: Sampler, key: Array, iterations: int, particles: int) -> tuple[Sampler, dict[str, np.ndarray]]:
    """Step sizes, and a dense chart's stretch, by Adam."""
    (method, params), target = _plain(sampler), sampler.target
    chart = jax.tree_util.tree_map(lambda leaf: leaf[0], params.charts)
    objective = Refinement(method.kernel, particles, coordinates=isinstance(chart, DenseChart))
    begin = Tuned(jnp.log(params.schedule.step), jnp.zeros(target.dim, target.dtype))
    fixed = Fixed(params.initial, params.schedule.leapfrogs, chart)
    tuned, record = ascend(objective, target.density, begin, fixed, key, iterations)
    if isinstance(chart, DenseChart):
        chart = stretched(chart, tuned.log_stretch)
    found = params._replace(
        schedule=params.schedule._replace(step=jnp.exp(tuned.log_step)),
        charts=jax.tree_util.tree_map(lambda leaf: leaf[None], chart),
    )
    return replace(sampler, params=found), record


def _plain(sampler: object) -> tuple[GEI, GEIParams]:
    """The sampler's method and parameters, if they are a greedy schedule in one chart."""
    if isinstance(sampler, Sampler) and isinstance(sampler.method, GEI) and sampler.params.schedule.beta is None:
        return sampler.method, sampler.params
    raise ConfigError(f"refine needs a sampler of eg.GEI, not annealed (of a family, a member's), not {sampler!r}")


def _chart(params: GEIParams) -> LinearChart:
    """The schedule's one chart, on the host."""
    return jax.tree_util.tree_map(lambda leaf: np.asarray(leaf[0]), params.charts)


def _evaluate(density: Density, position: Array) -> tuple[Array, Array]:
    return density.batched(position)
