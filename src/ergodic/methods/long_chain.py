"""A long chain of HMC from a variational start. Ours; the paper's appendix, on networks, is one of its settings.

1. Mean-field variational inference gives P0 its means; its scales are those found, or given ones. P0 then stays.
2. T transitions of L leapfrogs are tuned, all at once, by E_{p_T}[log π*] with frozen forces (equations 8 and 9). The
   objective only shapes a transition's step sizes over the coordinates; their common factor goes where a part a of the
   moves is accepted:

       log φ2 ← log φ2 + η (g - mean g) + κ (α - a)      g: Adam's direction, α: the mean acceptance of this transition

``acceptance=None`` is the paper's tuning, log φ ← log φ + η g: that of `HEI` with a P0 that is not tuned. Its gradient
holds the Metropolis decisions, so that on networks steps grow until nearly all are rejected.

In a family every member has its own P0 and its own step sizes; all are tuned by one program.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from ..chain import ChainParams, advance
from ..family import Family, FamilyDensity
from ..family_sampler import FamilySampler
from ..initial import DiagonalGaussian, starting
from ..kernels import Ensemble, HMCParams, start
from ..kernels.ensemble import BatchedDensity
from ..protocols import Familial
from ..runtime.cores import over_cores
from ..runtime.drawing import Batch, default_chunk
from ..runtime.errors import ConfigError
from ..runtime.programs import Stopwatch, compiled
from ..runtime.validation import Rule, finite_float, numbers, optional, positive_float
from ..sampler import Sampler
from ..target import Density, Target
from ..tuning.acceptance import check_acceptance
from ..tuning.adam import Adam
from ..tuning.checks import require_usable
from ..tuning.elbo import climb
from ..tuning.emlbo import frozen_runs
from .hmc_chain import HMCChain

_GAIN = 0.5
"""κ, how fast a step's size follows its acceptance."""
_REMEMBERS = 0.1
"""From this correlation with the start on, a member of a family has not settled."""
_CHUNK_ALONE = 20
"""Runs of a batch where they are made one by one: numbers of draws that people ask for are multiples of it."""


class _Around(NamedTuple):
    """The random means that variational inference starts from: N(mean, spread²)."""

    mean: Float[Array, "dim"]
    spread: Float[Array, "dim"]


class _Tuned(NamedTuple):
    """A tuned chain, and how tuning went; of a family, with an axis of members in front."""

    params: ChainParams
    record: dict[str, Array]
    """One row per iteration: ``objective`` (E_{p_T}[log π*]) and ``acceptance``, the mean over transitions."""
    memory: Float[Array, "*members"]
    """Mean over coordinates of the correlation of x_T with x_0, in the second half of tuning."""


