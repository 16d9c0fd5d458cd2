"""Whether `eg.fit(..., distance=0.05)` is met on the models that people write, in a process of its own for each."""

from __future__ import annotations

from pathlib import Path
from typing import TypedDict

import jax

from ergodic.diagnostics.distance import nearer
from ergodic.methods import GEI
from ergodic.runtime.budget import Budget
from ergodic.runtime.programs import Stopwatch

from ..harness.processes import ProcessError, call
from ..models.registry import get

_PATIENCE = 60.0
"""Processor seconds beyond the limit, after which a process is killed."""


class Asked(TypedDict):
    """What came of asking for a distance."""

    target: str
    dim: int
    verdict: str
    bound: float | None
    """None where there is none, or the process was killed."""
    kind: str
    default_depth: int
    """Gradients of a draw of the default's chain."""
    depth: int
    pairs: int
    default_seconds: float
    """Of the default's fit, compiling and certificate included."""
    seconds: float
    """Of what the distance took besides."""
    gradients: int
    reason: str
    """What else the certificate says than that all is well."""


def asked(name: str, distance: float, seed: int, limit: float, path: Path) -> Asked:
    """The answer for a model, from a new process that may take so many seconds."""
    try:
        made = call(f"{__name__}:ask", [name, distance, seed, limit], patience=limit + _PATIENCE, of_processor=True)
    except ProcessError as error:
        nothing = {"bound": None, "default_depth": 0, "depth": 0, "pairs": 0, "gradients": 0, "kind": ""}
        times = {"default_seconds": limit, "seconds": limit}
        return {"target": name, "dim": get(name).dim, "verdict": "killed", "reason": str(error), **nothing, **times}  # type: ignore[typeddict-item]
    return made  # type: ignore[return-value]


def ask(name: str, distance: float, seed: int, limit: float) -> Asked:
    """The answer here and now: as `eg.fit` does it, with a look at what the default gives."""
    target, key, clock, method = get(name).target(name), jax.random.key(seed), Stopwatch(), GEI()
    budget = Budget(limit)
    sampler = method.fit(target, key, progress=False, budget=budget)
    first = clock.cost(0, 0)
    near = nearer(method, sampler, key, distance, budget)
    whole, certificate = clock.cost(0, 0), near.certificate
    assert certificate is not None
    bound = certificate.bound
    doubts = [each for each in certificate.findings if each.verdict in ("failed", "inconclusive")]
    before = first.compile_seconds + first.run_seconds
    return {
        "target": name,
        "dim": target.dim,
        "verdict": certificate.verdict,
        "bound": None if bound is None else bound.total_variation,
        "kind": str(near.kind),
        "default_depth": sampler.depth,
        "depth": near.depth,
        "pairs": 0 if bound is None else bound.pairs,
        "default_seconds": round(before, 2),
        "seconds": round(whole.compile_seconds + whole.run_seconds - before, 2),
        "gradients": near.cost.gradients + certificate.cost.gradients,
        "reason": "; ".join(f"{each.name}: {each.words}" for each in doubts),
    }
