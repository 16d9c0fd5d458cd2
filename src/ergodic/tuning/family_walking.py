"""Greedy tuning of one schedule for a family: every member in a frame of its own, steps and lengths in common.

Member m has particles x = A_m z with its own metric A_m, measured on its own ensemble, in whose coordinates posteriors
of one family look alike: hence one ε_t and one L_t for all. `Frames` is the family's metric, one A_m a block of rows,
and with it the family is one ensemble of members · N particles that `greedy.advance` moves as it moves any other.

The two walks are those of `walking.py`. A pilot brings every member's particles to its posterior; then fresh particles
of every member's P0 choose the schedule, until nine members in ten have forgotten where they started; then others say
how much of it is needed, and which members it does not serve.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..charts.fitting import metric_of
from ..charts.linear import Diagonal
from ..family import Family, FamilyDensity
from ..initial.mixture import KernelMixture
from ..kernels.affine import AffineHMC
from ..kernels.ensemble import Ensemble, start
from ..runtime.errors import TargetError
from ..runtime.programs import compiled
from .checks import insist, judged, require_usable
from .greedy import REPEAT, TRANSIENT, Chosen, Walk, advance, begin
from .walking import (
    CHUNK,
    FIRST_STEP,
    FORGOTTEN,
    LEAST,
    MIXED,
    RACED,
    behind,
    generator,
    modes_of,
    remembered,
    rescued,
    still,
)

_NEARLY = 0.9
_SHUFFLES = 100
_STRAY = 4.0
_TOGETHER = 512
"""Particles whose limit in `walking.forgotten` is asked of the family as a whole, where it has as many."""


class Frames(NamedTuple):
    """A metric a member; rows are members' particles, block after block."""

    metrics: Any
    """Stacked along a leading axis of members."""

    def _each(self, what: str, rows: Float[Array, "particles dim"]) -> Float[Array, "particles dim"]:
        members = jax.tree_util.tree_leaves(self.metrics)[0].shape[0]
        blocks = rows.reshape(members, -1, rows.shape[1])
        return jax.vmap(lambda metric, block: getattr(metric, what)(block))(self.metrics, blocks).reshape(rows.shape)

    def push(self, z: Float[Array, "particles dim"]) -> Float[Array, "particles dim"]:
        """A_m z."""
        return self._each("push", z)

    def pull(self, force: Float[Array, "particles dim"]) -> Float[Array, "particles dim"]:
        """A_m' f."""
        return self._each("pull", force)

    def whiten(self, x: Float[Array, "particles dim"]) -> Float[Array, "particles dim"]:
        """A_m⁻¹ (x - the member's mean)."""
        members = jax.tree_util.tree_leaves(self.metrics)[0].shape[0]
        blocks = x.reshape(members, -1, x.shape[1])
        centred = blocks - jnp.mean(blocks, axis=1, keepdims=True)
        return self._each("whiten", centred.reshape(x.shape))


class FamilyWalked(NamedTuple):
    """Where a family's walk ended."""

    ensembles: list[Ensemble]
    """A member's particles each, on the host."""
    metrics: list[Any]
    step: Any
    chosen: Chosen
    """Steps that moved the particles, stacked."""
    settled: np.ndarray
    """Which members have forgotten where they started, and stand still."""
    memory: np.ndarray
    """The largest correlation with the start, a member; NaN for a pilot."""
    depth: int
    gradients: int


