"""What may be spent: seconds and gradients, counted as they go; and Ctrl-C, which ends them at once."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Budget:
    """Seconds from now, compiling included, and gradients; either may be without limit."""

    def __init__(self, seconds: float = math.inf, gradients: float = math.inf):
        self._ends, self._left = time.perf_counter() + seconds, gradients
        self.pace: float | None = None
        """Seconds that one evaluation of the whole ensemble takes, once it has been seen."""

    def seconds(self) -> float:
        """Seconds that are left."""
        return self._ends - time.perf_counter()

    def gradients(self) -> float:
        """Gradients that are left."""
        return self._left

    def spend(self, gradients: int) -> None:
        """Count what was spent."""
        self._left -= gradients

    def over(self) -> bool:
        """Whether nothing is left."""
        return self._left <= 0 or self.seconds() <= 0

    def affords(self, particles: int) -> int:
        """Leapfrogs of an ensemble that can still be made; 1 at least."""
        by_time = math.inf if self.pace is None else self.seconds() / self.pace
        return int(max(1.0, min(by_time, self._left / particles, 2.0**30)))

    def stop(self) -> None:
        """End it: nothing more is spent."""
        self._left = 0.0

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Within, a first Ctrl-C ends the budget, so that the best so far is returned; a second one is as ever."""
        ours = threading.current_thread() is threading.main_thread()
        if not ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            yield
            return

        def pressed(number: int, frame: FrameType | None) -> None:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            self.stop()

        signal.signal(signal.SIGINT, pressed)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)
