"""Is this log-density usable? Named checks, each passed, warned about or failed with its cause.

`fit` stops at the first failure; `ergodic check` shows them all. What needs no numbers (a scalar, real, of the declared
dtype, for a ``like`` that fits) is checked when the `Target` is made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..initial import DiagonalGaussian
from ..protocols import Initial
from ..runtime.errors import TargetError
from ..runtime.programs import compiled
from ..target import Density, Target

_STARTS = 100
_OVERFLOW = 0.05
"""The share of starts whose gradient may be too large for a float: far out that happens before the value is."""
_AT_ONCE = 64
"""Points at which the user's function is asked at once, so that one program serves all."""
_LOST = 0.1
"""The share of starts without a finite log π* that is nothing unusual."""
_STEP = 0.25
"""Nats that rounding may take."""


class Check(NamedTuple):
    """One check: its name, ``"passed"``, ``"warning"`` or ``"failed"``, and what was seen."""

    name: str
    status: str
    message: str


def check_target(target: Target, key: Array, initial: Initial | None = None) -> list[Check]:
    """Evaluate log π* and its gradient at 100 draws of P0 (standard normal when not given) and judge them."""
    zeros = jnp.zeros(target.dim, target.dtype)
    initial = DiagonalGaussian(zeros, zeros) if initial is None else initial
    program = compiled(_evaluate, (target.density,), initial, key)
    return judged(target, *jax.device_get(program(initial, key)))


def judged(target: Target, values: np.ndarray, gradients: np.ndarray) -> list[Check]:
    """Judge log π* and its gradient as they were evaluated at some starts."""
    return [
        Check(
            "structure",
            "passed",
            f"a scalar {target.dtype} function of ({target.layout}), dimension {target.dim}",
        ),
        _finite_values(values),
        _finite_gradients(values, gradients, target.names),
        _depends(values, gradients, target.names),
        *_unresolved(values, gradients),
    ]