class _Walker:
    """A walk of all members at once."""

    def __init__(self, family: Family, kernel: AffineHMC, positions: np.ndarray, step: Any, key: Array):
        self.density, self.data, self.kernel, self.key = family.density, family.data, kernel, key
        self.rng = generator(key)
        self.members, self.particles, dim = positions.shape
        args = (self.data, positions.reshape(-1, dim))
        self.walk: Walk = begin(compiled(_start, (self.density,), *args)(*args), step)
        self.metrics: list[Any] = []
        self.chosen: list[Chosen] = []
        self.made = 0

    def go(self, modes: list[int], *, measure: bool) -> None:
        """As many steps as there are modes; metrics are measured anew before each that is not a repetition."""
        new = []
        for mode in modes:
            if measure and mode != REPEAT:
                self.measure()
            args = (self.data, self.walk, Frames(stacked(self.metrics)), np.int32(mode), np.int32(self.made), self.key)
            self.walk, chosen = compiled(_step, (self.density, self.kernel), *args)(*args)
            new.append(chosen)
            self.made += 1
        self.chosen += jax.device_get(new)

    def measure(self) -> None:
        """Every member's metric, from its particles as they stand."""
        self.metrics = [metric_of(*(np.asarray(e) for e in (each.position, each.gradient))) for each in self.split()]

    def split(self) -> list[Ensemble]:
        """The members' ensembles, on the host."""
        blocks = [
            np.asarray(leaf).reshape(self.members, self.particles, *leaf.shape[1:]) for leaf in self.walk.ensemble
        ]
        return [Ensemble(*(cast(Any, block[m]) for block in blocks)) for m in range(self.members)]

    def rescue(self, depth: float) -> None:
        """Particles that are nowhere, or hopelessly far behind, become copies of others of their member."""
        kept = [rescued(each, depth, self.rng) for each in self.split()]
        self.walk = self.walk._replace(
            ensemble=Ensemble(*(cast(Any, np.concatenate(leaves)) for leaves in zip(*kept, strict=True)))
        )

    def levels(self) -> np.ndarray:
        """Every member's median of log π*."""
        values = np.asarray(self.walk.ensemble.logdensity).reshape(self.members, self.particles)
        return np.median(np.where(np.isfinite(values), values, -np.inf), axis=1)

    def depth(self) -> int:
        """Gradients one after the other so far, the start's included."""
        return 1 + sum(int(chosen.gradients) for chosen in self.chosen)

    def gradients(self) -> int:
        """Of all members' particles."""
        return self.depth() * self.members * self.particles

    def done(self, settled: np.ndarray, memory: np.ndarray) -> FamilyWalked:
        alive = [chosen for chosen in self.chosen if not chosen.dead]
        if not alive:
            raise TargetError(
                "the family rejects every step, however small, from where it starts: are gradients right?"
            )
        chosen = Chosen(*(cast(Any, np.stack(leaves)) for leaves in zip(*alive, strict=True)))
        return FamilyWalked(
            self.split(), self.metrics, self.walk.step, chosen, settled, memory, self.depth(), self.gradients()
        )


def pilot(
    family: Family, kernel: AffineHMC, starts: list[Any], key: Array, *, particles: int, most: int
) -> FamilyWalked:
    """Find every member from the best of several starts, given from wide to narrow, the same for all."""
    members, dim = len(family), family.dim
    runners: list[_Walker] = []
    for index, initial in enumerate(starts):
        walk_key = jax.random.fold_in(key, index)
        rng = generator(walk_key)
        positions = np.stack([initial.sample_on_host(rng, particles) for _ in range(members)])
        walker = _Walker(family, kernel, positions, FIRST_STEP, walk_key)
        starting = walker.split()
        lost = [at for at, each in enumerate(starting) if not np.isfinite(each.logdensity).any()]
        if lost:
            continue
        _insist(family, starting)
        walker.rescue(np.inf)
        walker.go([TRANSIENT] * RACED, measure=True)
        walker.rescue(behind(dim))
        runners.append(walker)
    if not runners:
        require_usable(family[lost[0]], key, starts[-1])
        raise TargetError(f"'{family[lost[0]].name}' has no finite log-density where it starts: give a `prior`")
    levels = np.stack([runner.levels() for runner in runners])
    best = runners[int(np.argmax((levels >= levels.max(axis=0) - 0.5 * dim).mean(axis=1)))]
    arrived = settled = np.zeros(members, bool)
    while best.made < most and settled.mean() < _NEARLY:
        before, level = best.split(), best.levels()
        best.go(modes_of(CHUNK) if arrived.all() else [TRANSIENT] * CHUNK, measure=True)
        best.rescue(behind(dim))
        arrived = arrived | (best.levels() < level + dim)
        if arrived.all():
            triples = zip(before, best.split(), best.metrics, strict=True)
            settled = np.array([remembered(b, a, m) < MIXED and still(b, a, m) for b, a, m in triples])
    best.measure()
    others = sum(runner.gradients() for runner in runners if runner is not best)
    walked = best.done(settled, np.full(members, np.nan))
    return walked._replace(gradients=walked.gradients + others)  # starts are raced side by side


