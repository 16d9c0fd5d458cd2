"""Adam on an objective of a method's parameters: the training loop, its record, its progress bar, its interruption.

An objective is a frozen (hashable) configuration with

    estimate(density, params, carry, key) -> (row, gradient, carry)      one Monte Carlo estimate, to be *increased*
    settle(current, updated, *numbers) -> params                         what an update becomes: constraints

``row`` is what the record keeps of an iteration; ``carry`` is state that lives from one iteration to the next, such as
the chains that L2HMC trains on.

Two things can be put around an objective (`HEI`'s safeguards):

    guard(current, settled, row) -> params      the last word on an update; part of the program, so hashable
    watch(done, params) -> bool                 called after every iteration on the host: whether to stop
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array

from ..runtime.errors import ConfigError
from ..runtime.programs import compiled
from ..runtime.progress import Progress
from ..runtime.validation import finite_float, numbers
from ..target import Density

ADAM = (0.9, 0.999, 1e-8)
"""β1, β2, ε as the paper gives them."""


def check_adam(value: Any, what: str) -> tuple[float, float, float]:
    """(β1, β2, ε) with 0 <= β < 1 and ε > 0."""
    beta1, beta2, epsilon = numbers(finite_float, 3)(value, what)
    if not (0 <= beta1 < 1 and 0 <= beta2 < 1 and epsilon > 0):
        raise ConfigError(f"{what} must be (beta1, beta2, epsilon) with 0 <= beta < 1 and epsilon > 0, not {value}")
    return beta1, beta2, epsilon


def train(
    method: Any,
    objective: Any,
    density: Density,
    params: Any,
    key: Array,
    *,
    numbers: tuple[float, ...] = (),
    guard: Callable[[Any, Any, dict[str, Array]], Any] | None = None,
    watch: Callable[[int, Any], bool] | None = None,
    progress: bool | None = None,
) -> tuple[Any, dict[str, np.ndarray]]:
    """`maximise` with a method's own ``iterations``, ``learning_rate`` and ``adam``, for objectives without a carry."""
    params, record, _ = maximise(
        objective,
        density,
        params,
        key,
        iterations=method.iterations,
        learning_rate=method.learning_rate,
        numbers=numbers,
        adam=method.adam,
        guard=guard,
        watch=watch,
        progress=progress,
    )
    return params, record


def maximise(
    objective: Any,
    density: Density,
    params: Any,
    key: Array,
    *,
    iterations: int,
    learning_rate: float | Callable[[int], float],
    numbers: tuple[float, ...] = (),
    adam: tuple[float, float, float] = ADAM,
    carry: Any = (),
    guard: Callable[[Any, Any, dict[str, Array]], Any] | None = None,
    watch: Callable[[int, Any], bool] | None = None,
    progress: bool | None = None,
) -> tuple[Any, dict[str, np.ndarray], Any]:
    """Run the iterations; returns the parameters, the record (one row an iteration done) and the carry.

    Ctrl-C stops after the iteration at hand and returns what was learnt so far.
    """
    dtype = jax.tree_util.tree_leaves(params)[0].dtype
    rate = learning_rate if callable(learning_rate) else (lambda _: learning_rate)
    fixed = tuple(jnp.asarray(number, dtype) for number in numbers)
    state = optax.scale_by_adam(*adam).init(params)

    def inputs(i: int) -> tuple[Any, ...]:
        return key, jnp.asarray(i), jnp.asarray(rate(i), dtype), *fixed

    program = compiled(_step, (objective, density, adam, guard), params, state, carry, *inputs(0))
    rows: list[dict[str, np.ndarray]] = []
    with Progress("tuning", iterations, enabled=progress) as bar:
        try:
            for i in range(iterations):
                params, state, carry, row = program(params, state, carry, *inputs(i))
                rows.append(jax.device_get(row))
                bar.advance(f"objective {float(rows[-1]['objective']):.4g}")
                if watch is not None and watch(len(rows), params):
                    break
        except KeyboardInterrupt:
            bar.say(f"interrupted: keeping the parameters of iteration {len(rows)} of {iterations}")
    return params, {name: np.stack([row[name] for row in rows]) for name in (rows[0] if rows else ())}, carry


def _step(
    objective: Any,
    density: Density,
    adam: tuple[float, float, float],
    guard: Callable[[Any, Any, dict[str, Array]], Any] | None,
    params: Any,
    state: Any,
    carry: Any,
    key: Array,
    iteration: Array,
    learning_rate: Array,
    *numbers: Array,
) -> tuple[Any, Any, Any, dict[str, Array]]:
    """One iteration: estimate, gradient, Adam, constraint, guard."""
    row, gradient, carry = objective.estimate(density, params, carry, jax.random.fold_in(key, iteration))
    with jax.numpy_dtype_promotion("standard"):  # optax raises a float to an integer count, whatever the user's setting
        direction, state = optax.scale_by_adam(*adam).update(gradient, state)
    updated = jax.tree_util.tree_map(lambda p, d: p + learning_rate * d, params, direction)
    settled = objective.settle(params, updated, *numbers)
    return settled if guard is None else guard(params, settled, row), state, carry, row
