"""What a method fitted: arrays and configuration, ready to draw and to be saved. No closures, no pickles."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from typing import Any, Literal, Protocol, overload, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import get_opaque_trace_state
from jaxtyping import Array, PyTree

from ._version import __version__
from .certificate import Certificate, Witness
from .charts.coordinates import Coordinates
from .charts.telling import ToldChart
from .draws import Draws, WeightedDraws, stated
from .protocols import Correlated, Fact, Independent, Method
from .runtime import html
from .runtime.budget import Budget
from .runtime.drawing import Columns, Kind, filled, using
from .runtime.errors import ConfigError, DrawsWarning
from .runtime.files import named_leaves
from .runtime.ports import Port
from .runtime.programs import Cost, Stopwatch
from .runtime.resampling import Blocks
from .runtime.sampler_files import write
from .runtime.validation import positive_float, positive_int
from .simulation import PriorPredictive, prior_predictive
from .target import Target


@runtime_checkable
class Certifies(Protocol):
    """What `Sampler.certify` delegates to."""

    def __call__(
        self,
        sampler: Sampler,
        key: Array,
        *,
        draws: int | None,
        level: float,
        evidence: bool,
        budget: float | Budget | None,
        distance: float | None,
    ) -> Certificate:
        """Evidence on fresh draws of a sampler."""
        ...


Devices = int | Sequence[jax.Device] | None
"""How many of this process's devices, or which."""
_KEPT = 1 << 16
"""Certified draws that a file keeps, at most."""
_TOLD = 1024
_OUTSIDE = get_opaque_trace_state(convention="flax")  # type: ignore[no-untyped-call]
"""What JAX says where nothing is being traced."""

certifying: Port[Certifies] = Port("Sampler.certify")
plotting: Port[Callable[[Sampler], Any]] = Port("Sampler.plot")
"""A sampler to a Matplotlib figure."""