@dataclass(frozen=True)
class LongChain(HMCChain, Familial):
    """Settings of the long chain; ``LongChain().fit(target, key)`` gives a `Sampler`.

    Attributes:
      steps, leapfrogs: T transitions of L sub-steps each.
      iterations: of tuning. None: the steps stay as they are first drawn.
      particles: runs of the chain per iteration.
      learning_rate: η.
      acceptance: a, the part of moves that every transition is to have accepted. None: the paper's tuning.
      adjusted: False leaves out the Metropolis step.
      step_size: range from which the first step sizes are drawn.
      vi_iterations, vi_particles, vi_learning_rate: of variational inference; the rate falls to a tenth.
      vi_scale: standard deviations that it starts from.
      vi_spread: how far the random means that it starts from lie from the prior's, or from 0: standard deviations, one
        number or one per flat coordinate.
      initial_scale: P0's standard deviations, likewise. None: those that variational inference finds.
      alone: whether runs are made one by one, shared by the processor's cores, not side by side: for a log-density
        that fills the processor's cache, as a network's does.
    """

    steps: int = 50
    leapfrogs: int = 20
    iterations: int | None = 50
    particles: int = 16
    learning_rate: float = 0.05
    acceptance: float | None = 0.8
    adjusted: bool = True
    step_size: tuple[float, float] = (0.01, 0.025)
    vi_iterations: int = 200
    vi_particles: int = 4
    vi_learning_rate: float = 0.05
    vi_scale: float = 0.05
    vi_spread: float | tuple[float, ...] = 0.0
    initial_scale: float | tuple[float, ...] | None = None
    alone: bool = False

    name: ClassVar[str] = "LongChain"
    title: ClassVar[str] = "a long chain of HMC from a variational start, its steps scaled by acceptance"
    rules: ClassVar[Mapping[str, Rule]] = {
        "acceptance": optional(check_acceptance),
        "vi_spread": numbers(finite_float),
        "initial_scale": optional(numbers(positive_float)),
    }

    def forces(self, density: Density) -> tuple[PyTree, PyTree]:
        """The kernel that runs are made of, and the forces that it takes."""
        return self.kernel, _forces(density)

    def started(self, density: Density, position: Float[Array, "particles dim"], key: Array) -> Ensemble:
        """Particles with the forces that the kernel carries along."""
        return start(_forces(density), position)

    def chunk(self, dim: int, params: PyTree) -> int:
        """Rows of a batch by default: fewer where runs are made one by one."""
        return min(_CHUNK_ALONE, default_chunk(dim)) if self.alone else default_chunk(dim)

    def begin(self, target: Target, key: Array) -> ChainParams:
        """P0, and step sizes before any tuning; also their shapes, for reading a file."""
        return _begun(target.density, self, self._around(target), key)

    def fit(self, target: Target, key: Array, *, progress: bool | None = None) -> Sampler:
        """Tune a chain to the target, by one program."""
        clock, around = Stopwatch(), self._around(target)
        check_key, tune_key = jax.random.split(key)
        require_usable(target, check_key, starting(target, None, self.vi_scale))
        tuned = compiled(_tuned, (target.density, self), around, tune_key)(around, tune_key)
        record = {name: np.asarray(column) for name, column in tuned.record.items()}
        return Sampler(target, self, tuned.params, record, clock.cost(*self._spent(1)))

    def fit_family(self, family: Family, key: Array) -> FamilySampler:
        """Tune a chain to every member, all by one program.

        ``memory`` is the mean over coordinates of the correlation with the start, over runs of the second half of
        tuning; a member has settled where it is below 0.1.
        """
        clock, around = Stopwatch(), self._around(family[0])
        static, rows = (family.density, self), (family.data, jax.random.split(key, len(family)))
        tuned = over_cores(_member_tuned, static, (around,), *rows, alone=self.alone)
        memory, cost = np.asarray(tuned.memory), clock.cost(*self._spent(len(family)))
        return FamilySampler(family, self, tuned.params, np.abs(memory) < _REMEMBERS, memory, cost)

    def _around(self, target: Target) -> _Around:
        """Where variational inference starts: from means around the prior's, or around 0."""
        spread = np.asarray(self.vi_spread, target.dtype)
        if spread.ndim and spread.shape != (target.dim,):
            raise ConfigError(f"vi_spread has {spread.size} values for a target of dimension {target.dim}")
        return _Around(starting(target).mean, jnp.asarray(np.broadcast_to(spread, (target.dim,))))

    def _spent(self, members: int) -> tuple[int, int]:
        """Gradients of tuning, and those that had to follow one another."""
        chain = (self.iterations or 0) * (1 + self.steps * self.leapfrogs)
        return members * (self.vi_iterations * self.vi_particles + chain * self.particles), self.vi_iterations + chain

    def go_on(
        self, density: Density, params: ChainParams, position: Float[Array, "particles dim"], key: Array
    ) -> Batch:
        """The T transitions from given positions; with ``alone``, one run after the other, each with its own key."""
        if not self.alone:
            return _run(density, self, params, position, key)
        keys = jax.random.split(key, position.shape[0])
        return _side_by_side(jax.lax.map(lambda each: _run_one(density, self, params, *each), (position, keys)))

    def chain(self, target: Target, params: ChainParams, position: Float[Array, "particles dim"], key: Array) -> Batch:
        """The same by compiled programs; with ``alone``, one per core."""
        if not self.alone:
            return super().chain(target, params, position, key)
        keys = jax.random.split(key, position.shape[0])
        return _side_by_side(over_cores(_run_one, (target.density, self), (params,), position, keys))

    def member_batch(
        self, density: FamilyDensity, params: PyTree, data: PyTree, who: Array, key: Array, index: int, particles: int
    ) -> Batch:
        """Independent runs of some members, which the cores share."""
        common = (key, jnp.asarray(index))
        return over_cores(_run_member, (density, self, particles), common, params, data, who, alone=self.alone)

    def axes(self, params: PyTree) -> int:
        """Every parameter is a member's own."""
        return 0


def _begun(density: Density, method: LongChain, around: _Around, key: Array) -> ChainParams:
    """P0 by variational inference, and the first step sizes."""
    start_key, chain_key = jax.random.split(key)
    first_key, climb_key = jax.random.split(start_key)
    dtype, dim = around.mean.dtype, around.mean.shape[0]
    mean = around.mean + around.spread * jax.random.normal(first_key, (dim,), dtype)
    first = DiagonalGaussian(mean, jnp.full(dim, np.log(method.vi_scale), dtype))
    rates = method.vi_learning_rate * jnp.linspace(1.0, 0.1, method.vi_iterations, dtype=dtype)
    initial = climb(density, first, climb_key, rates, method.vi_particles)
    if method.initial_scale is not None:
        scale = jnp.asarray(np.log(method.initial_scale), dtype)
        initial = initial._replace(log_scale=jnp.broadcast_to(scale, (dim,)))
    return ChainParams(initial, method.kernel.init(chain_key, method.steps, dim, dtype, method.step_size))


