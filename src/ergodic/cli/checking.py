"""The command that says whether a log-density can be used, from the starts that `fit` uses."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..adapters.sources import resolve
from ..initial import DiagonalGaussian
from ..methods import GEI
from ..runtime.errors import ErgodicError, TargetError
from ..target import Target
from ..tuning.checks import Check, judged
from ..tuning.precision import checked
from .console import Dim, Model, Seed, console, key_of, say

_MARKS = {"passed": "[green]✓[/green]", "warning": "[yellow]![/yellow]", "failed": "[red]✗[/red]"}
_DRAWS = 100


class Start(NamedTuple):
    """One of the starts that `fit` tries, and the checks of the target's log-density there."""

    name: str
    """The start in words, such as ``N(0, 1²)``."""
    checks: list[Check]
    reached: bool
    """Whether the log-density is finite at one draw at least; `fit` skips the starts at which it is not."""
    position: np.ndarray = np.zeros((0, 0))
    """The draws."""
    values: np.ndarray = np.zeros(0)
    """log π* there."""

    def count(self, status: str) -> int:
        """How many of the checks have this status."""
        return sum(check.status == status for check in self.checks)


def check(model: Model, dim: Dim = None, seed: Seed = 0) -> None:
    """Is this log-density usable? Named checks from where `ergodic fit` starts, each ticked or explained."""
    try:
        target, _ = resolve(model, dim)
        starts = judged_starts(target, key_of(seed))
        shown = decisive(starts)
        skipped = [start.name for start in starts if not start.reached and start is not shown]
        checks = shown.checks + single_precision(target, shown)
        where = f"at {_DRAWS} draws of {shown.name}, where fit starts"
        where += f"; it skips {' and '.join(skipped)}, where no log-density is finite" if skipped else ""
    except TargetError as error:
        checks, where = [Check("structure", "failed", str(error))], ""
    for item in checks:
        console.print(_MARKS[item.status], end=" ")
        say(f"{item.name}: {item.message}")
    if where:
        say(where)
    failed = [item.name for item in checks if item.status == "failed"]
    if failed:
        raise ErgodicError(f"{model} is not usable: {', '.join(failed)}")


def judged_starts(target: Target, key: Array) -> list[Start]:
    """The starts of the default method, from wide to narrow, each with its checks at 100 draws."""
    evaluate = jax.jit(target.density.batched)
    starts = []
    for initial in GEI().starts(target):
        position = np.asarray(initial.sample(key, _DRAWS))
        values, gradients = jax.device_get(evaluate(position))
        reached = bool(np.any(np.isfinite(values)))
        checks = judged(target, values, gradients)
        starts.append(Start(_name(target, initial), checks, reached, position, values))
    return starts


def single_precision(target: Target, start: Start) -> list[Check]:
    """Whether float32 is enough at the best draws of a start, where the target is in float32 and can be evaluated."""
    if start.count("failed"):
        return []
    return checked(target, start.values, start.position, start.position.std(axis=0, dtype=np.float64))


def decisive(starts: list[Start]) -> Start:
    """The start whose checks decide.

    Starts without any finite value are skipped, as `fit` does, unless there is no other: then the last and narrowest
    decides. Of the rest, the first with a failed check decides; where there is none, the one with the fewest warnings,
    and the widest of those alike.
    """
    reached = [start for start in starts if start.reached]
    if not reached:
        return starts[-1]
    failed = [start for start in reached if start.count("failed")]
    return failed[0] if failed else min(reached, key=lambda start: start.count("warning"))


def _name(target: Target, initial: DiagonalGaussian) -> str:
    if initial is target.prior:
        return "the prior"
    return f"N(0, {float(jnp.exp(initial.log_scale[0])):.2g}²)"