def look(target: Target, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """log π* and its gradient as the user's function gives them, where one of the two is not finite.

    Ensembles have -inf, and no force, there; this has NaN, +inf and -inf apart. Where log π* is not finite the gradient
    is 0, not asked for: its program takes longer to compile, and hardly ever is needed.
    """
    values = _asked(target, positions, _values).ravel()
    gradients = np.zeros(positions.shape, positions.dtype)
    inside = np.isfinite(values)
    if inside.any():
        gradients[inside] = _asked(target, positions[inside], _gradients)
    return values, gradients


def _asked(target: Target, positions: np.ndarray, what: Callable[[Density, Array], Array]) -> np.ndarray:
    plain, found = target.density.work.plain, list[np.ndarray]()
    for at in range(0, len(positions), _AT_ONCE):
        some = positions[at : at + _AT_ONCE]
        x = jnp.asarray(np.resize(some, (_AT_ONCE, target.dim)))
        found.append(np.asarray(compiled(what, (target.density,), x, brief=True, plain=plain)(x))[: len(some)])
    return np.concatenate(found)


def require_started(target: Target, positions: np.ndarray, values: np.ndarray, gradients: np.ndarray) -> None:
    """Raise a `TargetError` where an ensemble's log-density is not usable at its starts.

    Where many are lost the user's function is asked: are they outside of the support, or is it NaN, +inf, or a force?
    """
    values, gradients = values.copy(), gradients.copy()
    lost = np.flatnonzero(~np.isfinite(values))
    if len(lost) > _LOST * len(values):
        values[lost], gradients[lost] = look(target, positions[lost])
    insist(target, judged(target, values, gradients))


def require_usable(target: Target, key: Array, initial: Initial) -> None:
    """Raise a `TargetError` with the first failed check's message."""
    insist(target, check_target(target, key, initial))


def insist(target: Target, checks: list[Check]) -> None:
    """Raise a `TargetError` with the first failed check's message."""
    for check in checks:
        if check.status == "failed":
            raise TargetError(f"'{target.name}' {check.message}")


def _values(density: Density, positions: Array) -> Array:
    return jax.vmap(density)(positions)


def _gradients(density: Density, positions: Array) -> Array:
    return density.batched(positions)[1]


def _evaluate(density: Density, initial: Initial, key: Array) -> tuple[Array, Array]:
    return density.batched(initial.sample(key, _STARTS))


def _finite_values(values: np.ndarray) -> Check:
    name, n = "finite values", len(values)
    nan, low, high = np.isnan(values), np.isneginf(values), np.isposinf(values)
    if high.any():
        return Check(
            name,
            "failed",
            f"has log-density +inf at {high.sum()} of {n} starts: the density is unbounded there",
        )
    if nan.all():
        return Check(
            name,
            "failed",
            f"has log-density NaN at every one of {n} starts: look for log or sqrt of a negative",
        )
    if low.all():
        return Check(
            name,
            "failed",
            f"has log-density -inf at every one of {n} starts: P0 lies outside its support; move or narrow P0 "
            "(initial_mean, initial_scale), or map the support to the reals",
        )
    bad = nan | low
    if bad.all():
        return Check(
            name,
            "failed",
            f"has no finite log-density at any of {n} starts ({nan.sum()} NaN, {low.sum()} -inf)",
        )
    if bad.any():
        return Check(name, "warning", f"is not finite at {bad.sum()} of {n} starts ({nan.sum()} NaN, {low.sum()} -inf)")
    return Check(name, "passed", f"finite at all of {n} starts, from {values.min():.4g} to {values.max():.4g}")


def _finite_gradients(values: np.ndarray, gradients: np.ndarray, names: tuple[str, ...]) -> Check:
    name = "finite gradients"
    inside = np.isfinite(values)
    if not inside.any():
        return Check(name, "failed", "has no finite value at which to look at the gradient")
    bad = ~np.isfinite(gradients[inside])
    if bad.any():
        where, rows = names[int(bad.sum(axis=0).argmax())], bad.any(axis=1)
        return Check(
            name,
            "failed" if rows.sum() > _OVERFLOW * len(values) else "warning",
            f"has NaN or infinite gradients at {rows.sum()} of {inside.sum()} starts with a finite value "
            f"(most often along '{where}'): look for sqrt(0), 0 * inf, or a jnp.where whose unused branch is invalid",
        )
    return Check(name, "passed", f"finite wherever the value is, at most {np.abs(gradients[inside]).max():.4g}")


def _depends(values: np.ndarray, gradients: np.ndarray, names: tuple[str, ...]) -> Check:
    name = "depends on the position"
    inside = np.isfinite(values)
    flat = np.all(gradients[inside] == 0, axis=0)
    if flat.all() and len(np.unique(values[inside])) <= 1 and inside.all():
        return Check(
            name,
            "failed",
            "depends on nothing: the same value and a zero gradient at every start (a density that is constant within "
            "bounds has to be mapped to the reals)",
        )
    if flat.any():
        which = ", ".join(f"'{names[i]}'" for i in np.flatnonzero(flat)[:5])
        return Check(name, "warning", f"has a zero gradient along {which} at every start: is it improper there?")
    return Check(name, "passed", "every coordinate has a gradient")


def _unresolved(values: np.ndarray, gradients: np.ndarray) -> list[Check]:
    """A failed check where differences of log π* between starts are smaller than its rounding."""
    inside = np.isfinite(values)
    size = np.abs(values[inside]).max(initial=0)
    step = float(np.spacing(size))
    lost = step > _STEP and inside.sum() > 1 and np.ptp(values[inside]) <= 2 * step
    if not lost or not np.any(gradients[inside] != 0):
        return []
    words = (
        f"is about {size:.3g} at every start, where {values.dtype} has steps of {step:.2g}: its differences are lost "
        "in rounding; subtract a constant from it, or use float64"
    )
    return [Check("resolution", "failed", words)]
