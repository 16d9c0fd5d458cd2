"""What a method fitted: arrays and configuration, ready to draw and to be saved. No closures, no pickles."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Array

from .draws import Draws
from .errors import ConfigError
from .programs import Cost
from .target import Target
from .validation import positive_int


@dataclass(frozen=True, eq=False)
class Sampler:
    """A fitted method: ``sample(key, n)`` gives n draws.

    Attributes:
      target: what it samples.
      method: the frozen configuration that made it.
      params: what was tuned, as a pytree of arrays.
      record: the training record, one row an iteration.
      cost: what tuning cost.
      source: where the command line found the target: ``{"builtin": name}`` or ``{"file": ..., "object": ...}``.
    """

    target: Target
    method: Any
    params: Any
    record: dict[str, np.ndarray] = field(default_factory=dict)
    cost: Cost = field(default_factory=Cost)
    source: dict[str, str] = field(default_factory=dict)

    def sample(self, key: Array, n: int, *, chunk: int | None = None, progress: bool | None = None) -> Draws:
        """Draw n times.

        Memory beside the output does not grow with n: ``chunk`` draws are made at a time. Draw i depends on the key, on
        i and on ``chunk`` alone, so asking for more draws does not change the first ones.
        """
        n = positive_int(n, "n, the number of draws")
        if chunk is not None:
            chunk = positive_int(chunk, "chunk")
        return self.method.draw(self, key, n, chunk=chunk, progress=progress)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the sampler to one file, atomically; `ergodic.load` reads it back."""
        from .storage import save

        save(self, path)

    def __repr__(self) -> str:
        return (
            f"Sampler({self.method.name} on '{self.target.name}', dim={self.target.dim}, "
            f"tuned in {self.cost.run_seconds:.2f} s + {self.cost.compile_seconds:.2f} s compile)"
        )


def fit(target: Target, key: Array, method: Any = None, *, progress: bool | None = None) -> Sampler:
    """Tune a method to a target. The default method is `HEI` with the paper's settings."""
    if not isinstance(target, Target):
        raise ConfigError(
            f"fit needs a Target, not a {type(target).__name__}; wrap the log-density: eg.Target(f, like=...)"
        )
    if method is None:
        from .methods import HEI

        method = HEI()
    return method.fit(target, key, progress=progress)
