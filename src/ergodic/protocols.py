"""What the library's parts must offer one another, and what they may.

Structural protocols say what is passed around as arrays: `Chart`, `Initial`, `Kernel`, `AnyTarget`. None is inherited.
A method inherits from `Method`, by way of the class that says how its draws come about, and of its capabilities:

    Method            a frozen configuration: fit, kind, depth, template
      FixedShapes     begin: its parameters before tuning, whose shapes the settings decide
      Independent     simulate: runs of their own; draw i depends on the key and i alone
        Chained       go_on: P0, then transitions that can also start from given positions
          Hamiltonian speeds: HMC transitions whose step sizes annealing can use
          Annealable  elsewhere, otherwise: its chain can go through temperatures
          Coupled     fresh, together, longer: runs of it can be coupled, so that they meet
      Correlated      advance: chains that go on from where tuning left them
      Bidirectional   backward: its annealed chain can be run from π to P0
      Familial        fit_family, member: one fit serves many posteriors
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, ClassVar, Protocol, runtime_checkable

import jax
import numpy as np
from jaxtyping import Array, Float, PyTree

from .runtime.budget import Budget
from .runtime.drawing import Batch, Columns, Kind, ahead, default_chunk, spread
from .runtime.programs import compiled
from .runtime.validation import Rule, settle

if TYPE_CHECKING:
    from .charts.coordinates import Coordinates
    from .family import Family, FamilyDensity
    from .family_sampler import FamilySampler
    from .initial import DiagonalGaussian
    from .kernels.coupled import Pairs
    from .kernels.ensemble import BatchedDensity, Ensemble, Info
    from .sampler import Sampler
    from .target import Density, Layout, Target

Fact = str | int | float | bool  # what a file's attributes can hold
Rows = Float[Array, "particles dim"]
Shapes = Mapping[str, tuple[int, ...]]  # of a file's arrays, by their path below ``params/``


@runtime_checkable
class Chart(Protocol):
    """Coordinates z, x = x_0 + A z, in which the target is nearly N(0, I); arrays, for ``(particles, dim)`` at once."""

    def push(self, z: Rows) -> Rows:
        """The displacement A z of x."""

    def pull(self, force: Rows) -> Rows:
        """The force A'f in z that belongs to the force f in x."""

    def whiten(self, x: Rows) -> Rows:
        """The displacement A⁻¹ x of z."""


@runtime_checkable
class Initial(Protocol):
    """P0: a distribution with tractable sampling, density and entropy; a NamedTuple of arrays."""

    def sample(self, key: Array, particles: int) -> Rows:
        """Independent starting positions, inside a compiled program."""

    def sample_on_host(self, rng: np.random.Generator, particles: int) -> np.ndarray:
        """Independent starting positions, without a compiled program."""

    def logdensity(self, x: Rows) -> Float[Array, "particles"]:
        """log p0(x), normalised, of every particle."""

    def entropy(self) -> Float[Array, ""]:
        """The entropy H(P0), in nats."""


@runtime_checkable
class Kernel(Protocol):
    """One kind of MCMC transition: a frozen, hashable configuration that moves a whole ensemble, given parameters."""

    def transition(
        self, density: BatchedDensity, params: PyTree, ensemble: Ensemble, key: Array
    ) -> tuple[Ensemble, Info]:
        """Move every particle once; π is left invariant."""


@runtime_checkable
class AnyTarget(Protocol):
    """What methods ask of a target; `Target` has it, and so has every member of a `Family`."""

    name: str
    names: tuple[str, ...]
    layout: Layout
    density: Density
    prior: DiagonalGaussian | None
    prior_entropy: float | None

    @property
    def dim(self) -> int:
        """The number of unconstrained real values in a position."""

    @property
    def dtype(self) -> np.dtype:
        """The floating dtype of positions."""


