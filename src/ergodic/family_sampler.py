"""`fit_many`: one schedule for a family of posteriors, and draws of all of them in one batched computation.

    samplers = eg.fit_many(family, jax.random.key(0))
    draws = samplers.sample(jax.random.key(1), 1_000)     # draws.unconstrained: (members, 1,000, dim)
    samplers.settled                                      # which members the schedule serves
    samplers[3].certify(jax.random.key(2))                # an ordinary Sampler: save, certify, sample
    samplers.save("family.ergodic")                       # eg.load("family.ergodic", family)

Every member m has its own P0 and its own metric A_m; step sizes ε_t and lengths L_t are the family's
(`tuning/family_walking.py`). Drawing is `GEI`'s chain with many members' particles in one ensemble.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .chain import RunStats, advance
from .draws import Draws, constrained
from .family import Family, FamilyDensity
from .initial.mixture import KernelMixture
from .kernels.affine import AffineHMC, AffineParams
from .kernels.ensemble import BatchedDensity, Ensemble, Info, start
from .methods.gei import GEI, GEIParams, Schedule
from .runtime.drawing import default_chunk
from .runtime.errors import ConfigError
from .runtime.programs import Cost, Stopwatch, compiled
from .runtime.validation import positive_int
from .sampler import Sampler, require_key, save, warn_of_lost
from .target import Target
from .tuning.family_walking import FamilyWalked, Frames, pilot, prune, retune, stacked
from .tuning.walking import generator

_SIDE_BY_SIDE = 1 << 12
"""Particles, over members, of one call of the program."""


@dataclass(eq=False)
class FamilySampler:
    """What was fitted to a family.

    Attributes:
      family: what it samples.
      method: the configuration that members are sampled by.
      params: P0 and metrics with a leading axis of members; the schedule is common.
      settled: which members have forgotten their start at the schedule's end, and stand still, on fresh particles. For
        the others one schedule is not enough: ``eg.fit(family[i], key)``.
      memory: the largest correlation with the start, a member, of fresh particles; chance alone gives 3/√particles.
      cost: what tuning the whole family cost.
    """

    family: Family
    method: GEI
    params: GEIParams
    settled: np.ndarray
    memory: np.ndarray
    cost: Cost

    def __len__(self) -> int:
        return len(self.family)

    def __iter__(self) -> Iterator[Sampler]:
        return (self[index] for index in range(len(self)))

    def __getitem__(self, index: int) -> Sampler:
        """One member's sampler, with its share of the cost."""
        at, params = range(len(self))[index], self.params
        params = params._replace(initial=_one(params.initial, at), metrics=_one(params.metrics, at))
        record = {"memory": self.memory[at : at + 1]}
        return Sampler(self.family[at], self.method, params, record, _share(self.cost, len(self)))

    @property
    def depth(self) -> int:
        """Gradients one draw costs, one after the other."""
        return self.params.depth

    def sample(self, key: Array, n: int, *, chunk: int | None = None) -> FamilyDraws:
        """n draws of every member.

        Some members, and ``chunk`` draws of each, are made side by side; memory beside the output grows with neither.
        """
        n = positive_int(n, "n, the number of draws")
        key = require_key(key)
        clock, family, members = Stopwatch(), self.family, len(self)
        size = min(default_chunk(family.dim) if chunk is None else positive_int(chunk, "chunk"), n)
        chunks = math.ceil(n / size)
        block = math.ceil(members / math.ceil(members / max(1, _SIDE_BY_SIDE // size)))
        position = np.empty((members, n, family.dim), family.dtype)
        columns = {
            "logdensity": np.empty((members, n), family.dtype),
            "acceptance_rate": np.empty((members, n), family.dtype),
            "diverging": np.empty((members, n), bool),
        }
        metrics = jax.tree_util.tree_map(lambda leaf: leaf[:, 0], self.params.metrics)
        program = None
        for first in range(0, members, block):
            who = np.minimum(np.arange(first, first + block), members - 1)
            initial, mine, data = jax.tree_util.tree_map(
                lambda leaf, who=who: leaf[who], (self.params.initial, metrics, family.data)
            )
            initial = jax.device_get(initial)
            real = slice(first, min(first + block, members))
            for index in range(chunks):
                draw_key = jax.random.fold_in(jax.random.fold_in(key, first), index)
                rng = generator(draw_key)
                starts = [_one(initial, at).sample_on_host(rng, size) for at in range(block)]
                args = (self.params.schedule, mine, data, np.concatenate(starts), draw_key)
                program = program or compiled(_draw, (family.density, self.method.kernel), *args)
                end, stats = jax.device_get(program(*args))
                draws = slice(index * size, min((index + 1) * size, n))
                cut = (slice(0, real.stop - real.start), slice(0, draws.stop - draws.start))
                position[real, draws] = end.position.reshape(block, size, -1)[cut]
                for name, values in (("logdensity", end.logdensity), *stats._asdict().items()):
                    if name in columns:
                        columns[name][real, draws] = values.reshape(block, size)[cut]
        cost = clock.cost(chunks * size * block * math.ceil(members / block) * self.depth, self.depth)
        logdensity = columns.pop("logdensity")
        warn_of_lost(logdensity)
        return FamilyDraws(self, key, position, logdensity, columns, cost)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all members to one file, atomically; `ergodic.load(path, family)` reads it back."""
        record = {"settled": self.settled, "memory": self.memory}
        save(Sampler(self.family[0], self.method, self.params, record, self.cost), path, members=len(self))

    def __repr__(self) -> str:
        return (
            f"FamilySampler({len(self)} members of '{self.family.name}', dim={self.family.dim}, depth {self.depth}, "
            f"{int(self.settled.sum())} settled, tuned in {self.cost.run_seconds:.2f} s + "
            f"{self.cost.compile_seconds:.2f} s compile)"
        )


@dataclass(frozen=True, eq=False)
class FamilyDraws:
    """Draws of every member of a family.

    Attributes:
      samplers: where they come from.
      key: the key they were made with.
      unconstrained: flat unconstrained positions, ``(members, n, dim)``.
      logdensity: log π*, ``(members, n)``.
      stats: further values a draw, ``(members, n)``: ``acceptance_rate``, ``diverging``.
      cost: of all of them.
    """

    samplers: FamilySampler
    key: Array
    unconstrained: np.ndarray
    logdensity: np.ndarray
    stats: dict[str, np.ndarray]
    cost: Cost

    def __len__(self) -> int:
        return len(self.unconstrained)

    def __iter__(self) -> Iterator[Draws]:
        return (self[index] for index in range(len(self)))

    def __getitem__(self, index: int) -> Draws:
        """One member's draws."""
        at, sampler = range(len(self))[index], self.samplers[index]
        return Draws(
            sampler.target,
            self.unconstrained[at],
            self.logdensity[at],
            {name: column[at] for name, column in self.stats.items()},
            cost=_share(self.cost, len(self)),
            attributes=sampler.attributes(jax.random.fold_in(self.key, at)),
        )

    @cached_property
    def position(self) -> Any:
        """The draws as a pytree with leading axes members and draws, constrained as each member's target says."""
        members, n, dim = self.unconstrained.shape
        targets = list(self.samplers.family)
        if len({target.constrain for target in targets}) > 1:  # it may depend on their data
            return stacked([constrained(*each) for each in zip(targets, self.unconstrained, strict=True)])
        flat = constrained(targets[0], self.unconstrained.reshape(-1, dim))
        return jax.tree_util.tree_map(lambda leaf: leaf.reshape(members, n, *leaf.shape[1:]), flat)

    def __repr__(self) -> str:
        members, n, dim = self.unconstrained.shape
        return f"FamilyDraws({members} x {n:,} independent draws of '{self.samplers.family.name}', dim={dim})"


def fit_many(targets: Family | Sequence[Target], key: Array, method: GEI | None = None) -> FamilySampler:
    """Tune one schedule to a family of posteriors, each in a frame of its own.

    Args:
      targets: a `Family`, or a list of targets that differ in the arrays they have closed over.
      key: a JAX random key.
      method: `GEI` with its settings; ``particles`` are a member's. None: 128, or as many as give the family 512, or
        4 dim, up to 1,024, whichever is most. Nothing is certified or annealed, whatever ``method`` says: certify the
        members you doubt.
    """
    family = targets if isinstance(targets, Family) else Family.of(targets)
    key, clock = require_key(key), Stopwatch()
    if method is None:
        method = GEI(particles=max(128, -(-512 // len(family)), min(4 * family.dim, 1024)), certify=False)
    if not isinstance(method, GEI) or method.anneal:
        raise ConfigError(f"fit_many tunes by eg.GEI without annealing, not {method!r}")
    way, particles = (family, method.kernel), method.particles
    keys = [jax.random.fold_in(key, index) for index in range(3)]
    found = pilot(*way, method.starts(family[0]), keys[0], particles=particles, most=method.pilot)
    initials = [
        KernelMixture.around(np.asarray(each.position), metric)
        for each, metric in zip(found.ensembles, found.metrics, strict=True)
    ]
    walked = retune(*way, initials, found, keys[1], particles=particles, most=method.steps)
    kept = prune(*way, initials, walked, keys[2], particles=particles)
    cost = clock.cost(found.gradients + kept.gradients, found.depth + kept.depth)
    return FamilySampler(family, method, _params(initials, kept), kept.settled, kept.memory, cost)


def _params(initials: list[KernelMixture], walked: FamilyWalked) -> GEIParams:
    steps = jnp.asarray(walked.chosen.step, initials[0].centres.dtype)
    lengths = jnp.asarray(walked.chosen.leapfrogs, jnp.int32)
    schedule = Schedule(steps, lengths, jnp.zeros(steps.shape, jnp.int32))
    metrics = jax.tree_util.tree_map(lambda leaf: jnp.asarray(leaf)[:, None], stacked(walked.metrics))
    return GEIParams(jax.tree_util.tree_map(jnp.asarray, stacked(initials)), schedule, metrics)


def _one(trees: Any, at: int) -> Any:
    """One row of every leaf."""
    return jax.tree_util.tree_map(lambda leaf: leaf[at], trees)


def _share(cost: Cost, members: int) -> Cost:
    """A member's part; depth is the same for all."""
    return Cost(cost.gradients // members, cost.depth, cost.compile_seconds / members, cost.run_seconds / members)


class _Framed(NamedTuple):
    """The kernel with every member's metric: what `chain.advance` moves the whole family by."""

    kernel: AffineHMC
    frames: Frames

    def transition(
        self, density: BatchedDensity, params: Schedule, ensemble: Ensemble, key: Array
    ) -> tuple[Ensemble, Info]:
        return self.kernel.transition(density, AffineParams(params.step, params.leapfrogs, self.frames), ensemble, key)


def _draw(
    density: FamilyDensity,
    kernel: AffineHMC,
    schedule: Schedule,
    metrics: Any,
    data: Any,
    rows: Float[Array, "rows dim"],
    key: Array,
) -> tuple[Ensemble, RunStats]:
    """The chain of some members from given positions, block after block."""
    batched = density.batched(data)
    end, stats, _ = advance(batched, _Framed(kernel, Frames(metrics)), schedule, start(batched, rows), key)
    return end, stats
