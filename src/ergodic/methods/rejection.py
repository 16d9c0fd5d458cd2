"""Rejection sampling on a box, as the paper drew its ground truth (section 4.1).

Uniform proposals on a box, accepted with probability π*(x)/bound: exact independent draws of the target *cut to the
box*. What lies outside is lost; the paper's "ground truth" of -E[log π*] is low for it (Laplace: 3.31 for 3.386).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from ..protocols import FixedShapes
from ..runtime.drawing import Batch, Columns, Kind
from ..runtime.errors import ConfigError
from ..runtime.programs import Stopwatch, compiled
from ..runtime.validation import Rule, finite_float, numbers, optional
from ..sampler import Sampler
from ..target import Density, Target

_SEARCH = 1 << 17
_GIVE_UP = 2000


class RejectionParams(NamedTuple):
    """The box and the bound."""

    low: Float[Array, "dim"]
    high: Float[Array, "dim"]
    log_bound: Float[Array, ""]


@dataclass(frozen=True)
class Rejection(FixedShapes):
    """Settings of rejection sampling.

    Attributes:
      low, high: the box's corners; one number, or one per flat coordinate.
      log_bound: at or above max log π* on the box. None: the largest of many random points, climbed a little further.
      proposals: how many are made at a time.
    """

    low: float | tuple[float, ...] = -10.0
    high: float | tuple[float, ...] = 10.0
    log_bound: float | None = None
    proposals: int = 1 << 16

    name: ClassVar[str] = "Rejection"
    title: ClassVar[str] = "rejection sampling on a box"
    rules: ClassVar[Mapping[str, Rule]] = {
        "low": numbers(finite_float),
        "high": numbers(finite_float),
        "log_bound": optional(finite_float),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if np.any(np.asarray(self.low) >= np.asarray(self.high)):
            raise ConfigError(f"low must be below high in every coordinate, not {self.low} and {self.high}")

    def kind(self, params: RejectionParams) -> Kind:
        """Every draw was proposed on its own."""
        return Kind.INDEPENDENT

    def begin(self, target: Target, key: Array) -> RejectionParams:
        """The box; the bound as given, or -inf until `fit` finds one."""
        corners: list[Array] = []
        for what, value in (("low", self.low), ("high", self.high)):
            if np.ndim(value) == 1 and np.size(value) != target.dim:
                raise ConfigError(f"{what} has {np.size(value)} values for a target of dimension {target.dim}")
            corners.append(jnp.broadcast_to(jnp.asarray(value, target.dtype), (target.dim,)))
        bound = -np.inf if self.log_bound is None else self.log_bound
        return RejectionParams(corners[0], corners[1], jnp.asarray(bound, target.dtype))

    def fit(self, target: Target, key: Array, *, progress: bool | None = None) -> Sampler:
        """Find the bound where it is not given."""
        clock = Stopwatch()
        params = self.begin(target, key)
        spent = 0
        if self.log_bound is None:
            bound = compiled(_highest, (target.density,), params, key)(params, key)
            if not np.isfinite(bound):
                raise ConfigError(
                    f"log π* of '{target.name}' is not finite on the box; give a smaller box or log_bound"
                )
            params, spent = params._replace(log_bound=bound), _SEARCH
        return Sampler(target, self, params, {}, clock.cost(spent, 1))

    def chunk(self, dim: int, params: PyTree) -> int:
        """Proposals that are made at a time."""
        return self.proposals

    def rows(self, n: int, size: int) -> int:
        """A batch is of so many proposals, however many draws are wanted."""
        return size

    def depth(self, params: RejectionParams) -> int:
        """One evaluation per proposal."""
        return 1

    def draw(self, target: Target, params: RejectionParams, key: Array, n: int, size: int) -> Iterator[Batch]:
        """What was accepted of every batch of proposals, until there are n draws."""
        program = compiled(_propose, (target.density, size), params, key, 0)
        have = 0
        for batch in range(sys.maxsize):
            if have >= n:
                return
            x, logdensity, accepted = jax.device_get(program(params, key, batch))
            above = float(logdensity.max()) - float(params.log_bound)
            if above > 0:
                raise ConfigError(
                    f"log_bound={float(params.log_bound):.6g} is {above:.3g} below log π* in the box; raise it"
                )
            have += int(accepted.sum())
            if batch + 1 >= _GIVE_UP and have < batch + 1:
                raise ConfigError(f"fewer than one in {size:,} proposals is accepted; use a tighter box or bound")
            yield Batch(x[accepted], logdensity[accepted], {}, {})

    def spent(self, params: RejectionParams, columns: Columns, size: int) -> tuple[int, int]:
        """Every proposal costs an evaluation; batches follow one another."""
        return columns.batches * size, columns.batches


def _uniform(params: RejectionParams, key: Array, n: int) -> Float[Array, "n dim"]:
    unit = jax.random.uniform(key, (n, params.low.shape[0]), params.low.dtype)
    return params.low[None, :] + (params.high - params.low)[None, :] * unit


def _propose(
    density: Density, size: int, params: RejectionParams, key: Array, batch: PyTree
) -> tuple[Array, Array, Array]:
    place_key, accept_key = jax.random.split(jax.random.fold_in(key, batch))
    x = _uniform(params, place_key, size)
    logdensity = jax.vmap(density)(x)
    u = jax.random.uniform(accept_key, (size,), x.dtype)
    return x, logdensity, jnp.log(u) < logdensity - params.log_bound


def _highest(density: Density, params: RejectionParams, key: Array) -> Float[Array, ""]:
    """The largest log π* of random points of the box, the best of them climbed by small steps, and a margin."""
    x = _uniform(params, key, _SEARCH)
    values = jax.vmap(density)(x)
    best = x[jnp.argsort(jnp.where(jnp.isnan(values), -jnp.inf, values))[-64:]]

    def climb(x: Array, _: None) -> tuple[Array, Array]:
        value, force = density.batched(x)
        length = jnp.sqrt(jnp.sum(force**2, axis=-1, keepdims=True)) + 1e-12
        step = 1e-3 * (params.high - params.low)[None, :] * force / length
        return jnp.clip(x + step, params.low[None, :], params.high[None, :]), jnp.nanmax(value)

    _, tops = jax.lax.scan(climb, best, length=100)
    return jnp.maximum(jnp.nanmax(values), jnp.nanmax(tops)) + 1e-2
