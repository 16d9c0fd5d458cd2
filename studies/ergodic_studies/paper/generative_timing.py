"""Table 3, right: seconds per epoch of training with a chain, full gradient against frozen force, in one run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypedDict

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ergodic.datasets import images as image_data
from ergodic.generative.ergodic_encoder import ErgodicEncoder
from ergodic.generative.iterations import advance_training, begin_training
from ergodic.generative.training_settings import Recipe, Stage
from ergodic.runtime.programs import compiled

from ..harness.timing import in_turns

PAPER = {15: (257.8, 56.3), 30: (551.2, 114.0)}
"""Seconds per epoch in the paper, full and with the stop-gradient."""


class Epoch(TypedDict):
    """Seconds per epoch with a chain of so many transitions."""

    data: str
    steps: int
    full: float
    frozen: float
    ratio: float
    images_per_second: float


def epoch_seconds(data: str, steps: Sequence[int], leapfrogs: int, batch: int, repeats: int) -> list[Epoch]:
    """For every T: seconds per epoch in both modes, and their ratio; modes take turns, the first turn compiles."""
    images = jnp.asarray(image_data.load(data).train)
    epoch = len(images) // batch
    rows: list[Epoch] = []
    for count in steps:
        recipes = {
            mode: Recipe((Stage(ErgodicEncoder(steps=count, leapfrogs=leapfrogs, gradient=mode)),), batch=batch)
            for mode in ("full", "frozen-force")
        }
        seconds = in_turns({mode: _iteration(recipe, images) for mode, recipe in recipes.items()}, repeats)
        full, frozen = (seconds[mode] * epoch for mode in ("full", "frozen-force"))
        rows.append(
            {
                "data": data,
                "steps": count,
                "full": full,
                "frozen": frozen,
                "ratio": full / frozen,
                "images_per_second": epoch * batch / frozen,
            }
        )
    return rows


def _iteration(recipe: Recipe, images: Array) -> Callable[[], object]:
    """One iteration of training from the start, compiled."""
    state, one = begin_training(images.shape, recipe, jax.random.key(0)), jnp.asarray(1, jnp.int32)
    program = compiled(advance_training, (recipe, 0), images, state, one)
    return partial(_objective, program, images, state, one)


def _objective(program: Callable, *arguments: object) -> object:
    return program(*arguments)[1]["objective"]
