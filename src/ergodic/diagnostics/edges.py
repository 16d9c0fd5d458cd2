"""What log π* is at points among the draws and beyond them, where no chain can tell: +inf, NaN, or nothing at all.

Chains take every point at which log π* or its force is not finite for one outside of the support. So draws say nothing
of a slab in which log π* is +inf, and which holds all of the mass; nor of NaN, which is a mistake somewhere. Points are
the draws, moved a little, as two others lie apart (by half a standard deviation in every direction, whatever draws'
covariance is), and the draws, moved along one coordinate by up to six. Where anything is not finite the user's own
function is asked.

- +inf anywhere fails: such a density has no finite integral, or a formula overflows.
- NaN among the draws is inconclusive; further out it is noted.
- Where the support ends among the draws, Stein's identities need not hold, and a certificate that failed says how to
  map the support to the reals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..certificate import Finding
from ..target import Target
from ..tuning.checks import look

_ROWS, _ASKED = 1024, 256
"""Points of each kind; and of those where something is not finite, at how many the user's function is asked."""
_NEAR, _FAR = 0.35, 6.0
"""What share of the way between two other draws points are moved by; and standard deviations along one coordinate."""
_MOST = 1 << 22
"""Values that points have, at most."""


def around(draws: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, int]:
    """Points among the draws, then as many beyond them; and how many of each there are."""
    dim = draws.shape[1]
    rows = max(1, min(_ROWS, _MOST // dim))
    spread = draws.std(axis=0, dtype=np.float64)
    picked, one, other = draws[rng.integers(len(draws), size=(3, 2 * rows))].astype(np.float64)
    picked[:rows] += _NEAR * (one - other)[:rows]
    along, way = np.arange(rows) % dim, np.where(np.arange(rows) // dim % 2, -1.0, 1.0)
    picked[np.arange(rows, 2 * rows), along] += way * rng.uniform(0, _FAR, rows) * spread[along]
    return picked.astype(draws.dtype), rows


def edges(
    target: Target,
    draws: np.ndarray,
    finite: Callable[[np.ndarray], np.ndarray],
    found: Sequence[Finding],
    rng: np.random.Generator,
) -> list[Finding]:
    """What is not finite around some draws ``(n, dim)`` of which a certificate has found so much.

    Args:
      target: the user's log-density.
      draws: positions.
      finite: says by a program that is compiled already where log π* and its force are finite.
      found: the other findings.
      rng: a generator.
    """
    if not len(draws):
        return []
    points, near = around(draws, rng)
    suspect = ~finite(points)
    if not suspect.any():
        return []
    rows = rng.permutation(np.flatnonzero(suspect))[:_ASKED]
    values, forces = look(target, points[rows])
    where = _Where(points, target.names, near, rows)
    said = []
    if (high := np.isposinf(values)).any():
        words = f"log π* is +inf at {where(high)}: it has no finite integral, or a formula overflows there"
        said.append(_finding("infinite values", "failed", words, high, "look for a division or log that gives +inf"))
    wrong = np.isnan(values) | (np.isfinite(values) & ~np.isfinite(forces).all(axis=1))
    if wrong.any():
        what = "log π*" if np.isnan(values).any() else "its gradient"
        verdict = "inconclusive" if (rows[wrong] < near).any() else "noted"
        advice = "log or sqrt of a negative, 0 * inf, or a jnp.where whose unused branch is invalid; -inf is outside"
        said.append(_finding("NaN", verdict, f"{what} is NaN at {where(wrong)}", wrong, advice))
    ends = np.isneginf(values) & (rows < near)
    if ends.any() and any(finding.verdict == "failed" for finding in found):
        words = f"the support ends among the draws: log π* is -inf at {where(ends)}"
        advice = (
            f"map the support to the reals: for {where.name(ends)} > a, x = a + exp(u), and add u to log π*; "
            "for a < x < b a sigmoid, with its log-derivative"
        )
        said.append(_finding("support", "failed", words, ends, advice))
    return said


class _Where:
    """Says where some points are, by the coordinate that sets them apart from the others."""

    def __init__(self, points: np.ndarray, names: tuple[str, ...], near: int, rows: np.ndarray):
        self.points, self.names, self.near, self.rows = points.astype(np.float64), names, near, rows

    def _coordinate(self, bad: np.ndarray) -> int:
        others = np.ones(len(self.points), bool)
        others[self.rows] = False
        inside = self.points[others] if others.any() else self.points
        away = self.points[self.rows[bad]].mean(axis=0) - inside.mean(axis=0)
        return int(np.argmax(np.abs(away) / (inside.std(axis=0) + 1e-300)))

    def name(self, bad: np.ndarray) -> str:
        """The name of the coordinate that sets them apart."""
        return self.names[self._coordinate(bad)]

    def __call__(self, bad: np.ndarray) -> str:
        at, here = self._coordinate(bad), self.rows[bad]
        low, high = self.points[here, at].min(), self.points[here, at].max()
        share = f"{(here < self.near).sum():,} of {self.near:,} points among the draws"
        return f"{share}, {(here >= self.near).sum():,} beyond ({self.names[at]} from {low:.3g} to {high:.3g})"


def _finding(name: str, verdict: str, words: str, bad: np.ndarray, advice: str) -> Finding:
    return Finding("health", name, verdict, words, float(bad.sum()), None, advice)
