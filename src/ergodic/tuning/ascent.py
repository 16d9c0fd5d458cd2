"""Adam on an objective of a method's parameters: the training loop, its record, its progress bar, its interruption.

Two things can be put around an objective (`HEI`'s safeguards): a `Guard` has the last word on an update, and a `Watch`
is asked after every iteration whether to stop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, PyTree

from ..runtime.errors import ConfigError
from ..runtime.programs import compiled
from ..runtime.progress import Progress
from ..runtime.validation import finite_float, numbers
from ..target import Density
from .adam import Adam

ADAM = (0.9, 0.999, 1e-8)
"""β1, β2, ε as the paper gives them."""
Row = dict[str, Array]
"""What the record keeps of one iteration."""
Guard = Callable[[PyTree, PyTree, Row], PyTree]
"""(current, settled, row) to the parameters that an iteration ends with; part of the program, so hashable."""
Watch = Callable[[int, PyTree], bool]
"""(iterations done, parameters) to whether to stop; called on the host."""


@runtime_checkable
class Objective(Protocol):
    """What is to be increased: a frozen, hashable configuration."""

    def estimate(self, density: Density, params: PyTree, carry: PyTree, key: Array) -> tuple[Row, PyTree, PyTree]:
        """One Monte Carlo estimate: the record's row, the gradient, and state for the next iteration."""
        ...

    @property
    def settle(self) -> Callable[..., PyTree]:
        """(current, updated, *numbers) to what an update becomes under the objective's constraints."""
        ...

    def __hash__(self) -> int:
        """Objectives are static arguments of programs."""
        ...


@runtime_checkable
class AdamSettings(Protocol):
    """The settings of a method that is trained by Adam."""

    @property
    def iterations(self) -> int:
        """How many iterations there are."""
        ...

    @property
    def learning_rate(self) -> float:
        """What Adam's direction is multiplied by."""
        ...

    @property
    def adam(self) -> tuple[float, float, float]:
        """Adam's constants (β1, β2, ε)."""
        ...


def check_adam(value: object, what: str) -> tuple[float, float, float]:
    """(β1, β2, ε) with 0 <= β < 1 and ε > 0."""
    beta1, beta2, epsilon = numbers(finite_float, 3)(value, what)
    if not (0 <= beta1 < 1 and 0 <= beta2 < 1 and epsilon > 0):
        raise ConfigError(f"{what} must be (beta1, beta2, epsilon) with 0 <= beta < 1 and epsilon > 0, not {value}")
    return beta1, beta2, epsilon


def train(
    method: AdamSettings,
    objective: Objective,
    density: Density,
    params: PyTree,
    key: Array,
    *,
    numbers: tuple[float, ...] = (),
    guard: Guard | None = None,
    watch: Watch | None = None,
    progress: bool | None = None,
) -> tuple[PyTree, dict[str, np.ndarray]]:
    """`maximise` with a method's own settings, for objectives that carry nothing from one iteration to the next."""
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
    objective: Objective,
    density: Density,
    params: PyTree,
    key: Array,
    *,
    iterations: int,
    learning_rate: float | Callable[[int], float],
    numbers: tuple[float, ...] = (),
    adam: tuple[float, float, float] = ADAM,
    carry: PyTree = (),
    guard: Guard | None = None,
    watch: Watch | None = None,
    progress: bool | None = None,
) -> tuple[PyTree, dict[str, np.ndarray], PyTree]:
    """Run the iterations; returns the parameters, the record (one row per iteration done) and the carry.

    Ctrl-C stops after the iteration at hand and returns what was learnt so far.
    """
    dtype = jax.tree_util.tree_leaves(params)[0].dtype
    rate = learning_rate if callable(learning_rate) else (lambda _: learning_rate)
    fixed = tuple(jnp.asarray(number, dtype) for number in numbers)
    state = Adam(*adam).init(params)

    def inputs(i: int) -> tuple[Array, ...]:
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
    objective: Objective,
    density: Density,
    adam: tuple[float, float, float],
    guard: Guard | None,
    params: PyTree,
    state: optax.OptState,
    carry: PyTree,
    key: Array,
    iteration: Array,
    learning_rate: Array,
    *numbers: Array,
) -> tuple[PyTree, optax.OptState, PyTree, Row]:
    """One iteration: estimate, gradient, Adam, constraint, guard."""
    row, gradient, carry = objective.estimate(density, params, carry, jax.random.fold_in(key, iteration))
    direction, state = Adam(*adam).step(gradient, state)
    updated = jax.tree_util.tree_map(lambda p, d: p + learning_rate * d, params, direction)
    settled = objective.settle(params, updated, *numbers)
    return settled if guard is None else guard(params, settled, row), state, carry, row