def _tuned(density: Density, method: LongChain, around: _Around, key: Array) -> _Tuned:
    """The whole of tuning."""
    begin_key, tune_key = jax.random.split(key)
    params, adam = _begun(density, method, around, begin_key), Adam()
    kernel, forces = method.forces(density)

    def step(carry: tuple[HMCParams, PyTree], key: Array) -> tuple[tuple[HMCParams, PyTree], PyTree]:
        transitions, state = carry
        noise_key, chain_key = jax.random.split(key)
        position_key, force_key = jax.random.split(noise_key)
        begin = method.started(density, params.initial.sample(position_key, method.particles), force_key)
        runs = frozen_runs(forces, kernel, transitions, begin, jax.random.split(chain_key, method.steps))
        direction, state = adam.step(runs.gradient, state)
        row = {"objective": jnp.mean(runs.end.logdensity), "acceptance": jnp.mean(runs.acceptance)}
        ends = (begin.position, runs.end.position)
        return (_updated(method, transitions, direction, runs.acceptance), state), (row, ends)

    keys = jax.random.split(tune_key, method.iterations or 0)
    (transitions, _), (record, ends) = jax.lax.scan(step, (params.transitions, adam.init(params.transitions)), keys)
    return _Tuned(params._replace(transitions=transitions), record, _remembered(*ends))


def _updated(method: LongChain, transitions: HMCParams, direction: HMCParams, acceptance: Array) -> HMCParams:
    """One iteration's step along Adam's direction; with its mean over coordinates replaced by what acceptance asks."""
    if method.acceptance is None:
        return jax.tree_util.tree_map(lambda p, d: p + method.learning_rate * d, transitions, direction)
    shape = direction.log_step - jnp.mean(direction.log_step, axis=-1, keepdims=True)
    common = _GAIN * (acceptance - method.acceptance)[:, None]
    return transitions._replace(log_step=transitions.log_step + method.learning_rate * shape + common)


def _remembered(
    begin: Float[Array, "iterations particles dim"], end: Float[Array, "iterations particles dim"]
) -> Float[Array, ""]:
    """The mean over coordinates of the correlation of x_T with x_0; NaN of a single run, which has none."""
    then, now = (x[x.shape[0] // 2 :].reshape(-1, x.shape[-1]) for x in (begin, end))
    then, now = then - jnp.mean(then, axis=0, keepdims=True), now - jnp.mean(now, axis=0, keepdims=True)
    norm = jnp.sqrt(jnp.sum(then**2, axis=0) * jnp.sum(now**2, axis=0))
    return jnp.mean(jnp.sum(then * now, axis=0) / norm)


def _forces(density: Density) -> BatchedDensity:
    """log π* and its force; of one position without the axis of a batch, which is faster."""

    def forces(positions: Array) -> tuple[Array, Array]:
        if positions.shape[0] > 1:
            return density.batched(positions)
        value, force = jax.value_and_grad(density.__call__)(positions[0])
        return value[None], force[None]

    return forces


def _run(density: Density, method: LongChain, params: ChainParams, position: Array, key: Array) -> Batch:
    """All particles side by side."""
    kernel, forces = method.forces(density)
    begin = method.started(density, position, jax.random.fold_in(key, method.steps))
    end, stats, trace = advance(forces, kernel, params.transitions, begin, key)
    return Batch(end.position, end.logdensity, stats._asdict(), trace._asdict())


def _run_one(density: Density, method: LongChain, params: ChainParams, position: Array, key: Array) -> Batch:
    """One particle's run, as a batch of one."""
    return _run(density, method, params, position[None], key)


def _side_by_side(runs: Batch) -> Batch:
    """One batch of many of one run each."""
    stats = {name: column[:, 0] for name, column in runs.stats.items()}
    trace = {name: jnp.mean(values, axis=0) for name, values in runs.trace.items()}
    return Batch(runs.position[:, 0], runs.logdensity[:, 0], stats, trace)


def _member_tuned(density: FamilyDensity, method: LongChain, around: _Around, datum: PyTree, key: Array) -> _Tuned:
    return _tuned(density.of(datum), method, around, key)


def _run_member(
    density: FamilyDensity,
    method: LongChain,
    particles: int,
    key: Array,
    index: Array,
    params: ChainParams,
    datum: PyTree,
    member: Array,
) -> Batch:
    """One member's batch of this index."""
    own = jax.random.fold_in(jax.random.fold_in(key, member), index)
    return method.simulate(density.of(datum), params, own, particles)
