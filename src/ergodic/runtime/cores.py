"""One computation per row of some arrays, one row after the other, the rows shared by the processor's cores.

XLA runs a loop on one core. Side by side in one program, rows whose evaluations each fill the cache take three to four
times as long per row (networks of 50 units given 277 and 1,439 rows); alone, a core each, they do not wait for others.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from .programs import compiled

_AT_ONCE = 100
"""Rows that are side by side where none is alone, as on an accelerator, which has no cores to share."""


def over_cores(
    function: Callable[..., PyTree],
    static: tuple[Hashable, ...],
    common: tuple[PyTree, ...],
    *rows: PyTree,
    alone: bool = True,
) -> PyTree:
    """``function(*static, *common, *row)`` of every row: the first axis of all ``rows``, and of the result.

    What comes out does not depend on the number of cores. Without ``alone``, a core takes rows side by side.
    """
    count = jax.tree_util.tree_leaves(rows)[0].shape[0]
    size = -(-count // min(count, _cores()))
    parts = [jax.tree_util.tree_map(lambda leaf, i=i: leaf[i : i + size], rows) for i in range(0, count, size)]
    beside = jax.default_backend() == "cpu"
    programs = [compiled(_mapped, (function, static, alone and beside), common, *part, beside=beside) for part in parts]

    def run(program: Callable[..., PyTree], part: tuple[PyTree, ...]) -> PyTree:
        return jax.tree_util.tree_map(lambda leaf: leaf.block_until_ready(), program(common, *part))

    with ThreadPoolExecutor(len(parts)) as pool:
        results = list(pool.map(run, programs, parts))
    return jax.tree_util.tree_map(lambda *leaves: jnp.concatenate(leaves), *results)


def _mapped(
    function: Callable[..., PyTree],
    static: tuple[Hashable, ...],
    alone: bool,
    common: tuple[PyTree, ...],
    *rows: PyTree,
) -> PyTree:
    at_once = None if alone else _AT_ONCE
    return jax.lax.map(lambda row: function(*static, *common, *row), rows, batch_size=at_once)


def _cores() -> int:
    """How many cores this process may use; an accelerator counts as one."""
    if jax.default_backend() != "cpu":
        return 1
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
