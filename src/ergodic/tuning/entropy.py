"""The entropy constraint H(P0) > h (equation 5): without it a P0 narrower than the target is rewarded for staying so.

Two ways to keep it, both started from a P0 that satisfies it:

- ``"keep"``, the paper's: an update that would take H(P0) below h leaves φ0 as it is (section 3.2).
- ``"project"``: the update is made, then the scales are multiplied by one number so that H(P0) = h. The mean goes on
  moving where the paper's rule stands still.

The paper wants h at H(π), which it does not know; ``"auto"`` takes an estimate, and stays above it by a margin: as
much as makes P0 as wide as π in every direction (docs/equations.md), but at most 1.5 nats (docs/entropy-floor.md).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..initial import DiagonalGaussian
from ..runtime.errors import ConfigError
from ..runtime.validation import finite_float

CONSTRAINTS = ("keep", "project")
MARGIN = 1.5
"""Nats above the estimate of H(π), at most; chosen by `ergodic reproduce floor`."""
_ROUNDING = 1e-5


def check_floor(value: object, what: str) -> float | str | None:
    """The setting if it is a finite number, ``"initial"``, ``"auto"`` or None; otherwise an error naming ``what``."""
    if value is None or (isinstance(value, str) and value in ("initial", "auto")):
        return value
    if isinstance(value, str):
        raise ConfigError(f'{what} must be a number, "initial", "auto" or None, not {value!r}')
    return finite_float(value, what)


def resolve_floor(floor: float | str | None, initial: DiagonalGaussian) -> float:
    """h in nats: a number as it is, ``"initial"`` for the entropy P0 starts with, None for no constraint (-inf)."""
    begin = float(initial.entropy())
    if floor is None:
        return -float("inf")
    if floor == "initial":
        return begin
    floor = finite_float(floor, "entropy_floor")
    if begin < floor - _ROUNDING * max(1.0, abs(floor)):
        raise ConfigError(
            f"entropy_floor={floor:.6g} is above the entropy that P0 starts with ({begin:.6g}), so the constraint "
            "H(P0) > h fails before the first step; widen initial_scale or lower the floor"
        )
    return floor


def automatic_floor(
    initial: DiagonalGaussian, entropy: float, positions: np.ndarray, weights: np.ndarray, margin: float = MARGIN
) -> float:
    """h = Ĥ + min(margin, what covers π), from an estimate Ĥ of H(π) and weighted draws ``(n, dim)``, ``(n,)`` of π.

    With S the draws' covariance in units of P0's scales, P0 covers π when multiplied by √λ_max(S), which brings its
    entropy to H(P0) + d/2 log λ_max(S).
    """
    scale = np.exp(np.asarray(initial.log_scale, np.float64))
    centred = (positions - weights @ positions) / scale[None, :]
    widest = float(np.linalg.svd(np.sqrt(weights)[:, None] * centred, compute_uv=False)[0])
    covering = float(initial.entropy()) + len(scale) * np.log(widest)
    return entropy + float(np.clip(covering - entropy, 0, margin))


def widen(initial: DiagonalGaussian, floor: float) -> DiagonalGaussian:
    """P0 with all scales multiplied by one number, where that takes it up to the floor."""
    missing = max(0.0, floor - float(initial.entropy()))
    return DiagonalGaussian(initial.mean, initial.log_scale + missing / initial.mean.shape[0])


def constrain(
    rule: str, current: DiagonalGaussian, updated: DiagonalGaussian, floor: Float[Array, ""]
) -> DiagonalGaussian:
    """P0 after an update, with H(P0) >= h kept by the rule ``"keep"`` or ``"project"``."""
    missing = floor - updated.entropy()
    if rule == "project":
        return DiagonalGaussian(updated.mean, updated.log_scale + jnp.maximum(missing, 0) / updated.mean.shape[0])
    allowed = missing <= _ROUNDING * jnp.maximum(1.0, jnp.abs(floor))
    return jax.tree_util.tree_map(lambda new, old: jnp.where(allowed, new, old), updated, current)
