"""Adam on an objective of chain parameters: the training loop, its record, its progress bar, its interruption."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array

from ..chain import ChainParams
from ..programs import compiled
from ..progress import Progress
from ..target import Density
from .emlbo import GRADIENTS
from .entropy import constrain


@dataclass(frozen=True)
class Ascent:
    """How EMLBO is maximised: the static half of the training step.

    Attributes:
      particles: N, runs of the chain an iteration.
      gradient: ``"frozen-force"`` (the paper's stop-gradient) or ``"full"``.
      constraint: how H(P0) > h is kept, ``"keep"`` (the paper's) or ``"project"``.
      tune_initial: whether φ0 is tuned at all.
      adam: (β1, β2, ε).
    """

    particles: int
    gradient: str
    constraint: str
    tune_initial: bool
    adam: tuple[float, float, float]

    def optimiser(self) -> optax.GradientTransformation:
        """Adam without its learning rate, which stays a number given at each step."""
        b1, b2, eps = self.adam
        return optax.scale_by_adam(b1, b2, eps)


def maximise(
    ascent: Ascent,
    density: Density,
    kernel: Any,
    params: ChainParams,
    key: Array,
    *,
    iterations: int,
    learning_rate: float,
    floor: float,
    progress: bool | None = None,
) -> tuple[ChainParams, dict[str, np.ndarray]]:
    """Run the iterations; returns the parameters and the record, one row an iteration done.

    Ctrl-C stops after the iteration at hand and returns what was learnt so far.
    """
    dtype = params.initial.mean.dtype
    numbers = (jnp.asarray(learning_rate, dtype), jnp.asarray(floor, dtype))
    state = ascent.optimiser().init(params)
    static = (ascent, density, kernel)
    program = compiled(_step, static, params, state, key, jnp.asarray(0), *numbers)

    rows: list[dict[str, np.ndarray]] = []
    with Progress("tuning", iterations, enabled=progress) as bar:
        try:
            for i in range(iterations):
                params, state, row = program(params, state, key, jnp.asarray(i), *numbers)
                rows.append(jax.device_get(row))
                bar.advance(f"E[log π*] {float(rows[-1]['final']):.4g}")
        except KeyboardInterrupt:
            bar.say(f"interrupted: keeping the parameters of iteration {len(rows)} of {iterations}")
    record = {name: np.stack([row[name] for row in rows]) for name in rows[0]} if rows else {}
    return params, record


def _step(
    ascent: Ascent,
    density: Density,
    kernel: Any,
    params: ChainParams,
    state: Any,
    key: Array,
    iteration: Array,
    learning_rate: Array,
    floor: Array,
) -> tuple[ChainParams, Any, dict[str, Array]]:
    """One iteration: estimate, gradient, Adam, constraint."""
    estimator: Callable = GRADIENTS[ascent.gradient]
    key = jax.random.fold_in(key, iteration)
    estimate, gradient = estimator(density.batched, kernel, params, key, ascent.particles)
    with jax.numpy_dtype_promotion("standard"):  # optax raises a float to an integer count, whatever the user's setting
        direction, state = ascent.optimiser().update(gradient, state)
    updated = jax.tree_util.tree_map(lambda p, d: p + learning_rate * d, params, direction)
    initial = constrain(ascent.constraint, params.initial, updated.initial, floor)
    row = {
        "objective": estimate.objective,
        "final": estimate.final,
        "elbo": estimate.elbo,
        "entropy": estimate.entropy,
        "acceptance": estimate.acceptance,
        "nonfinite": estimate.nonfinite,
        "step_size": kernel.step_size(params.transitions),
        "momentum_variance": kernel.momentum_variance(params.transitions),
    }
    return ChainParams(initial if ascent.tune_initial else params.initial, updated.transitions), state, row
