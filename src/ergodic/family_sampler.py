"""What was fitted to a family, and draws of all its members.

samplers = eg.fit_many(family, jax.random.key(0))
draws = samplers.sample(jax.random.key(1), 1_000)     # draws.unconstrained: (members, 1,000, dim)
samplers.settled                                      # which members the schedule serves
samplers[3].certify(jax.random.key(2))                # an ordinary Sampler: save, certify, sample
samplers.save("family.ergodic")                       # eg.load("family.ergodic", family)
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from .draws import Draws, constrained
from .family import Family
from .protocols import Familial
from .runtime.drawing import Batch, Columns, filled, spread
from .runtime.programs import Cost, Stopwatch
from .runtime.validation import positive_int
from .sampler import Sampler, require_key, save, warn_of_lost

_SIDE_BY_SIDE = 1 << 12
"""Particles, over members, of one call of the program."""


@dataclass(eq=False)
class FamilySampler:
    """A method fitted to a family: ``sample(key, n)`` gives n draws of every member.

    Attributes:
      family: what it samples.
      method: the configuration that members are sampled by.
      params: what was tuned; a member's own parameters have a leading axis of members (`Familial.axes`).
      settled: which members have forgotten their start at the schedule's end, and stand still, on fresh particles. For
        the others one schedule is not enough: ``eg.fit(family[i], key)``.
      memory: the largest correlation with the start, per member, of fresh particles; chance alone gives 3/√particles.
      cost: what tuning the whole family cost.
    """

    family: Family
    method: Familial
    params: PyTree
    settled: np.ndarray
    memory: np.ndarray
    cost: Cost

    def __len__(self) -> int:
        return len(self.family)

    def __iter__(self) -> Iterator[Sampler]:
        return (self[index] for index in range(len(self)))

    def __getitem__(self, index: int) -> Sampler:
        """One member's sampler, with its share of the cost."""
        at = range(len(self))[index]
        record = {"memory": self.memory[at : at + 1]}
        return Sampler(self.family[at], self.method, self._own(at), record, _share(self.cost, len(self)))

    def _own(self, which: int | np.ndarray) -> PyTree:
        """The parameters of one member, or of some."""
        return jax.tree_util.tree_map(
            lambda axis, branch: branch if axis is None else _rows(branch, which),
            *(self.method.axes(self.params), self.params),
            is_leaf=lambda node: node is None or isinstance(node, int),
        )

    @property
    def depth(self) -> int:
        """Gradients that one draw costs, one after the other."""
        return self.method.depth(self.params)

    def sample(self, key: Array, n: int, *, chunk: int | None = None) -> FamilyDraws:
        """Draw n times from every member.

        Some members, and ``chunk`` draws of each, are made side by side; memory beside the output grows with neither.
        Draw i of member m depends on the key, on m, on i and on ``chunk`` alone, which is n where it is left out and n
        is small.
        """
        n, key, clock, members = positive_int(n, "n, the number of draws"), require_key(key), Stopwatch(), len(self)
        size = (
            min(self.method.chunk(self.family.dim, self.params), n) if chunk is None else positive_int(chunk, "chunk")
        )
        block = math.ceil(members / math.ceil(members / max(1, _SIDE_BY_SIDE // size)))
        found, made = [], 0
        for first in range(0, members, block):
            who = np.minimum(np.arange(first, first + block), members - 1)
            columns = filled(self._batches(who, key, n, size), n, size=n)
            made += columns.made * block
            found.append(_first(columns, min(block, members - first)))
        position, logdensity = (np.concatenate(parts) for parts in zip(*(each[:2] for each in found), strict=True))
        stats = {name: np.concatenate([columns.stats[name] for columns in found]) for name in found[0].stats}
        warn_of_lost(logdensity)
        trace = {name: np.concatenate([columns.trace[name] for columns in found]) for name in found[0].trace}
        return FamilyDraws(self, key, position, logdensity, stats, clock.cost(made * self.depth, self.depth), trace)

    def _batches(self, who: np.ndarray, key: Array, n: int, size: int) -> Iterator[Batch]:
        """Batches of some members: batch c of member m is made from the key folded with m and with c."""
        own, data, members = self._own(who), _rows(self.family.data, who), jnp.asarray(who)

        def one(index: int) -> Batch:
            return self.method.member_batch(self.family.density, own, data, members, key, index, size)

        return spread(one, range(math.ceil(n / size)))

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
      stats: further values per draw, ``(members, n)``: ``acceptance_rate``, ``diverging``, ...
      cost: of all of them.
      trace: averages over a member's runs along its chain, ``(members, ...)``: ``expected_logdensity``, ...
    """

    samplers: FamilySampler
    key: Array
    unconstrained: np.ndarray
    logdensity: np.ndarray
    stats: dict[str, np.ndarray]
    cost: Cost
    trace: dict[str, np.ndarray]

    def __len__(self) -> int:
        return len(self.unconstrained)

    def __iter__(self) -> Iterator[Draws]:
        return (self[index] for index in range(len(self)))

    def __getitem__(self, index: int) -> Draws:
        """The draws of one member, as ordinary ones."""
        at, sampler = range(len(self))[index], self.samplers[index]
        return Draws(
            sampler.target,
            self.unconstrained[at],
            self.logdensity[at],
            {name: column[at] for name, column in self.stats.items()},
            cost=_share(self.cost, len(self)),
            attributes=sampler.attributes(jax.random.fold_in(self.key, at)),
            kind=sampler.kind,
        )

    @cached_property
    def position(self) -> PyTree:
        """The draws as a pytree with leading axes members and draws, constrained as each member's target says."""
        members, n, dim = self.unconstrained.shape
        targets = list(self.samplers.family)
        if len({target.constrain for target in targets}) > 1:  # it may depend on their data
            trees = [constrained(*each) for each in zip(targets, self.unconstrained, strict=True)]
            return jax.tree_util.tree_map(lambda *leaves: np.stack(leaves), *trees)
        flat = constrained(targets[0], self.unconstrained.reshape(-1, dim))
        return jax.tree_util.tree_map(lambda leaf: leaf.reshape(members, n, *leaf.shape[1:]), flat)

    def __repr__(self) -> str:
        members, n, dim = self.unconstrained.shape
        return f"FamilyDraws({members} x {n:,} independent draws of '{self.samplers.family.name}', dim={dim})"


def _rows(trees: PyTree, which: int | np.ndarray) -> PyTree:
    """One row of every leaf, or some."""
    return jax.tree_util.tree_map(lambda leaf: leaf[which], trees)


def _first(columns: Columns, members: int) -> Columns:
    """The first members' columns: the last block is filled up with its last member."""
    stats = {name: column[:members] for name, column in columns.stats.items()}
    trace = {name: values[:members] for name, values in columns.trace.items()}
    position, logdensity = columns.position[:members], columns.logdensity[:members]
    return columns._replace(position=position, logdensity=logdensity, stats=stats, trace=trace)


def _share(cost: Cost, members: int) -> Cost:
    """A member's part; depth is the same for all."""
    return Cost(cost.gradients // members, cost.depth, cost.compile_seconds / members, cost.run_seconds / members)
