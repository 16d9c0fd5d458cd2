"""What should worry the user of some draws, in plain sentences. Cheap signs, not a proof that all is well."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from ..certificate import Finding
from ..draws import Draws
from ..runtime.drawing import Kind

if TYPE_CHECKING:
    from ..sampler import Sampler

_STILL_MOVING = 4.0
_DEAD = 0.05
_IDLE = 0.999
_STUCK = 0.005
_DIVERGING = 0.01


def worries(draws: Draws) -> list[str]:
    """Sentences about non-finite draws, divergences, dead transitions and a chain that has not settled."""
    found = [finding.words for finding in draw_findings(draws) if finding.verdict != "passed"]
    if draws.kind is Kind.RESAMPLED and (worth := draws.effective_size()) < len(draws) / 2:
        found.append(f"the draws are worth only {worth:,.0f}, because few runs carry most of the weight and come often")
    curve = draws.trace.get("expected_logdensity", np.ones(0))
    if curve.size >= 4:
        inside = draws.logdensity[np.isfinite(draws.logdensity)].astype(np.float64)
        error = inside.std() / np.sqrt(max(len(inside), 1)) + 1e-300
        change = float(curve[-1] - curve[curve.size // 2])
        if abs(change) > _STILL_MOVING * error and abs(change) > 0.02 * draws.target.dim:
            found.append(f"E[log π*] still moves, by {change:+.3g} over the second half of the chain: use more steps")
    return found


def findings(sampler: Sampler, draws: Draws) -> Iterator[Finding]:
    """The health findings of a certificate."""
    yield from draw_findings(draws)
    acceptance = draws.trace.get("acceptance")
    if acceptance is not None and draws.attributes.get("adjusted", False):
        idle = np.flatnonzero(acceptance > _IDLE) + 1
        words = f"every proposal is accepted at step {_steps(idle)}: {_does(idle)} next to nothing, the step is tiny"
        yield _count("idle steps", idle.size, 0, words, "no step accepts all", "noted", "more tuning iterations")
    initial = sampler.method.start(sampler.params)
    if initial is None or not draws.independent:
        return
    entropy = float(initial.entropy())
    inside = draws.unconstrained[np.isfinite(draws.logdensity)].astype(np.float64)
    if len(inside) > 2 * draws.target.dim:
        bound = gaussian_entropy(inside)
        wide = entropy >= bound
        words = f"H(P0) = {entropy:.2f} nats, the draws' is at most {bound:.2f}" + (
            "" if wide else ": P0 may be narrow"
        )
        advice = "" if wide else "a wider P0: initial_scale, or entropy_floor"
        yield Finding("health", "entropy of P0", "passed" if wide else "noted", words, entropy - bound, None, advice)
    floor = sampler.record.get("entropy_floor")
    if floor is not None and entropy < float(np.max(floor)) - 1e-3 * max(1.0, abs(entropy)):
        words = f"H(P0) = {entropy:.2f} nats is below the floor it was tuned with, {float(np.max(floor)):.2f}"
        yield Finding(
            "health", "entropy floor", "failed", words, entropy, None, "fit again: this P0 is not what was tuned"
        )


def gaussian_entropy(x: np.ndarray) -> float:
    """½ log det(2πe Σ) of draws ``(n, dim)``: the most entropy any distribution with their covariance has."""
    dim = x.shape[1]
    return float(0.5 * (dim * np.log(2 * np.pi * np.e) + np.linalg.slogdet(np.atleast_2d(np.cov(x.T)))[1]))


def draw_findings(draws: Draws) -> Iterator[Finding]:
    """Non-finite values, stray and stuck draws, divergences, dead transitions."""
    n, dim = len(draws), draws.target.dim
    finite = np.isfinite(draws.logdensity)
    lost = n - int(finite.sum())
    words = f"{lost:,} of {n:,} draws lie where log π* is not finite: P0 reaches outside the support"
    yield _count("finite values", lost, 0, words, "all finite", "failed", "a narrower P0, or a map to the reals")
    inside = draws.logdensity[finite].astype(np.float64)
    if not len(inside):
        return
    depth = 6 * dim + 20  # beyond what heavy tails of a million draws reach
    stray = int(np.sum(inside < np.median(inside) - depth))
    words = f"{stray:,} of {n:,} draws lie {depth} nats or more below the median of log π*: out of the target's reach"
    yield _count("stray draws", stray, 0, words, "none far below the others", "failed", _STRAY)
    if "acceptance_rate" in draws.stats and draws.independent:
        stuck = float(np.mean(draws.stats["acceptance_rate"] < 0.01))
        words = f"{stuck:.1%} of the draws never left their start: nothing vouches for them"
        yield _count("stuck draws", stuck, _STUCK, words, f"{stuck:.2%} never moved", "inconclusive", _STRAY)
    if "diverging" in draws.stats:
        diverging = float(np.mean(draws.stats["diverging"]))
        words = f"{diverging:.1%} of the draws had a diverging transition: step sizes are too large somewhere"
        advice = "smaller steps there, or a P0 that reaches less far"
        yield _count("divergences", diverging, _DIVERGING, words, f"in {diverging:.2%} of the draws", "noted", advice)
    acceptance = draws.trace.get("acceptance")
    if acceptance is not None and draws.independent and acceptance.size:
        dead = np.flatnonzero(acceptance < _DEAD) + 1
        words = f"almost every proposal is rejected at step {_steps(dead)}: {_does(dead)} nothing"
        yield _count(
            "dead steps", dead.size, 0, words, "no step rejects nearly all", "noted", "tune again, or fewer steps"
        )


_STRAY = "a narrower P0, or smaller steps: some runs start where every move is rejected"


def _steps(which: np.ndarray) -> str:
    few = ", ".join(map(str, which[:8]))
    return few + (f" and {len(which) - 8} more" if len(which) > 8 else "")


def _does(which: np.ndarray) -> str:
    return "those steps do" if len(which) > 1 else "it does"


def _count(
    name: str, value: int | float, limit: int | float, bad: str, good: str, verdict: str, advice: str
) -> Finding:
    wrong = value > limit
    return Finding(
        "health",
        name,
        verdict if wrong else "passed",
        bad if wrong else good,
        float(value),
        None,
        advice if wrong else "",
    )
