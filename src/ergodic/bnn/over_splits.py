"""All splits of a table as one computation: a loop over splits in one program, whose parts the processor's cores share.

XLA runs a loop on one core. Every split has its own keys, so that what comes out does not depend on the cores.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp

from ..runtime.programs import compiled


def over_splits(function: Callable, static: tuple[Hashable, ...], *args: Any) -> Any:
    """``function(*static, *one)`` of every split; the leading axis of all arguments, and of the result, is splits."""
    count = jax.tree.leaves(args)[0].shape[0]
    size = -(-count // min(count, _cores()))
    parts = [jax.tree.map(lambda leaf, i=i: leaf[i : i + size], args) for i in range(0, count, size)]
    beside = jax.default_backend() == "cpu"
    programs = [compiled(_mapped, (function, static), *part, beside=beside) for part in parts]

    def run(program: Callable, part: tuple[Any, ...]) -> Any:
        return jax.tree.map(lambda leaf: leaf.block_until_ready(), program(*part))

    with ThreadPoolExecutor(len(parts)) as pool:
        results = list(pool.map(run, programs, parts))
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *results)


def _mapped(function: Callable, static: tuple[Hashable, ...], *args: Any) -> Any:
    return jax.lax.map(lambda split: function(*static, *split), args)


def _cores() -> int:
    """That this process may use; an accelerator has one program for all splits."""
    if jax.default_backend() != "cpu":
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
