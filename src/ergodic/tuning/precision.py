"""Does single precision lose what matters? log π* and its force in float32, against float64 at the same points.

A log-density is written for float32: its data are, and so may be its constants. So it is not called again, but traced
once, and its trace is gone through with every float32 a float64, in a child context: nothing global changes, and the
difference is rounding alone. A constant that is lost does not matter, so that of values the spread counts:

    value    max_k |e_k - median e|,  e_k = log π*(x_k) in float32 - in float64
    force    max_kj |∂_j in float32 - in float64| s_j,  s_j the spread of coordinate j: nats from one spread to the next

That compiles the density once more. `roughness` is what `fit` looks at first, which compiles nothing.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal
from jaxtyping import Array, Float

from ..charts import LinearChart
from ..kernels.ensemble import Ensemble
from ..runtime.errors import TargetWarning
from ..runtime.programs import compiled
from ..target import Density, Target
from .checks import Check
from .forgetting import Particles

if TYPE_CHECKING:
    from .walking import Walked
else:
    Walked = object  # walks ask here

POINTS = 16
"""Points that are compared."""
MATTERS = 0.1
"""Nats: as many change one decision in ten of whether a proposal is accepted."""
_SUSPECT = 0.03
"""Nats of roughness, from which on a fit compares."""
_STEP = 0.05
"""Spreads of the step that shows it."""
_CALLS = ("pjit", "jit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "remat", "checkpoint")
_BITS = ("bitcast_convert_type", "random_bits", "threefry2x32", "reduce_precision")


class Rounding(NamedTuple):
    """What single precision loses, in nats."""

    value: float
    force: float
    along: str
    """The coordinate whose force is off the most."""

    @property
    def matters(self) -> bool:
        """Whether a sampler notices."""
        return not max(self.value, self.force) < MATTERS  # NaN is noticed, too

    def __str__(self) -> str:
        return (
            f"rounding moves log π* by {self.value:.2g} nats, and its slope along {self.along} by {self.force:.2g} "
            "nats a spread"
        )


def rounding(target: Target, positions: np.ndarray, spread: np.ndarray) -> Rounding | None:
    """Compare at some positions ``(n, dim)``; None where the trace has something that cannot be done in float64."""
    single = compiled(_single, (target.density,), positions)(positions)
    try:
        with jax.enable_x64(True):
            wide = positions.astype(np.float64)
            double = jax.device_get(compiled(_double, (target.density,), wide, brief=True)(wide))
    except Exception:  # a primitive with a mind of its own, such as a callback
        return None
    (value, force), (exact, slope) = ((np.asarray(part, np.float64) for part in each) for each in (single, double))
    inside = np.isfinite(exact) & np.isfinite(slope).all(axis=1)
    if not inside.any():
        return None
    error = (value - exact)[inside]
    off = np.abs(force - slope)[inside] * spread
    worst = np.nan_to_num(off, nan=np.inf).max(axis=0)
    along = int(np.argmax(worst))
    return Rounding(float(np.max(np.abs(error - np.median(error)))), float(worst[along]), target.names[along])


def checked(target: Target, values: np.ndarray, positions: np.ndarray, spread: np.ndarray) -> list[Check]:
    """A check for `ergodic check`, at those of some starts where log π* is highest; none in double precision."""
    inside = np.flatnonzero(np.isfinite(values))
    if target.dtype != np.float32 or not inside.size:
        return []
    best = inside[np.argsort(-values[inside])[:POINTS]]
    found, name = rounding(target, positions[best], spread), "single precision"
    if found is None:
        return [Check(name, "warning", "cannot be compared with float64 (a callback, or bits that are looked at)")]
    if found.matters:
        return [Check(name, "warning", f"is not enough: {found}; {_LINE}")]
    return [Check(name, "passed", f"is enough: {found}")]


def warn_of_rounding(found: Walked, rng: np.random.Generator) -> None:
    """Warn a fit's user where rounding matters at the particles of its pilot."""
    target, way, (particles,) = found.way.members[0], found.way, found.particles()
    if target.dtype != np.float32:
        return

    def evaluate(moved: np.ndarray) -> Ensemble:
        return way.evaluated(moved, way.plain(len(moved)))

    if (rough := roughness(particles, found.charts[0], evaluate, rng)) < _SUSPECT:
        return
    x = way.left(particles.position, np.zeros(()))[0]
    lost = rounding(target, x[rng.permutation(len(x))[:POINTS]], x.std(axis=0, dtype=np.float64))
    if lost is None or lost.matters:
        words = lost or f"log π* is rough, by {rough:.2g} nats from one point to the next"
        warnings.warn(
            f"single precision is not enough for '{target.name}': {words}; {_LINE}", TargetWarning, stacklevel=3
        )


