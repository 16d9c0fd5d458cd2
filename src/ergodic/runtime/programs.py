"""Compiled programs: what was compiled once is never compiled again, and how long compiling took is known exactly.

`compiled(function, static, *args)` compiles ``function(*static, *args)`` ahead of time for the shapes of ``args`` and
keeps the result. ``static`` values are hashable configuration (a `Density`, a kernel, a number of particles).
"""

from __future__ import annotations

import functools
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeGuard, TypeVar

import jax
import jax.monitoring
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

Found = TypeVar("Found")
_KEPT = 128
_programs: OrderedDict[Hashable, Any] = OrderedDict()
_seconds = 0.0  # spent compiling, ever
_compiling = False
_ONE = threading.RLock()  # threads compile one after the other, so that the seconds are known


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


def _mesh(leaves: list[Any]) -> Mesh | None:
    """The mesh of devices that some arguments lie on; None where each lies on one device."""
    for leaf in leaves:
        if _cut(leaf) and isinstance(leaf.sharding.mesh, Mesh):
            return leaf.sharding.mesh
    return None


def _place(leaf: Any, mesh: Mesh) -> NamedSharding:
    """Where an argument lies among a mesh's devices: what is not cut up among them is whole on every one."""
    return leaf.sharding if _cut(leaf) else _whole(mesh)


def _cut(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and isinstance(leaf.sharding, NamedSharding) and leaf.sharding.num_devices > 1


def _whole(mesh: Mesh) -> NamedSharding:
    return NamedSharding(mesh, PartitionSpec())  # type: ignore[no-untyped-call]


@contextmanager
def compiling() -> Iterator[None]:
    """What is done meanwhile is tracing, lowering or compiling: its seconds count as such, and Ctrl-C waits."""
    global _seconds, _compiling
    with _uninterrupted(), _ONE:
        within, began, _compiling = _compiling, time.perf_counter(), True
        try:
            yield
        finally:
            _compiling = within
            if not within:
                _seconds += time.perf_counter() - began


class Bare(Generic[Found]):
    """What several carriers of data have in common: programs are compiled for it. It remembers facts about shapes."""

    def __init__(self) -> None:
        self._facts: dict[Hashable, Found] = {}
        self._here: dict[Hashable, tuple[Any, Any]] = {}

    def here(self, data: Any) -> Any:
        """The data where this thread computes; they are copied to a device once, and the last are kept there."""
        device = jax.config.jax_default_device  # type: ignore[attr-defined]
        if device is None:
            return data
        before, there = self._here.get(device, (None, None))
        if before is not data:
            there = jax.device_put(data, device)
            self._here[device] = (data, there)
        return there

    def known(self, data: Any, find: Callable[[], Found]) -> Found:
        """A fact that is the same for all data of these shapes."""
        leaves, structure = jax.tree_util.tree_flatten(data)
        shapes = (structure, *map(_shape, leaves))
        if shapes not in self._facts:
            self._facts[shapes] = find()
        return self._facts[shapes]


class Carrying(ABC):
    """A static value that has arrays with it. Where they are not None, they are arguments of its programs.

    Data in a program as constants would be compiled into it: for minutes, and anew for others.
    """

    data: Any
    bare: Bare

    @abstractmethod
    def holding(self, data: Any) -> Carrying:
        """The same with other arrays."""


def _carries(static: Hashable) -> TypeGuard[Carrying]:
    return isinstance(static, Carrying) and static.data is not None


def _given(function: Callable, static: tuple[Hashable, ...], data: tuple[Any, ...], *args: Any) -> Any:
    """The function, given what its static values carry."""
    rest = iter(data)
    return function(*(each.holding(next(rest)) if _carries(each) else each for each in static), *args)


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
    carried = tuple(each.bare.here(each.data) for each in static if _carries(each))
    called = partial(_given, function, static) if carried else partial(function, *static)
    known = tuple(each.bare if _carries(each) else each for each in static)
    whole = (carried, *args) if carried else args
    leaves, structure = jax.tree_util.tree_flatten(whole)
    shapes, mesh = tuple(map(_shape, leaves)), _mesh(leaves)
    places = () if mesh is None else tuple(_place(leaf, mesh) for leaf in leaves)
    device = jax.config.jax_default_device  # type: ignore[attr-defined]
    identity = (function, known, structure, shapes, places, device, brief, plain, beside, jax.numpy.result_type(float))
    if identity in _programs:
        _programs.move_to_end(identity)
        return partial(_programs[identity], carried) if carried else _programs[identity]
    options: dict[str, str | bool] = {"xla_backend_optimization_level": "1"} if brief else {}
    if plain:
        options["xla_cpu_use_fusion_emitters"] = False
    if beside:
        options["xla_cpu_experimental_ynn_fusion_type"] = ""
    with compiling():  # within it the program is kept too: a Ctrl-C that waited comes at its end
        placed = {} if mesh is None else {
            "in_shardings": jax.tree_util.tree_unflatten(structure, places),
            "out_shardings": _whole(mesh),
        }  # fmt: skip
        lowered = jax.jit(called, **placed).lower(*whole)
        try:
            program = lowered.compile(compiler_options=options or None)
        except jax.errors.JaxRuntimeError:  # other versions of XLA may not know an option
            program = lowered.compile()
        _programs[identity] = program
        if len(_programs) > _KEPT:
            _programs.popitem(last=False)
    return partial(program, carried) if carried else program