class Method(ABC):
    """A named recipe: a frozen dataclass of settings whose `fit` gives a `Sampler`."""

    name: ClassVar[str]
    title: ClassVar[str]
    rules: ClassVar[Mapping[str, Rule]] = {}  # how settings are checked whose type does not tell it

    def __post_init__(self) -> None:
        """Check the settings. A method with more to check calls this first."""
        parts = (vars(part).get("rules", {}) for part in reversed(type(self).__mro__))
        settle(self, **{name: rule for part in parts for name, rule in part.items()})

    @abstractmethod
    def fit(self, target: Target, key: Array, *, progress: bool | None = None) -> Sampler:
        """Tune the method to a target."""

    @abstractmethod
    def template(self, target: Target, found: Shapes, members: int | None = None) -> PyTree:
        """Shapes and dtypes of the parameters that a file should hold, given the shapes that were found in it."""

    @abstractmethod
    def kind(self, params: PyTree) -> Kind:
        """What its draws are to one another."""

    @abstractmethod
    def depth(self, params: PyTree) -> int:
        """Gradients that one draw costs, one after the other."""

    @abstractmethod
    def draw(self, target: Target, params: PyTree, key: Array, n: int, size: int) -> Iterator[Batch]:
        """Batches on the host, of about ``size`` rows, until there are n rows or more."""

    @abstractmethod
    def spent(self, params: PyTree, columns: Columns, size: int) -> tuple[int, int]:
        """Gradients of all draws together, and those that had to follow one another."""

    def chunk(self, dim: int, params: PyTree) -> int:
        """Rows of a batch by default."""
        return default_chunk(dim)

    def rows(self, n: int, size: int) -> int:
        """How many of ``size`` rows a batch has when n draws are wanted: no more than that."""
        return min(size, n)

    def coordinates(self, params: PyTree) -> Coordinates | None:
        """Coordinates in which the target is easier, where the method has learned any."""
        return None

    def start(self, params: PyTree) -> Initial | None:
        """P0, where the method has one."""
        return None

    def facts(self, params: PyTree) -> dict[str, Fact]:
        """Plain facts for the draws' attributes, beside the method's name and the kind of draws."""
        return {}

    def settings(self) -> dict[str, PyTree]:
        """The settings as plain values, as a file keeps them; the constructor takes them back."""
        return asdict(self)  # type: ignore[call-overload]


class FixedShapes(Method):
    """A method whose settings decide the shapes of its parameters."""

    @abstractmethod
    def begin(self, target: Target, key: Array) -> PyTree:
        """The parameters before any tuning; also their shapes, for reading a file."""

    def template(self, target: Target, found: Shapes, members: int | None = None) -> PyTree:
        """The shapes of `begin`; with members, those of a family, which have an axis of members in front."""
        one = jax.eval_shape(lambda key: self.begin(target, key), jax.random.key(0))
        if members is None:
            return one
        return jax.tree_util.tree_map(lambda leaf: jax.ShapeDtypeStruct((members, *leaf.shape), leaf.dtype), one)  # type: ignore[no-untyped-call]


class Independent(Method):
    """Every draw comes from a run of its own, weighted or not."""

    @abstractmethod
    def simulate(self, density: Density, params: PyTree, key: Array, particles: int) -> Batch:
        """Independent runs, as a pure function."""

    def kind(self, params: PyTree) -> Kind:
        """Independent, unless a method says otherwise."""
        return Kind.INDEPENDENT

    def batches(self, target: Target, params: PyTree, key: Array, start: int, count: int, size: int) -> Iterator[Batch]:
        """Batches start, ..., start + count - 1 of ``size`` draws: batch i is made from the key folded with i."""
        static = (target.density, self, size)
        return spread(lambda i: compiled(_run, static, params, key, 0)(params, key, i), range(start, start + count))

    def draw(self, target: Target, params: PyTree, key: Array, n: int, size: int) -> Iterator[Batch]:
        """As many batches as n draws take."""
        return self.batches(target, params, key, 0, math.ceil(n / size), size)

    def spent(self, params: PyTree, columns: Columns, size: int) -> tuple[int, int]:
        """Every run that was simulated costs a draw's depth; runs are side by side."""
        return columns.made * self.depth(params), self.depth(params)


