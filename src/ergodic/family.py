"""A family of posteriors: one log-density of a position and a datum, and many data: folds, windows, simulated data.

    family = eg.Family(lambda w, fold: ..., data={"x": x, "y": y}, like=jnp.zeros(5))    # x: (members, rows, 5), ...
    samplers = eg.fit_many(family, key)                                                    # family_sampler.py

Data are arguments of the programs, not constants in them: one program serves all members, and families of like shapes.
A list of `Target`s is a family too where their log-densities do the same with different arrays (`Family.of`), as those
that one function makes from one data set each, or `from_numpyro` from one model: each is traced, and what it has closed
over becomes its datum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr
from jaxtyping import Array, Float, PyTree

from .charts.coordinates import Coordinates
from .initial import DiagonalGaussian
from .kernels.ensemble import BatchedDensity
from .kernels.pulled_back import pulled_back
from .runtime.errors import TargetError
from .runtime.travel import Recipe, Travels
from .runtime.work import Work, divisor
from .target import Density, Layout, Target

_AT_ONCE = 1 << 12
"""Particles that are evaluated side by side: more of them do not stay in cache."""


@dataclass(frozen=True, eq=False)
class FamilyDensity:
    """log π*(position, datum): hashable, what programs of the whole family are compiled for."""

    function: Callable[[PyTree, PyTree], Array]
    layout: Layout
    minibatch: Callable[[PyTree, PyTree, Array], Array] | None = None

    def of(self, datum: PyTree) -> Density:
        """The density of the member that has this datum."""
        return Density(lambda position: self.function(position, datum), self.layout, self.estimate_of(datum))

    @property
    def work(self) -> Work:
        """Not known, since it depends on the datum: as of one with many exponentials."""
        return Work(special=1 << 20)

    def estimate_of(self, datum: PyTree) -> Callable[[PyTree, Array], Array] | None:
        """One member's estimate of log π* from a random part of its data, where the family has one."""
        minibatch = self.minibatch
        return None if minibatch is None else lambda position, key: minibatch(position, datum, key)

    def of_members(self, data: PyTree, coordinates: Coordinates) -> BatchedDensity:
        """log π* and force of rows that are the members' particles, block after block, ``(members * n, dim)``.

        In coordinates, whose numbers are a member's own: what they do is the family's, so that nothing else is done.
        """
        members = jax.tree_util.tree_leaves(data)[0].shape[0]
        kinds, own = coordinates.kinds(), coordinates.numbers()

        def evaluate(x: Array) -> tuple[Float[Array, "particles"], Float[Array, "particles dim"]]:
            blocks = x.reshape(members, -1, x.shape[1])
            value, gradient = jax.lax.map(
                lambda each: pulled_back(self.of(each[0]).batched, each[2].of_kinds(kinds))(each[1]),
                (data, blocks, own),
                batch_size=divisor(members, _AT_ONCE // blocks.shape[1]),
            )
            return value.reshape(-1), gradient.reshape(x.shape)

        return evaluate


class Family(Travels):
    """What to sample, many times over.

    Args:
      logdensity: maps a position (a pytree shaped as ``like``) and a datum to the scalar log π*, up to a constant.
      data: a pytree of arrays with a leading axis of members; a datum is one row of it.
      like: a position: gives structure, shapes and dtype. Its values are not used.
      constrain: maps one position to the values the user wants to see; the identity when left out.
      name: what to call it in tables; members are ``name[0]``, ``name[1]``, ...
      prior: the prior's mean and spread on flat unconstrained positions, from where members are looked for.
      minibatch: ``minibatch(position, datum, key)``, an unbiased estimate of log π* from a random part of a datum.
    """

    def __init__(
        self,
        logdensity: Callable[[PyTree, PyTree], Array],
        data: PyTree,
        like: PyTree,
        *,
        constrain: Callable[[PyTree], PyTree] | None = None,
        name: str | None = None,
        prior: DiagonalGaussian | None = None,
        minibatch: Callable[[PyTree, PyTree, Array], Array] | None = None,
    ):
        if not callable(logdensity):
            raise TargetError(
                f"logdensity must be a function of a position and a datum, not a {type(logdensity).__name__}"
            )
        self.data = _as_data(data)
        self.name = name or str(getattr(logdensity, "__name__", type(logdensity).__name__))
        self._like, self._constrain, self.prior = like, constrain, prior
        self._members: dict[int, Target] = {}
        self._one: Target | None = None
        self.density = FamilyDensity(logdensity, Layout.of(like), minibatch)
        self[0]  # says what is wrong with the function, if anything is

    @staticmethod
    def of(targets: Sequence[Target]) -> Family:
        """Targets whose log-densities differ in the arrays that they have closed over, and in nothing else."""
        if not isinstance(targets, Sequence) or not targets or not all(isinstance(each, Target) for each in targets):
            raise TargetError(
                f"a family is an eg.Family, or a list with at least one Target, and Targets only: not {targets!r:.100}"
            )
        if _alike(targets):
            first = targets[0]
            data = jax.tree_util.tree_map(lambda *rows: jnp.stack(rows), *(target.data for target in targets))
            like = first.layout.unravel(np.zeros(first.dim, first.dtype))
            family = Family(first.density.function, data, like, constrain=first.constrain, name=first.name,
                            prior=first.prior, minibatch=first.density.minibatch)  # fmt: skip
            family._members = dict(enumerate(targets))
            return family
        first, traces = targets[0], [_trace(target) for target in targets]
        hidden = [_hidden(trace.jaxpr) for trace in traces]
        for index, (target, trace) in enumerate(zip(targets, traces, strict=True)):
            if target.layout != first.layout:
                raise TargetError(
                    f"target {index} has positions like ({target.layout}), target 0 ({first.layout}): no family"
                )
            if str(trace.jaxpr) != str(traces[0].jaxpr):
                raise TargetError(
                    f"target {index} ('{target.name}') is another function than target 0: members of a family may "
                    "differ in the values of arrays alone, not in their shapes, nor in plain numbers (make those "
                    "arrays: jnp.asarray). Otherwise fit them one by one, or give weights 0 to rows that are left out"
                )
            if not all(map(np.array_equal, hidden[index], hidden[0])):
                raise TargetError(
                    f"target {index} ('{target.name}') has arrays inside of a function under jax.jit that target 0 has "
                    "not: leave jax.jit out, log-densities are compiled anyway, or hand the arrays to that function"
                )
        shared = partial(_evaluate, traces[0].jaxpr, first.layout)
        data = [np.stack(leaves) for leaves in zip(*(trace.consts for trace in traces), strict=True)]
        data = data or [np.zeros(len(targets), np.int32)]  # all alike
        family = Family(shared, data, first.layout.unravel(np.zeros(first.dim, first.dtype)), name=first.name)
        family.prior = first.prior
        family._members = dict(enumerate(targets))
        family.recipe = Recipe.of(Family.of, targets)
        return family

    def with_data(self, data: PyTree) -> Family:
        """The same family of other members. Where as many have data of the same shapes, nothing is compiled for it."""
        whole = self.recipe.args[0] if self.recipe.function is Family.with_data else self
        other = self.another(Recipe.of(Family.with_data, whole, data))
        other.data, other._members = _as_data(data), {}
        other[0]  # says what is wrong with them, if anything is
        return other

    @property
    def dim(self) -> int:
        """The number of unconstrained real values in a position."""
        return self.density.layout.dim

    @property
    def dtype(self) -> np.dtype:
        """The floating dtype of positions."""
        return self.density.layout.dtype

    def __len__(self) -> int:
        return int(jax.tree_util.tree_leaves(self.data)[0].shape[0])

    def __iter__(self) -> Iterator[Target]:
        return (self[index] for index in range(len(self)))

    def __getitem__(self, index: int) -> Target:
        """One member as an ordinary target; the same object every time."""
        at = range(len(self))[index]
        if at not in self._members:
            datum = jax.tree_util.tree_map(lambda leaf: leaf[at], self.data)
            if self._one is None:
                self._one = Target(
                    self.density.function,
                    self._like,
                    data=datum,
                    constrain=self._constrain,
                    prior=self.prior,
                    minibatch=self.density.minibatch,
                )
            member = self._one.with_data(datum, name=f"{self.name}[{at}]")  # so that they share programs
            if isinstance(self.density.function, partial):  # traced (`Family.of`): the family travels, not the trace
                member.recipe = Recipe.of(Family.__getitem__, self, at)
            self._members[at] = member
        return self._members[at]

    def __repr__(self) -> str:
        return f"Family('{self.name}', {len(self)} members, dim={self.dim}, like=({self.density.layout}))"


def _alike(targets: Sequence[Target]) -> bool:
    """Whether targets are one function of a position and of data of the same shapes."""

    def kind(target: Target) -> tuple[object, ...]:
        leaves, structure = jax.tree_util.tree_flatten(target.data)
        shapes = [(leaf.shape, leaf.dtype) for leaf in leaves]
        return target.density.function, target.density.minibatch, target.constrain, target.layout, structure, shapes

    return targets[0].data is not None and all(kind(target) == kind(targets[0]) for target in targets)


def _as_data(data: PyTree) -> PyTree:
    """Arrays with one leading axis for all."""
    try:
        data = jax.tree_util.tree_map(jnp.asarray, data)
    except (TypeError, ValueError) as error:
        raise TargetError("`data` must be a pytree of arrays whose first axis is that of the members") from error
    leaves = jax.tree_util.tree_leaves_with_path(data)
    counts = {jax.tree_util.keystr(path) or "data": leaf.shape[:1] for path, leaf in leaves}
    if not counts or () in counts.values() or len(set(counts.values())) > 1 or (0,) in counts.values():
        raise TargetError(
            "`data` must be a pytree of arrays whose first axis is that of the members, as long in every one; "
            f"it is {', '.join(f'{name}: {list(leaf.shape)}' for name, (_, leaf) in zip(counts, leaves, strict=True))}"
        )
    return data


def _trace(target: Target) -> ClosedJaxpr:
    """The log-density of a flat position as a jaxpr, with what it has closed over as its constants."""
    return jax.make_jaxpr(target.density.__call__)(jnp.zeros(target.dim, target.dtype))


def _evaluate(jaxpr: Jaxpr, layout: Layout, position: PyTree, datum: PyTree) -> Array:
    """A traced log-density with other constants."""
    return jax.core.eval_jaxpr(jaxpr, datum[: len(jaxpr.constvars)], layout.ravel(position))[0]


def _hidden(jaxpr: Jaxpr) -> list[np.ndarray]:
    """Arrays that are constants of functions inside of a traced one, and so not its own."""
    found: list[np.ndarray] = []
    for value in jax.tree_util.tree_leaves([list(equation.params.values()) for equation in jaxpr.eqns]):
        if isinstance(value, ClosedJaxpr):
            found += [*value.consts, *_hidden(value.jaxpr)]
        elif isinstance(value, Jaxpr):
            found += _hidden(value)
    return found
