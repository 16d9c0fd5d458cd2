"""What a long run of chains says of a target's flat unconstrained coordinates: moments, and how far to trust them.

It is kept as a small file of JSON with one value per coordinate in each list.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ergodic.runtime.arviz import arviz, ess
from ergodic.runtime.files import write_atomically

from .bias import SecondMoments

_DIGITS = 7
"""Significant digits of a value in a file."""


class LongRun(NamedTuple):
    """Moments of x_i and of x_i², ``(dim,)`` each."""

    names: tuple[str, ...]
    mean: np.ndarray
    sd: np.ndarray
    """Of x_i."""
    mean_error: np.ndarray
    """The standard error of ``mean``: sd over the root of the effective size."""
    square: np.ndarray
    """E[x_i²]."""
    square_sd: np.ndarray
    """Of x_i²."""
    square_error: np.ndarray
    """The standard error of ``square``."""
    ess: np.ndarray
    """The effective size, the smaller of x_i's and x_i²'s."""
    rhat: np.ndarray
    """Rank-normalised and split; the larger of x_i's and x_i²'s."""

    @staticmethod
    def of(names: Sequence[str], chains: np.ndarray) -> LongRun:
        """The moments of ``(chains, steps, dim)``."""
        flat = chains.reshape(-1, chains.shape[2]).astype(np.float64)
        columns = [chains[:, :, i].astype(np.float64) for i in range(chains.shape[2])]
        sizes = np.array([[ess(column**power) for power in (1, 2)] for column in columns])
        rhat = np.array([[float(arviz("R-hat").rhat(column**power)) for power in (1, 2)] for column in columns])
        sd, square_sd = flat.std(axis=0), (flat**2).std(axis=0)
        first, second = np.sqrt(np.minimum(sizes, len(flat))).T
        return LongRun(
            tuple(names),
            flat.mean(axis=0),
            sd,
            sd / first,
            (flat**2).mean(axis=0),
            square_sd,
            square_sd / second,
            sizes.min(axis=1),
            rhat.max(axis=1),
        )

    def moments(self, power: int) -> SecondMoments:
        """What the bias of x (power 1) or of x² (power 2) is measured against."""
        if power == 1:
            expected, sd, error = self.mean, self.sd, self.mean_error
        else:
            expected, sd, error = self.square, self.square_sd, self.square_error
        return SecondMoments(self.names, expected, sd**2, float(np.max((error / sd) ** 2)), power)

    def noisiest(self) -> str:
        """The larger noise of the two moments' bias, for a table."""
        return f"{max(self.moments(power).noise for power in (1, 2)):.1g}"

    def record(self) -> dict[str, list[str] | list[float]]:
        """The run as JSON, to seven digits."""
        numbers = {name: short(array) for name, array in self._asdict().items() if name != "names"}
        return {"names": list(self.names), **numbers}

    def write(self, path: Path, **facts: object) -> None:
        """Write the run and some facts about it to a file."""
        write_atomically(path, (json.dumps({**facts, **self.record()}, indent=0) + "\n").encode())

    @staticmethod
    def read(path: Path) -> LongRun:
        """The run that `write` wrote."""
        return LongRun.from_record(json.loads(path.read_text()))

    @staticmethod
    def from_record(record: dict[str, list[float]]) -> LongRun:
        """The run of a record."""
        arrays = (np.asarray(record[name], float) for name in LongRun._fields[1:])
        return LongRun(tuple(str(name) for name in record["names"]), *arrays)


def short(values: np.ndarray) -> list[float]:
    """Values as a file has them: to seven digits."""
    return [float(f"{value:.{_DIGITS}g}") for value in values]
