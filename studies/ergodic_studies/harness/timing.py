"""Timing side by side: several things run in turns, so that a busy machine hits all of them alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import jax
import numpy as np


def in_turns(candidates: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Median seconds of each candidate over so many turns, after a first turn that is not counted: it compiles.

    Arrays that a candidate returns are waited for.
    """
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    for repeat in range(repeats + 1):
        for name, run in candidates.items():
            began = time.perf_counter()
            jax.block_until_ready(run())  # type: ignore[no-untyped-call]
            if repeat:
                seconds[name].append(time.perf_counter() - began)
    return {name: float(np.median(values)) for name, values in seconds.items()}
