"""Compiled programs: what was compiled once is never compiled again, and how long compiling took is known exactly.

`compiled(function, static, *args)` compiles ``function(*static, *args)`` ahead of time for the shapes of ``args`` and
keeps the result. ``static`` values are hashable configuration (a `Density`, a kernel, a number of particles).
"""

from __future__ import annotations

import functools
import signal
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.monitoring
import numpy as np

_KEPT = 128
_programs: OrderedDict[Hashable, Any] = OrderedDict()
_seconds = 0.0  # spent compiling, ever
_compiling = False


@dataclass(frozen=True)
class Cost:
    """What something cost.

    Attributes:
      gradients: evaluations of ∂ log π* over all particles.
      depth: evaluations that must follow one another: what a machine of any width has to wait for.
      compile_seconds: tracing, lowering and compiling. Zero when the programs were there already.
      run_seconds: everything else.
    """

    gradients: int = 0
    depth: int = 0
    compile_seconds: float = 0.0
    run_seconds: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(*(mine + its for mine, its in zip(astuple(self), astuple(other), strict=True)))


class Stopwatch:
    """Wall-clock from its making on, with the part spent compiling kept apart."""

    def __init__(self) -> None:
        _listen()
        self._began, self._compiled = time.perf_counter(), _seconds

    def cost(self, gradients: int, depth: int) -> Cost:
        """The cost so far."""
        compile_seconds = _seconds - self._compiled
        elapsed = time.perf_counter() - self._began
        return Cost(gradients, depth, compile_seconds, elapsed - compile_seconds)


@functools.cache
def _listen() -> None:
    """Count, from now on, what JAX compiles outside of `compiled`: operations run one by one."""

    def heard(event: str, duration_secs: float, **_: Any) -> None:
        global _seconds
        if event.startswith("/jax/core/compile/") and not _compiling:
            _seconds += duration_secs

    jax.monitoring.register_event_duration_secs_listener(heard)


def keep_programs(folder: Path) -> None:
    """Keep compiled programs in a folder, for processes to come; where JAX has been told of one, that is used."""
    if jax.config.jax_compilation_cache_dir is None:  # type: ignore[attr-defined]
        jax.config.update("jax_compilation_cache_dir", str(folder))  # type: ignore[no-untyped-call]
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.3)  # type: ignore[no-untyped-call]


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ctrl-C waits: one that arrives while XLA compiles makes the interpreter crash when it ends."""
    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    pressed: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if pressed:
        raise KeyboardInterrupt


def _shape(leaf: Any) -> Hashable:
    """What of an argument a program depends on; of NumPy's arrays this is known without asking JAX."""
    if isinstance(leaf, (np.ndarray, np.generic)):
        return leaf.shape, jax.dtypes.canonicalize_dtype(leaf.dtype)
    kind = jax.typeof(leaf)
    return kind if kind.weak_type else (kind.shape, kind.dtype)


@contextmanager
def compiling() -> Iterator[None]:
    """What is done meanwhile is tracing, lowering or compiling: its seconds count as such, and Ctrl-C waits."""
    global _seconds, _compiling
    with _uninterrupted():
        within, began, _compiling = _compiling, time.perf_counter(), True
        try:
            yield
        finally:
            _compiling = within
            if not within:
                _seconds += time.perf_counter() - began


def compiled(
    function: Callable,
    static: tuple[Hashable, ...],
    *args: Any,
    brief: bool = False,
    plain: bool = False,
    beside: bool = False,
) -> Callable:
    """The program of ``function(*static, *args)`` for these static values and the arguments' shapes.

    A ``brief`` one will not run for long, as in tuning: it is compiled with less care (level 1 of XLA's backend), which
    takes a fifth less time. A ``plain`` one has few exponentials and logarithms: it does without XLA's newer emitters
    of fused loops, which make these faster and gathers slower, and take a third more time. One that runs ``beside``
    others, a core each, does without XLA's library of parallel matrix products (YNNPACK): the help that every product
    asks for would queue up, and fill the memory, as long as no core is free.
    """
    leaves, structure = jax.tree_util.tree_flatten(args)
    shapes = tuple(map(_shape, leaves))
    identity = (function, static, structure, shapes, brief, plain, beside, jax.numpy.result_type(float))
    if identity in _programs:
        _programs.move_to_end(identity)
        return _programs[identity]
    options: dict[str, str | bool] = {"xla_backend_optimization_level": "1"} if brief else {}
    if plain:
        options["xla_cpu_use_fusion_emitters"] = False
    if beside:
        options["xla_cpu_experimental_ynn_fusion_type"] = ""
    with compiling():  # within it the program is kept too: a Ctrl-C that waited comes at its end
        lowered = jax.jit(partial(function, *static)).lower(*args)
        try:
            program = lowered.compile(compiler_options=options or None)
        except jax.errors.JaxRuntimeError:  # other versions of XLA may not know an option
            program = lowered.compile()
        _programs[identity] = program
        if len(_programs) > _KEPT:
            _programs.popitem(last=False)
    return program