class Chained(Independent):
    """P0 followed by T transitions, which can also start from given positions: what a certificate tries."""

    @abstractmethod
    def start(self, params: PyTree) -> Initial:
        """P0, from which every run starts."""

    @abstractmethod
    def transitions(self, params: PyTree) -> int:
        """T, the number of transitions."""

    @abstractmethod
    def go_on(self, density: Density, params: PyTree, position: Rows, key: Array) -> Batch:
        """The T transitions from given positions."""

    def simulate(self, density: Density, params: PyTree, key: Array, particles: int) -> Batch:
        """Independent runs: a sample of P_T."""
        start_key, chain_key = jax.random.split(key)
        return self.go_on(density, params, self.start(params).sample(start_key, particles), chain_key)

    def batches(self, target: Target, params: PyTree, key: Array, start: int, count: int, size: int) -> Iterator[Batch]:
        """The draws of `simulate` in two programs, P0's and the chain's, which a certificate then need not compile."""

        def one(index: int) -> Batch:
            args = (self.start(params), key, index)
            return self.chain(target, params, *compiled(_begin, (size,), *args)(*args))

        return spread(one, range(start, start + count))

    def chain(self, target: Target, params: PyTree, position: Rows, key: Array) -> Batch:
        """The T transitions from given positions by a compiled program, which drawing and certifying share."""
        args = (params, position, key)
        return compiled(type(self).go_on, (self, target.density), *args)(*args)


class Coupled(Chained):
    """A chain whose runs can be coupled, two and two, so that they meet; but not where draws carry weights."""

    @abstractmethod
    def together(self, target: Target, params: PyTree, pairs: Pairs, key: Array) -> Pairs:
        """Pairs of u once through the chain: either of a pair moves as if it were alone, and what met stays so."""

    @abstractmethod
    def fresh(self, target: Target, params: PyTree, rng: np.random.Generator, rows: int) -> Ensemble:
        """Fresh runs at P0, in u."""

    @abstractmethod
    def longer(self, params: PyTree, times: int) -> PyTree:
        """The chain gone through so many times."""


class Hamiltonian(Chained):
    """A chain of HMC transitions of one length, whose step sizes annealing can go along for log Z."""

    leapfrogs: int

    @abstractmethod
    def start(self, params: PyTree) -> DiagonalGaussian:
        """P0, which annealing begins with."""

    @abstractmethod
    def speeds(self, params: PyTree) -> Float[Array, "steps dim"]:
        """The step size of every transition along every coordinate, for momenta of variance 1."""


class Annealable(Chained):
    """A chain that can go through temperatures from P0 to π, after which its draws carry weights."""

    @abstractmethod
    def elsewhere(self, params: PyTree, shift: float, factor: float) -> PyTree:
        """The annealed chain from another P0: displaced by ``shift`` of its spreads, ``factor`` times as wide."""

    @abstractmethod
    def otherwise(self, params: PyTree) -> PyTree:
        """The annealed chain through other temperatures, from the same P0 and in as many."""


class Budgeted(Method):
    """A method that can be given a limit, and then returns the best that it found within it."""

    @abstractmethod
    def fit(self, target: Target, key: Array, *, progress: bool | None = None, budget: Budget | None = None) -> Sampler:
        """Tune the method to a target, within a budget."""


