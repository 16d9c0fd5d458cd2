"""Rejection sampling with a uniform proposal on a box: how the paper drew its ground truth (section 4.1).

The box truncates: mass outside is lost, and E[log π*] comes out too high. The paper's "ground truth" for the Laplace
target (-3.31 for an exact -3.386) shows it. Tables here use `Truth`; this is kept to stand beside it.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..errors import ConfigError
from ..programs import compiled
from ..target import Density, Target

_BATCH = 1 << 16


def rejection_sample(
    target: Target, key: Array, n: int, box: tuple[tuple[float, float], ...], log_bound: float
) -> np.ndarray:
    """n independent draws of the target restricted to the box, given log_bound >= max log π* on it."""
    if len(box) != target.dim:
        raise ConfigError(f"the box has {len(box)} sides for a target of dimension {target.dim}")
    low, high = (jnp.asarray(side, target.dtype) for side in zip(*box, strict=True))
    bound = jnp.asarray(log_bound, target.dtype)
    program = compiled(_propose, (target.density, _BATCH), key, low, high, bound)
    kept: list[np.ndarray] = []
    have, batch = 0, 0
    while have < n:
        x, accepted, above = jax.device_get(program(jax.random.fold_in(key, batch), low, high, bound))
        if above > 0:
            raise ConfigError(f"log_bound={log_bound:.6g} is {above:.3g} below log π* at a point of the box; raise it")
        kept.append(x[accepted])
        have, batch = have + int(accepted.sum()), batch + 1
        if batch >= 1000 and have < batch:
            raise ConfigError(
                "rejection sampling accepts less than one in 65,536 proposals; use a tighter box or bound"
            )
    return np.concatenate(kept)[:n]


def _propose(
    density: Density, batch: int, key: Array, low: Array, high: Array, bound: Array
) -> tuple[Array, Array, Array]:
    place_key, accept_key = jax.random.split(key)
    unit = jax.random.uniform(place_key, (batch, low.shape[0]), low.dtype)
    x = low[None, :] + (high - low)[None, :] * unit
    excess = jax.vmap(density)(x) - bound
    accepted = jnp.log(jax.random.uniform(accept_key, (batch,), low.dtype)) < excess
    return x, accepted, jnp.max(excess)