def retune(
    family: Family,
    kernel: AffineHMC,
    initials: list[KernelMixture],
    found: FamilyWalked,
    key: Array,
    *,
    particles: int,
    most: int,
) -> FamilyWalked:
    """Choose the schedule on fresh particles of every member's P0, each in its fixed frame."""
    walker = _fresh(family, kernel, initials, found, particles, key)
    origin, first = walker.split(), None
    settled = memory = np.zeros(len(initials))
    while walker.made < most:
        before = walker.split()
        walker.go(modes_of(CHUNK // 2), measure=False)
        settled, memory = forgotten(origin, before, walker.split(), walker.metrics)
        if settled.mean() < _NEARLY:
            first = None
            continue
        first = first or walker.made
        if 2 * walker.made >= 3 * first:  # half as much again, and it still stands
            break
    return walker.done(settled, memory)


def prune(
    family: Family,
    kernel: AffineHMC,
    initials: list[KernelMixture],
    walked: FamilyWalked,
    key: Array,
    *,
    particles: int,
) -> FamilyWalked:
    """Fresh particles through the schedule: drop the last steps that they do not need; who has settled, and who not."""
    walker = _fresh(family, kernel, initials, walked, particles, key)
    origin, chosen, count = walker.split(), walked.chosen, len(walked.chosen.step)
    seen: list[tuple[int, np.ndarray, np.ndarray]] = []
    for at in range(0, count, CHUNK // 2):
        before, until = walker.split(), min(at + CHUNK // 2, count)
        for index in range(at, until):
            idle = np.zeros(walker.members * walker.particles, np.int32)
            walker.walk = walker.walk._replace(
                step=chosen.step[index], length=chosen.leapfrogs[index], idle=cast(Any, idle)
            )
            walker.go([REPEAT], measure=False)
        seen.append((until, *forgotten(origin, before, walker.split(), walker.metrics)))
    good = [settled.mean() >= _NEARLY and until >= min(LEAST, count) for until, settled, _ in seen]
    lasting = next((i for i in range(len(seen)) if all(good[i:])), len(seen) - 1)
    needed, settled, memory = seen[lasting]
    kept = Chosen(*(leaf[:needed] for leaf in chosen))
    depth, gradients = walked.depth + walker.depth(), walked.gradients + walker.gradients()
    return walked._replace(chosen=kept, settled=settled, memory=memory, depth=depth, gradients=gradients)


def forgotten(
    origin: list[Ensemble], before: list[Ensemble], now: list[Ensemble], metrics: list[Any]
) -> tuple[np.ndarray, np.ndarray]:
    """Which members remember nothing of their start and stand still, and how much each remembers.

    A member's limit is what chance gives it: four standard deviations above the average of what particles "remember" of
    the starts of others. Few particles see little by themselves: none has settled while the family as a whole remembers
    more than chance gives 512 particles, or as many as it has.
    """
    dim, rng = now[0].position.shape[1], np.random.default_rng(0)
    trios = list(zip(origin, now, metrics, strict=True))
    memory = np.array([remembered(*trio) for trio in trios])
    by_chance = [remembered(_shuffled(o, rng), n, m) for o, n, m in trios for _ in range(-(-_SHUFFLES // len(trios)))]
    limit = np.mean(by_chance) + 4 * np.std(by_chance)
    stand = np.array([still(b, n, m) for b, n, m in zip(before, now, metrics, strict=True)])
    together = remembered(_pooled(origin, now, metrics), _pooled(now, now, metrics), Diagonal(cast(Any, np.ones(dim))))
    seen = min(_TOGETHER, sum(len(each.position) for each in now))
    return (memory < limit) & stand & (together < FORGOTTEN / np.sqrt(seen)), memory


def _shuffled(ensemble: Ensemble, rng: np.random.Generator) -> Ensemble:
    order = rng.permutation(len(ensemble.position))
    return Ensemble(*(leaf[order] for leaf in ensemble))


def _pooled(ensembles: list[Ensemble], frames: list[Ensemble], metrics: list[Any]) -> Ensemble:
    """All members' particles, each in its member's frame and in units of its member's spreads; strays brought near."""

    def standard(values: np.ndarray, of: np.ndarray) -> np.ndarray:
        spread = of.std(axis=0)
        return np.clip((values - of.mean(axis=0)) / np.where(spread > 0, spread, 1), -_STRAY, _STRAY)

    position, level = [], []
    for each, frame, metric in zip(ensembles, frames, metrics, strict=True):
        position.append(standard(metric.whiten(each.position), metric.whiten(frame.position)))
        level.append(standard(np.asarray(each.logdensity), np.asarray(frame.logdensity)))
    x = np.concatenate(position)
    return Ensemble(*(cast(Any, leaf) for leaf in (x, np.concatenate(level), np.zeros_like(x))))


def stacked(parts: list[Any]) -> Any:
    """Trees of like shapes as one, with a leading axis."""
    return jax.tree_util.tree_map(lambda *leaves: np.stack(leaves), *parts)


def _insist(family: Family, starting: list[Ensemble]) -> None:
    """Refuse the first member whose log-density is not usable where it starts."""
    for index, each in enumerate(starting):
        checks = judged(family[0], np.asarray(each.logdensity), np.asarray(each.gradient))
        if any(check.status == "failed" for check in checks):
            insist(family[index], checks)


def _fresh(
    family: Family,
    kernel: AffineHMC,
    initials: list[KernelMixture],
    found: FamilyWalked,
    particles: int,
    key: Array,
) -> _Walker:
    rng = generator(key)
    positions = np.stack([initial.sample_on_host(rng, particles) for initial in initials])
    walker = _Walker(family, kernel, positions, found.step, key)
    walker.metrics = found.metrics
    return walker


def _start(density: FamilyDensity, data: Any, rows: Array) -> Ensemble:
    return start(density.batched(data), rows)


def _step(
    density: FamilyDensity, kernel: AffineHMC, data: Any, walk: Walk, frames: Frames, mode: Array, t: Array, key: Array
) -> tuple[Walk, Chosen]:
    return advance(kernel, density.batched(data), walk, frames, mode, t, jax.random.fold_in(key, t))
