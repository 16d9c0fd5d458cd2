"""Table 3, right: seconds an epoch of training with a chain, full gradient against frozen force, in one run."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ergodic.datasets import images as image_data
from ergodic.generative.ergodic_encoder import ErgodicEncoder
from ergodic.generative.iterations import advance_training, begin_training
from ergodic.generative.training_settings import Recipe, Stage
from ergodic.runtime.programs import compiled

PAPER = {15: (257.8, 56.3), 30: (551.2, 114.0)}
"""Seconds an epoch of the paper, full and with the stop-gradient."""


def epoch_seconds(data: str, steps: Sequence[int], leapfrogs: int, batch: int, repeats: int) -> list[dict[str, Any]]:
    """Of every T: seconds an epoch in both modes, and their ratio; modes take turns, the first turn compiles."""
    images = jnp.asarray(image_data.load(data).train)
    epoch, one = len(images) // batch, jnp.asarray(1, jnp.int32)
    rows = []
    for count in steps:
        seconds: dict[str, list[float]] = {"full": [], "frozen-force": []}
        for repeat in range(repeats + 1):
            for mode, times in seconds.items():
                recipe = Recipe((Stage(ErgodicEncoder(steps=count, leapfrogs=leapfrogs, gradient=mode)),), batch=batch)
                state = begin_training(images.shape, recipe, jax.random.key(repeat))
                program = compiled(advance_training, (recipe, 0), images, state, one)
                began = time.perf_counter()
                program(images, state, one)[1]["objective"].block_until_ready()
                if repeat:
                    times.append(time.perf_counter() - began)
        full, frozen = (float(np.median(seconds[mode])) * epoch for mode in ("full", "frozen-force"))
        rate = {"images_per_second": epoch * batch / frozen}
        rows.append({"data": data, "steps": count, "full": full, "frozen": frozen, "ratio": full / frozen, **rate})
    return rows