class Correlated(Method):
    """Chains that go on from where tuning left them: draws are correlated along each chain."""

    chains: int

    @abstractmethod
    def state(self, params: PyTree) -> PyTree:
        """Where tuning left the chains."""

    @abstractmethod
    def advance(self, density: Density, params: PyTree, state: PyTree, key: Array) -> tuple[PyTree, Batch]:
        """One transition of all chains: one draw per chain; ``stats["gradients"]`` is what each cost."""

    def kind(self, params: PyTree) -> Kind:
        """Draws of one chain follow one another."""
        return Kind.CORRELATED

    def rows(self, n: int, size: int) -> int:
        """A batch is a number of steps of all chains, however many draws are wanted."""
        return size

    def depth(self, params: PyTree) -> int:
        """Not known before the draws are made, whose ``stats["gradients"]`` say it; 1 at least."""
        return 1

    def draw(self, target: Target, params: PyTree, key: Array, n: int, size: int) -> Iterator[Batch]:
        """Draws in the order step 1 of every chain, step 2 of every chain, ..."""
        steps = math.ceil(n / self.chains)
        each = max(1, min(size // self.chains, steps))
        state = self.state(params)
        program = compiled(_advance, (target.density, self, each), params, state, key, 0)

        def going(state: PyTree) -> Iterator[Batch]:
            for index in range(math.ceil(steps / each)):
                state, batch = program(params, state, key, index)
                yield batch

        return ahead(going(state))

    def spent(self, params: PyTree, columns: Columns, size: int) -> tuple[int, int]:
        """What the draws say they cost; at every step one waits for the chain that takes longest."""
        gradients = columns.stats["gradients"].astype(np.int64)
        missing = -len(gradients) % self.chains
        deepest = np.pad(gradients, (0, missing)).reshape(-1, self.chains).max(axis=1)
        return int(gradients.sum()), int(deepest.sum())


class Bidirectional(Independent):
    """Annealed importance sampling whose chain can be run backwards, for bounds of log Z from above."""

    @abstractmethod
    def backward(self, density: Density, params: PyTree, exact: Rows, key: Array) -> Float[Array, "particles"]:
        """log w of runs from exact draws of π back to P0."""


class Familial(Chained):
    """A method that fits a whole family of posteriors at once, its members' parameters stacked along a first axis."""

    @abstractmethod
    def fit_family(self, family: Family, key: Array) -> FamilySampler:
        """Tune one schedule to all members."""

    @abstractmethod
    def axes(self, params: PyTree) -> PyTree:
        """Which branches of the parameters have an axis of members, as `jax.vmap` takes it: 0, or None if shared."""

    def member_batch(
        self, density: FamilyDensity, params: PyTree, data: PyTree, who: Array, key: Array, index: int, particles: int
    ) -> Batch:
        """Batch ``index`` of some members, who: that of member m is made from the key folded with m and with it."""
        args = (params, data, who, key, index)
        return compiled(_run_members, (density, self, particles), *args)(*args)


def _run(density: Density, method: Independent, particles: int, params: PyTree, key: Array, index: Array) -> Batch:
    return method.simulate(density, params, jax.random.fold_in(key, index), particles)


def _run_members(
    density: FamilyDensity, method: Familial, particles: int, params: PyTree, data: PyTree, who: Array, *at: Array
) -> Batch:
    """Independent runs of some members, side by side; ``at`` is a key and the batch's index."""
    key, index = at

    def one(params: PyTree, datum: PyTree, member: Array) -> Batch:
        own = jax.random.fold_in(jax.random.fold_in(key, member), index)
        return method.simulate(density.of(datum), params, own, particles)

    return jax.vmap(one, in_axes=(method.axes(params), 0, 0))(params, data, who)


def _begin(particles: int, initial: Initial, key: Array, index: Array) -> tuple[Array, Array]:
    start_key, chain_key = jax.random.split(jax.random.fold_in(key, index))
    return initial.sample(start_key, particles), chain_key


def _advance(
    density: Density, method: Correlated, steps: int, params: PyTree, state: PyTree, key: Array, index: Array
) -> tuple[PyTree, Batch]:
    keys = jax.random.split(jax.random.fold_in(key, index), steps)
    state, batch = jax.lax.scan(lambda state, key: method.advance(density, params, state, key), state, keys)
    return state, jax.tree_util.tree_map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), batch)
