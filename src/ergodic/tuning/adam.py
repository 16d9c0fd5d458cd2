"""One step of Adam (Kingma & Ba 2015): the direction in which parameters go, given a gradient to climb.

    m ← β1 m + (1 - β1) g;    v ← β2 v + (1 - β2) g²;    direction = (m / (1 - β1^t)) / (√(v / (1 - β2^t)) + ε)

Whoever calls it multiplies the direction by a learning rate and adds it. Optax does the arithmetic.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import jax
import optax

Tree = TypeVar("Tree")


class Adam(NamedTuple):
    """Adam's constants; the defaults are the paper's."""

    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    def init(self, params: Tree) -> optax.OptState:
        """The state before the first step: no moments yet."""
        return optax.scale_by_adam(*self).init(params)

    def step(self, gradient: Tree, state: optax.OptState) -> tuple[Tree, optax.OptState]:
        """The direction to climb, shaped as the gradient, and the next state."""
        with jax.numpy_dtype_promotion("standard"):  # optax raises a float to an integer count, whatever the setting
            return optax.scale_by_adam(*self).update(gradient, state)