def roughness(
    particles: Particles, chart: LinearChart, evaluate: Callable[[np.ndarray], Ensemble], rng: np.random.Generator
) -> float:
    """By how many nats log π* changes beyond what the forces at both ends of a small step say, at one in ten or more.

    A step of a twentieth of a spread leaves the trapezoid rule an error of its third power; all else is rounding.
    """
    x = particles.position
    step = chart.push((_STEP / np.sqrt(x.shape[1]) * rng.normal(size=x.shape)).astype(x.dtype))
    moved = np.asarray(x + step)
    there = jax.device_get(evaluate(moved))
    mean_force = 0.5 * (there.gradient.astype(np.float64) + particles.gradient)
    expected = np.sum(mean_force * (moved.astype(np.float64) - x), axis=1)
    beyond = np.abs(there.logdensity.astype(np.float64) - particles.logdensity - expected)
    beyond = beyond[np.isfinite(beyond)]
    return float(np.quantile(beyond, 0.9)) if beyond.size else 0.0


_LINE = 'begin with jax.config.update("jax_enable_x64", True), and make the target after it'


def _single(density: Density, x: Float[Array, "points dim"]) -> tuple[Array, Array]:
    value, force = density.traced.over(x)
    return value, force


def _double(density: Density, x: Float[Array, "points dim"]) -> tuple[Array, Array]:
    value, force = jax.vmap(lambda row: _widened(density.traced.jaxpr, row))(x)
    return value, force


def _widened(closed: ClosedJaxpr, *args: Array) -> list[Array]:
    """What a trace does, with every floating number in double precision."""
    return _run(closed.jaxpr, closed.consts, args)


def _run(jaxpr: Jaxpr, consts: Sequence[Any], args: Sequence[Any]) -> list[Any]:
    values: dict[Any, Any] = {}

    def read(atom: Any) -> Any:
        known: Any = atom.aval
        return _wide(atom.val, known.dtype) if isinstance(atom, Literal) else values[atom]

    values |= zip(jaxpr.constvars, (_wide(const) for const in consts), strict=True)
    values |= zip(jaxpr.invars, args, strict=True)
    for equation in jaxpr.eqns:
        inputs = [read(atom) for atom in equation.invars]
        outputs = _step(equation.primitive.name, equation, inputs)
        values |= zip(equation.outvars, outputs, strict=True)
    return [read(atom) for atom in jaxpr.outvars]


def _step(name: str, equation: Any, inputs: list[Any]) -> Sequence[Any]:
    """One operation, or what is inside of it."""
    params = equation.params
    if name in _CALLS:
        inner = params.get("jaxpr", params.get("call_jaxpr"))
        return _inside(inner)(*inputs)
    if name == "scan":
        fixed, count = params["num_consts"], params["num_carry"]
        consts, carry, xs = inputs[:fixed], inputs[fixed : fixed + count], inputs[fixed + count :]
        body = _inside(params["jaxpr"])

        def one(state: list[Any], x: list[Any]) -> tuple[list[Any], list[Any]]:
            out = body(*consts, *state, *x)
            return out[:count], out[count:]

        last, stacked = jax.lax.scan(one, carry, xs, length=params["length"], reverse=params["reverse"])
        return [*last, *stacked]
    if name == "while":
        first, second = params["cond_nconsts"], params["body_nconsts"]
        test, body = _inside(params["cond_jaxpr"]), _inside(params["body_jaxpr"])
        known, consts, state = inputs[:first], inputs[first : first + second], inputs[first + second :]
        return jax.lax.while_loop(lambda s: test(*known, *s)[0], lambda s: body(*consts, *s), state)
    if name == "cond":
        return jax.lax.switch(inputs[0], [_inside(branch) for branch in params["branches"]], *inputs[1:])
    within = any(isinstance(value, ClosedJaxpr | Jaxpr) for key, value in params.items() if key != "update_jaxpr")
    if within or "callback" in name or name in _BITS:
        raise NotImplementedError(name)  # something inside that would stay in single precision
    wide = {key: np.dtype(np.float64) if _floating(value) else value for key, value in params.items()}
    if isinstance(params.get("update_jaxpr"), Jaxpr):  # how a scatter joins two numbers
        pair = (jax.ShapeDtypeStruct((), inputs[0].dtype),) * 2  # type: ignore[no-untyped-call]
        wide["update_jaxpr"] = jax.make_jaxpr(_inside(params["update_jaxpr"]))(*pair).jaxpr
    out = equation.primitive.bind(*inputs, **wide)
    return out if equation.primitive.multiple_results else [out]


def _inside(inner: ClosedJaxpr | Jaxpr) -> Callable[..., list[Any]]:
    jaxpr, consts = (inner.jaxpr, inner.consts) if isinstance(inner, ClosedJaxpr) else (inner, ())
    return lambda *args: _run(jaxpr, consts, args)


def _floating(value: object) -> bool:
    """Whether a parameter is a floating dtype."""
    return isinstance(value, np.dtype) and jnp.issubdtype(value, jnp.floating)


def _wide(value: Any, dtype: np.dtype | None = None) -> Any:
    dtype = jnp.result_type(value) if dtype is None else dtype
    return jnp.asarray(value, np.float64 if jnp.issubdtype(dtype, jnp.floating) else dtype)