@dataclass(eq=False)
class Sampler:
    """A fitted method: ``sample(key, n)`` gives n draws.

    Attributes:
      target: what it samples.
      method: the frozen configuration that made it.
      params: what was tuned, as a pytree of arrays.
      record: the training record, one row per iteration.
      cost: what tuning cost.
      source: where the command line found the target: ``{"builtin": name}`` or ``{"file": ..., "object": ...}``.
      certificate: what `certify` found last, or None.
      extra: further arrays that go into the file with it, by name.
      draws: those that were certified, ready to use; None before.
      gathered: what `certify` has seen so far, which it goes on from; not in the file.
    """

    target: Target
    method: Method
    params: PyTree
    record: dict[str, np.ndarray] = field(default_factory=dict)
    cost: Cost = field(default_factory=Cost)
    source: dict[str, Any] = field(default_factory=dict)
    certificate: Certificate | None = None
    extra: Mapping[str, np.ndarray] = field(default_factory=dict)
    draws: Draws | None = None
    gathered: object = None

    @property
    def chart(self) -> ToldChart:
        """The coordinates that were learned; ``chart.summary()`` says in words what drives what."""
        inside = self.method.coordinates(self.params) or Coordinates()
        some = np.zeros((0, self.target.dim)) if self.draws is None else self.draws.unconstrained[:_TOLD]
        return ToldChart(inside, self.target.names, some, self._force)

    def _force(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(self.target.density.batched(jnp.asarray(x))[1])

    @overload
    def sample(
        self,
        key: Array,
        n: int,
        *,
        weighted: Literal[True],
        chunk: int | None = None,
        devices: Devices = None,
        progress: bool | None = None,
    ) -> WeightedDraws: ...
    @overload
    def sample(
        self,
        key: Array,
        n: int,
        *,
        weighted: bool = False,
        chunk: int | None = None,
        devices: Devices = None,
        progress: bool | None = None,
    ) -> Draws: ...
    def sample(
        self,
        key: Array,
        n: int,
        *,
        weighted: bool = False,
        chunk: int | None = None,
        devices: Devices = None,
        progress: bool | None = None,
    ) -> Draws:
        """Draw n times; all draws count the same.

        Memory beside the output does not grow with n: ``chunk`` draws are made at a time, and whole chunks where one is
        given. Then draw i depends on the key, on i and on ``chunk`` alone, bit for bit, so asking for more draws does
        not change the first ones. Where it is left out it is the method's own, of as many particles as `GEI` was tuned
        on. Other methods make no more than n draws: of fewer than a chunk, 2,048 at most, each is as good, but they are
        not the first of more (rounding differs, and with it now and then a decision to accept).

        Where runs carry weights (an annealed chain, HAIS, Pathfinder) more runs are made than draws, a chunk or more,
        and n draws are chosen from them, so that hardly any comes twice (`runtime/resampling.py`). Then they depend on
        n too, `Draws.effective_size` is what they are worth, and their cost is that of all runs. ``weighted=True``
        gives n runs with their weights instead, whose positions cannot be averaged by mistake.

        Chunk i is made on device i modulo their number, and is what one device of that kind makes. ``devices`` are so
        many of this process's, or a list of them; None: all, but of CPUs one, which has all cores as it is.
        """
        with using(devices):
            return self._sampled(key, n, weighted, chunk, progress)

    def _sampled(self, key: Array, n: int, weighted: bool, chunk: int | None, progress: bool | None) -> Draws:
        n, key, method = positive_int(n, "n, the number of draws"), require_key(key), self.method
        clock, kind = Stopwatch(), self.drawn(weighted)
        size = method.chunk(self.target.dim, self.params) if chunk is None else positive_int(chunk, "chunk")
        if kind is Kind.RESAMPLED and isinstance(method, Independent):
            columns = self._resampled(method, key, n, size, progress)
        else:
            size = method.rows(n, size) if chunk is None else size
            columns = filled(method.draw(self.target, self.params, key, n, size), n, size=size, progress=progress)
        warn_of_lost(columns.logdensity)
        draws = (WeightedDraws if kind is Kind.WEIGHTED else Draws)(
            self.target,
            columns.position,
            columns.logdensity,
            columns.stats,
            columns.trace,
            clock.cost(*method.spent(self.params, columns, size)),
            self.attributes(key, kind),
            kind,
            method.chains if isinstance(method, Correlated) else 1,
        )
        return stated(draws) if kind is Kind.RESAMPLED else draws

    def _resampled(self, method: Independent, key: Array, n: int, size: int, progress: bool | None) -> Columns:
        """n draws out of weighted runs, of which the first chunk says how many it takes."""
        (first,) = method.batches(self.target, self.params, key, 0, 1, size)
        blocks = Blocks.of(first, n)
        more = math.ceil(n / blocks.draws) * blocks.chunks - 1
        runs = chain([first], method.batches(self.target, self.params, key, 1, more, size))
        columns = filled(blocks.batches(runs, key), n, size=size, progress=progress)
        return columns._replace(made=columns.batches * blocks.runs)

    @property
    def kind(self) -> Kind:
        """What its runs are to one another."""
        return self.method.kind(self.params)

    def drawn(self, weighted: bool) -> Kind:
        """What draws are to one another: weighted ones are resampled, unless they are asked for with their weights."""
        if weighted and self.kind is not Kind.WEIGHTED:
            raise ConfigError(f"{self.method.name} has no weights here, its draws are {self.kind}: leave out weighted")
        return Kind.RESAMPLED if self.kind is Kind.WEIGHTED and not weighted else self.kind

    @property
    def depth(self) -> int:
        """Gradients that one draw costs, one after the other."""
        return self.method.depth(self.params)

    def attributes(self, key: Array, kind: Kind | None = None) -> dict[str, Fact]:
        """Plain facts about draws made with this key: the method and its settings, seed, versions."""
        kind = self.kind if kind is None else kind
        words = np.asarray(key if key.dtype == jnp.uint32 else jax.random.key_data(key)).ravel()
        seed = sum(int(word) << (32 * place) for place, word in enumerate(reversed(words)))
        marked: dict[str, Fact] = {f"{kind}_draws": True} if kind in (Kind.WEIGHTED, Kind.RESAMPLED) else {}
        certificate = "none" if self.certificate is None else self.certificate.verdict
        return {
            "method": self.method.name,
            "independent_draws": kind is Kind.INDEPENDENT,
            **marked,
            **self.method.facts(self.params),
            "target": self.target.name,
            "seed": str(seed),
            "ergodic_version": __version__,
            "jax_version": jax.__version__,
            "certificate": certificate,
        }

    def certify(
        self,
        key: Array,
        *,
        draws: int | None = None,
        level: float = 0.02,
        evidence: bool = False,
        budget: float | Budget | None = None,
        distance: float | None = None,
        devices: Devices = None,
    ) -> Certificate:
        """Look for evidence against the sampler on fresh draws, and keep what was found as `certificate`.

        Few draws are looked at first, then twice as many, and so on, until something fails or ``draws`` have been
        looked at. A further call, with another key, adds to what there is. The draws are kept as `draws`.

        Args:
          key: use one that no other draws were made with.
          draws: how many fresh draws to look at. None: up to 10,240, as far as the budget goes.
          level: the probability, at most, that a sound sampler is failed.
          evidence: also estimate log Z and the target's entropy, by annealing along the tuned chain.
          budget: seconds that it may take. None: half as long as tuning and compiling took, or one; without
            limit, where ``draws`` are given.
          distance: a total variation that the draws shall be within; as many pairs of chains are followed as can tell.
          devices: on which draws are made, as in `sample`.
        """
        if budget is not None and not isinstance(budget, Budget):
            budget = positive_float(budget, "budget, in seconds,")
        if distance is not None and not 0 < distance < 1:
            raise ConfigError(f"distance is a total variation between 0 and 1, not {distance!r}")
        with using(devices):
            found = certifying.verb(
                self, require_key(key), draws=draws, level=level, evidence=evidence, budget=budget, distance=distance
            )
        self.certificate = found
        return found

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the sampler to one file, atomically; `ergodic.load` reads it back."""
        save(self, path)

    def prior_predictive(self, key: Array, n: int = 1_000) -> PriorPredictive:
        """What the model says before it has seen data: n draws of the prior, and data simulated from each.

        ``draws.to_arviz()`` has the same for the posterior.
        """
        return prior_predictive(self.target, require_key(key), positive_int(n, "n, the number of draws"))

    def plot(self) -> Any:
        """A Matplotlib figure of the certified draws: along the chain, what drives what, and marginals."""
        return plotting.verb(self)

    def _repr_html_(self) -> str:
        curve = {} if self.draws is None else self.draws.trace
        drivers = [self.target.names[j] for j in self.chart.coordinates.drivers()]
        verdict = "not certified" if self.certificate is None else self.certificate.verdict
        known = {
            "method": self.method.title,
            "certificate": html.badge(verdict),
            "gradients of a draw, one after the other": f"{self.depth:,}",
            "gradients of tuning": f"{self.cost.gradients:,}",
            "seconds": f"{self.cost.run_seconds:.2f} (+ {self.cost.compile_seconds:.1f} of compiling)",
            "chart": f"{', '.join(drivers[:5])} drive others" if drivers else "the target's own coordinates",
        }
        line = html.sparkline(curve.get("expected_logdensity", ()), "E[log π*] along the chain")
        return html.panel(f"Sampler of '{self.target.name}', dim {self.target.dim}", html.facts(known), line)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"gathered": None}  # it holds compiled programs: another process gathers anew

    def __repr__(self) -> str:
        return (
            f"Sampler({self.method.name} on '{self.target.name}', dim={self.target.dim}, "
            f"tuned in {self.cost.run_seconds:.2f} s + {self.cost.compile_seconds:.2f} s compile)"
        )


def warn_of_lost(logdensity: np.ndarray) -> None:
    """Warn whoever asked for draws of those that lie where log π* is not finite."""
    lost = int(np.sum(~np.isfinite(logdensity)))
    if lost:
        warnings.warn(
            f"{lost:,} of {logdensity.size:,} draws lie where log π* is not finite; leave them out, or narrow P0",
            DrawsWarning,
            stacklevel=3,
        )


def require_key(key: object) -> Array:
    """A JAX random key, or an error that says how to make one; or that this is no place to fit or draw."""
    if get_opaque_trace_state(convention="flax") != _OUTSIDE:  # type: ignore[no-untyped-call]
        raise ConfigError(
            "fit, sample and certify run programs of their own, and cannot be inside of jax.jit, jax.vmap or jax.grad: "
            "call them outside; many posteriors at once are eg.fit_many(targets, key)"
        )
    if isinstance(key, jax.Array) and (jnp.issubdtype(key.dtype, jax.dtypes.prng_key) or key.dtype == jnp.uint32):
        return key
    raise ConfigError(f"key must be a JAX random key such as jax.random.key(0), not {key!r}")


def save(sampler: Sampler, path: str | os.PathLike[str], *, members: int | None = None) -> None:
    """Write a sampler to ``path``; with ``members``, one whose parameters are a family's."""
    arrays = {f"params/{name}": np.asarray(leaf) for name, leaf in named_leaves(sampler.params)}
    arrays |= {f"record/{name}": np.asarray(column) for name, column in sampler.record.items()}
    arrays |= {f"extra/{name}": np.asarray(array) for name, array in sampler.extra.items()}
    if sampler.draws is not None:
        arrays |= {f"draws/{name}": column[:_KEPT] for name, column in columns_of(sampler.draws).items()}
    if sampler.certificate is not None:
        draws = None if sampler.draws is None else sampler.draws.unconstrained
        arrays |= {f"about/{name}": leaf for name, leaf in Witness.of(sampler.target, draws)._asdict().items()}
    header = {
        "method": sampler.method.name,
        "config": sampler.method.settings(),
        "target": describe(sampler.target),
        "source": sampler.source,
        "cost": asdict(sampler.cost),
        "certificate": None if sampler.certificate is None else sampler.certificate.to_dict(),
        **({} if members is None else {"members": members}),
    }
    write(path, header, arrays)


def columns_of(draws: Draws) -> dict[str, np.ndarray]:
    """Draws as named columns, for a file."""
    stats = {f"stats/{name}": column for name, column in draws.stats.items()}
    return {"position": draws.unconstrained, "logdensity": draws.logdensity, **stats}


def describe(target: Target) -> dict[str, Any]:
    """What a file says of its target: name, dimension, dtype, and the shape of every leaf."""
    layout = target.layout
    leaves = {path: list(shape) for path, shape in zip(layout.paths, layout.shapes, strict=True)}
    return {"name": target.name, "dim": target.dim, "dtype": str(target.dtype), "leaves": leaves}
