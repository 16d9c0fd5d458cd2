"""Timing side by side: alternating runs in one process, so that a busy machine hits every candidate alike."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np


def alternate(candidates: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Median seconds of each candidate over interleaved repeats, after one run of each that is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    for repeat in range(repeats + 1):
        for name, run in candidates.items():
            began = time.perf_counter()
            jax.block_until_ready(run())
            if repeat > 0:
                seconds[name].append(time.perf_counter() - began)
    return {name: float(np.median(values)) for name, values in seconds.items()}
