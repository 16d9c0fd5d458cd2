"""What one evaluation of a function does, read off its trace before anything is compiled; and many of them, in blocks.

`vmap` makes of a function one that does every operation for all rows before it begins the next. Where a row's
intermediate values are many, those of all rows together do not stay in a processor's cache, and every operation waits
for memory. So rows are evaluated as many at a time as do stay there: on models with a thousand observations that is two
to seven times as fast (`ergodic bench models` has such). A loop over time keeps little at once, and is dear to repeat:
functions with one are evaluated for all rows at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, jaxpr_as_fun
from jaxtyping import Array, PyTree

from .programs import compiling

_CACHE = 1 << 17
"""Bytes of one intermediate value that all rows of a block may have together."""
_MEMORY = 1 << 27
"""The same, where it is not the cache but the memory that is too small for all rows: of millions of observations."""
_FEWEST = 4
"""Rows of a block, at least: where not even these stay in cache, blocks are of no use."""
_GAMMAS = ("lgamma", "digamma", "igamma", "igammac")
_SPECIAL = frozenset(
    ("exp", "exp2", "expm1", "log", "log1p", "logistic", "tanh", "pow", "sin", "cos", "tan", "erf", "erfc", *_GAMMAS)
)
_MANY = 6000
"""Exponentials and the like of one evaluation, from which on they are what it takes its time for."""
_LOOPS = frozenset(("scan", "while"))


class Work(NamedTuple):
    """What one evaluation does. What is in a loop counts once."""

    bytes: int = 0
    """Of all values that its operations make."""
    largest: int = 0
    """Bytes of the largest of them."""
    special: int = 0
    """How many exponentials, logarithms and the like."""
    loops: bool = False

    def __or__(self, other: Work) -> Work:
        largest, loops = max(self.largest, other.largest), self.loops or other.loops
        return Work(self.bytes + other.bytes, largest, self.special + other.special, loops)

    @property
    def plain(self) -> bool:
        """Whether it has so few exponentials and logarithms that they are not what it takes its time for."""
        return self.special < _MANY

    def block(self, rows: int) -> int:
        """How many rows to evaluate at a time: a divisor of their number."""
        most = _CACHE // max(self.largest, 1)
        block = rows if self.loops or most < _FEWEST or most >= rows else divisor(rows, most)
        block = block if block >= _FEWEST else rows
        return block if block * self.largest <= _MEMORY else divisor(rows, _MEMORY // self.largest)


class Traced(NamedTuple):
    """A function of one row, traced once for all that is to be made of it."""

    jaxpr: ClosedJaxpr
    structure: PyTree
    work: Work

    @staticmethod
    def of(function: Callable[[Array], PyTree], shape: tuple[int, ...], dtype: np.dtype) -> Traced:
        """A function of an array of this shape."""
        like = jax.ShapeDtypeStruct(shape, dtype)  # type: ignore[no-untyped-call]
        with compiling():
            jaxpr, out = jax.make_jaxpr(function, return_shape=True)(like)
        return Traced(jaxpr, jax.tree_util.tree_structure(out), _work(jaxpr.jaxpr))

    def over(self, rows: Array) -> PyTree:
        """Its values for many rows, a block at a time."""
        block, call = self.work.block(len(rows)), jaxpr_as_fun(self.jaxpr)
        leaves = jax.vmap(call)(rows) if block == len(rows) else jax.lax.map(call, rows, batch_size=block)
        return jax.tree_util.tree_unflatten(self.structure, leaves)


def divisor(count: int, most: int) -> int:
    """The largest divisor of ``count`` that is at most ``most``; at least 1."""
    return next(size for size in range(max(1, min(count, most)), 0, -1) if count % size == 0)


def _work(jaxpr: Jaxpr) -> Work:
    done = Work()
    for equation in jaxpr.eqns:
        name, made = equation.primitive.name, [_size(each.aval) for each in equation.outvars]
        inner = [_work(each) for each in _within(equation.params)]
        for each in inner:
            done |= each
        bytes_made = sum(size * width for size, width in made)
        special = sum(size for size, _ in made) if name in _SPECIAL else 0
        largest = 0 if inner else max((size * width for size, width in made), default=0)
        done |= Work(0 if inner else bytes_made, largest, special, name in _LOOPS)
    return done


def _size(aval: PyTree) -> tuple[int, int]:
    """Values, and bytes of each; what is no array has neither."""
    if not isinstance(aval, jax.core.ShapedArray) or not isinstance(aval.dtype, np.dtype):
        return 0, 0
    return math.prod(aval.shape), aval.dtype.itemsize


def _within(params: dict[str, PyTree]) -> Iterator[Jaxpr]:
    for name, value in params.items():
        if name == "update_jaxpr":  # how a scatter adds two numbers
            continue
        for each in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(each, ClosedJaxpr):
                yield each.jaxpr
            elif isinstance(each, Jaxpr):
                yield each
