"""What NUTS, ChEES, MEADS and LAPS share: BlackJAX's algorithms behind the calls that every method here answers.

Their transitions and adaptations are BlackJAX's own; an adapter starts them, keeps what was tuned as arrays, and goes
on from where adaptation left the chains. It has

    warm_up(density, initial, key) -> (params, AdaptationRow)                 adaptation, a pure function
    advance(density, params, state, key) -> (state, Batch)          one transition of all chains

BlackJAX is imported when it is first used, by `blackjax` below.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from ..initial import DiagonalGaussian
from ..protocols import Correlated, FixedShapes
from ..runtime.drawing import Batch
from ..runtime.errors import ConfigError
from ..runtime.extras import require
from ..runtime.programs import Stopwatch, compiled
from ..runtime.validation import finite_float
from ..sampler import Sampler
from ..target import Density, Target
from ..tuning.checks import require_usable
from .from_gaussian import FromGaussian

_SINGLE, _DOUBLE = np.dtype(np.float32), np.dtype(np.float64)


class AdaptationRow(NamedTuple):
    """What is kept of every adaptation step."""

    acceptance: Float[Array, "steps"]
    """Average over the chains; NaN for a step without a Metropolis decision."""
    step_size: Float[Array, "steps"]
    """Average over the chains."""
    gradients: Int[Array, "steps"]
    """Over all chains; 0 for a step that was not made."""
    depth: Int[Array, "steps"]
    """Of the chain that took the most."""


class Adapted(FromGaussian, FixedShapes, Correlated):
    """A BlackJAX algorithm: chains adapt in one compiled program, then go on."""

    def fit(self, target: Target, key: Array, *, progress: bool | None = None) -> Sampler:
        """Adapt the chains. It is one compiled program, so there is no progress to show."""
        return adapt(self, target, key)

    def state(self, params: PyTree) -> PyTree:
        """Where adaptation left the chains: every adapter keeps BlackJAX's state as ``params.state``."""
        return params.state

    @abstractmethod
    def warm_up(self, density: Density, initial: DiagonalGaussian, key: Array) -> tuple[PyTree, AdaptationRow]:
        """The adaptation as a pure function: what it leaves behind, and a row per step."""


@contextmanager
def lenient(dtype: np.dtype = _SINGLE) -> Iterator[None]:
    """Trace BlackJAX as it expects: it mixes dtypes and ranks, and makes arrays of JAX's default precision.

    So whatever the user's settings of JAX are, mixing is allowed and the default precision is that of the target.
    """
    with (
        jax.numpy_dtype_promotion("standard"),
        jax.numpy_rank_promotion("allow"),
        jax.enable_x64(dtype == _DOUBLE),
    ):
        yield


def blackjax() -> Any:
    """The BlackJAX package, imported when first asked for.

    Its import makes an array. At the top of a file that would start a backend when `ergodic` is imported, and while
    something is traced the array would be a tracer, which breaks every later use: hence the evaluation here and now.
    """
    with jax.ensure_compile_time_eval(), lenient():
        require("blackjax.adaptation.laps", "peers", "this method")
        return require("blackjax", "peers", "this method")


def adapt(method: Adapted, target: Target, key: Array) -> Sampler:
    """Run a method's adaptation as one compiled program; what it cost is counted from what it reports."""
    clock = Stopwatch()
    if target.dtype not in (_SINGLE, _DOUBLE):
        raise ConfigError(f"{method.name} needs a target of float32 or float64, not {target.dtype}")
    check_key, warm_key = jax.random.split(key)
    initial = method.initial(target)
    require_usable(target, check_key, initial)
    program = compiled(_warm_up, (target.density, method), initial, warm_key)
    params, row = jax.device_get(program(initial, warm_key))
    params = jax.tree_util.tree_map(jnp.asarray, params)  # as a file gives them back: no weak types, no sharding
    made = row.gradients > 0
    kept = {"acceptance": row.acceptance, "step_size": row.step_size, "gradients": row.gradients}
    record = {name: column[made] for name, column in kept.items()}
    gradients, depth = (int(column.sum(dtype=np.int64)) for column in (row.gradients, row.depth))
    return Sampler(target, method, params, record, clock.cost(gradients + method.chains, depth + 1))


def hamiltonian_batch(before: Any, after: Any, info: Any, inverse_mass: Float[Array, "*chains dim"]) -> Batch:
    """A transition's draws and statistics from BlackJAX's states and `HMCInfo` or `NUTSInfo`.

    The energy error is H of the state that was proposed (HMC) or chosen (NUTS) less H at the start, where
    H = -log π* + ½ Σ M⁻¹ p². BlackJAX gives the first and the momentum of the second.
    """
    kinetic = 0.5 * jnp.sum(inverse_mass * info.momentum**2, axis=-1)
    error = info.energy - (kinetic - before.logdensity)
    stats = {
        "acceptance_rate": info.acceptance_rate,
        "diverging": info.is_divergent,
        "energy_error": jnp.where(jnp.isnan(error), jnp.inf, error),
        "gradients": info.num_integration_steps.astype(jnp.int32),
    }
    return Batch(after.position, after.logdensity, stats, {})


def fraction(value: object, what: str) -> float:
    """A number strictly between 0 and 1."""
    number = finite_float(value, what)
    if not 0 < number < 1:
        raise ConfigError(f"{what} must be between 0 and 1, not {value}")
    return number


def _warm_up(density: Density, method: Adapted, initial: DiagonalGaussian, key: Array) -> tuple[PyTree, AdaptationRow]:
    with lenient(initial.mean.dtype):
        return method.warm_up(density, initial, key)
