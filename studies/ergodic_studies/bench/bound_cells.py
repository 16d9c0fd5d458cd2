"""Cells of `ergodic bench bounds`: how small the bound is on a target, and whether it is ever below the truth."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TypedDict

import jax
import numpy as np

import ergodic as eg
from ergodic.certificate import Bound
from ergodic.diagnostics.gathering import Gathered, coupled
from ergodic.methods.schedule import GEIParams
from ergodic.runtime.drawing import Kind
from ergodic.runtime.programs import Stopwatch
from ergodic.sampler import Sampler

from .bound_targets import known, target_of

CONFIDENCE = 0.95
LENGTHS = (1, 2, 3)
"""Passes."""
_TRACED, _LAW = 16_384, 65_536
_SURE = 2.33
"""Standard errors: one in a hundred is beyond."""
_NARROW = 0.5
CHAINS = {"as tuned": None, "cut to two": 2}
"""How many of its transitions a chain has left, from a P0 half as wide, so that its draws are off; None: all of it."""


class Reached(TypedDict):
    """What the bound of one fit is."""

    target: str
    seed: int
    verdict: str
    kind: str
    transitions: int
    depths: list[int]
    """Gradients of a draw, of chains of 1, 2, ... passes."""
    default: float | None
    """What the default certificate has as the bound of its draws."""
    curve: list[float]
    """Limits after 1, 2, ... passes; empty where there are none."""
    means: list[float]
    wasserstein: list[float]
    pairs: int
    unmet: int
    following: int
    """Gradients that following the pairs cost."""
    tuning: int
    certificate: int
    """Gradients of the default's tuning and certificate."""
    seconds: float
    """Of one core, for the pairs."""
    trace: list[float]
    """E[log π*] along three passes of the chain, for targets that are plotted."""


class Held(TypedDict):
    """Whether bounds held, of one chain on one target at one length."""

    target: str
    chain: str
    passes: int
    bounds: int
    none: int
    """Of pairs that never met."""
    smallest: float
    median: float
    truth: float
    """The total variation from below, averaged over fits."""
    error: float
    below: int
    """Bounds that are below what is surely less than the total variation."""


def reach(name: str, seed: int, pairs: int, trace: bool, path: Path) -> Reached:
    """Fit a target by default, and follow as many pairs of chains."""
    target = target_of(name)
    sampler = eg.fit(target, jax.random.key(seed), progress=False)
    certificate = sampler.certificate
    assert certificate is not None
    default = None if certificate.bound is None else certificate.bound.total_variation
    found: Reached = {
        "target": name,
        "seed": seed,
        "verdict": certificate.verdict,
        "kind": str(sampler.kind),
        "transitions": int(sampler.method.facts(sampler.params)["steps"]),
        "depths": [sampler.depth],
        "default": default,
        "curve": [],
        "means": [],
        "wasserstein": [],
        "trace": [],
        "pairs": 0,
        "unmet": 0,
        "following": 0,
        "tuning": sampler.cost.gradients,
        "certificate": certificate.cost.gradients,
        "seconds": 0.0,
    }
    if sampler.kind is not Kind.INDEPENDENT:
        return found
    found["depths"] = [longer(sampler, k).depth for k in range(1, 7)]
    began = Stopwatch()
    seen, bound = follow(sampler, jax.random.key(1000 + seed), pairs)
    found["seconds"] = round(began.cost(0, 0).run_seconds, 2)
    found["pairs"], found["unmet"] = len(seen.meeting), len(seen.meeting.which)
    found["following"] = seen.following
    if bound is not None:
        found["curve"], found["means"], found["wasserstein"] = map(list, (bound.curve, bound.means, bound.wasserstein))
    if trace:
        draws = longer(sampler, LENGTHS[-1]).sample(jax.random.key(3), _TRACED, progress=False)
        found["trace"] = [round(float(value), 5) for value in draws.trace["expected_logdensity"]]
    return found


def hold(name: str, chain: str, fits: int, seeds: int, pairs: int, path: Path) -> list[Held]:
    """Bounds of many seeds, on a few fits, against the total variation of many draws."""
    rows: dict[int, list[tuple[float | None, float, float]]] = {1: [], 2: []}
    for fit in range(fits):
        target, method = known(name).target, eg.GEI(anneal=False, certify=False)
        sampler = cut(eg.fit(target, jax.random.key(200 + fit), method, progress=False), CHAINS[chain])
        law = {k: longer(sampler, k).sample(jax.random.key(7), _LAW, progress=False).unconstrained for k in rows}
        truth = {k: known(name).below(draws) for k, draws in law.items()}
        for seed in range(fit, seeds, fits):
            _, bound = follow(sampler, jax.random.key(3000 + seed), pairs)
            for k, told in rows.items():
                told.append((None if bound is None else bound.curve[k - 1], *truth[k]))
    return [_held(name, chain, k, told) for k, told in rows.items()]


def _held(name: str, chain: str, passes: int, told: list[tuple[float | None, float, float]]) -> Held:
    limits = [limit for limit, _, _ in told if limit is not None]
    return {
        "target": name,
        "chain": chain,
        "passes": passes,
        "bounds": len(told),
        "none": len(told) - len(limits),
        "smallest": float(min(limits, default=1.0)),
        "median": float(np.median(limits)) if limits else 1.0,
        "truth": float(np.mean([value for _, value, _ in told])),
        "error": float(np.mean([error for *_, error in told])),
        "below": sum(limit is not None and limit < value - _SURE * error for limit, value, error in told),
    }


def follow(sampler: Sampler, key: jax.Array, pairs: int) -> tuple[Gathered, Bound | None]:
    """Follow as many pairs of fresh chains, whatever a certificate would say, and what bound they give."""
    seen, method = Gathered(replace(sampler, gathered=None)), coupled(sampler)
    assert method is not None
    seen.wanted = pairs
    seen.stage(pairs + seen.rows // 2, key)
    seen.meet(method, key)
    return seen, seen.bound(CONFIDENCE)


def longer(sampler: Sampler, times: int) -> Sampler:
    """The chain gone through so many times."""
    method = coupled(sampler)
    assert method is not None
    params = method.longer(sampler.params, times)
    return replace(sampler, params=params, certificate=None, draws=None, gathered=None)


def cut(sampler: Sampler, left: int | None) -> Sampler:
    """Only the first transitions and the last landing, from a P0 half as wide."""
    if left is None:
        return sampler
    params: GEIParams = sampler.params
    moving = np.flatnonzero(np.asarray(params.schedule.varied) != 0)
    kept = np.append(moving[:left], len(params.schedule.step) - 1)
    schedule = jax.tree_util.tree_map(lambda leaf: leaf[kept], params.schedule)
    centre = params.initial.centres.mean(axis=0, keepdims=True)
    centres = centre + _NARROW * (params.initial.centres - centre)
    initial = params.initial._replace(centres=centres, chart=params.initial.chart.times(_NARROW))
    return replace(sampler, params=params._replace(schedule=schedule, initial=initial))
