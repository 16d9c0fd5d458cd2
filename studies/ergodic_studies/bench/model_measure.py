"""One seed of one sampler on one model, measured for `ergodic bench models`.

A sampler is asked for 1,000 and for 4,000 draws that can be trusted: of GEI, draws whose certificate passed; of NUTS,
effective draws, the smallest bulk estimate over coordinates, with every R-hat below 1.01. All that it takes to have
them counts: compiling, tuning, the certificate, and drawing what is missing then (model_draws.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from ergodic.protocols import Independent
from ergodic.runtime.programs import Stopwatch
from ergodic.sampler import Sampler
from ergodic.target import Target

from ..measures.bias import Moments, bias_of
from ..measures.long_run import short
from .effective import Spent, largest_rhat
from .model_draws import Drawn, Tail, drawn
from .outside import Running
from .posterior_measure import Rival, keys_of

_RHAT = 1.01


class Outcome(Spent, total=False):
    """What was measured. ``error`` is there where the sampler raised or was killed; what was known by then is kept.

    Entries of ``drawing_seconds``, ``total_seconds``, ``gradients``, ``depths`` and ``reached`` are by the number of
    draws. Gradients and depths are totals: tuning, certificate and drawing. Seconds of the certificate and of drawing
    include what was compiled for them; ``compile_seconds`` is all other compiling. ``kept`` effective draws were in
    hand when the fit ended. ``draw_depth`` is one draw's; chains have none. ``found`` has the first and the
    second moments of the draws' coordinates, from which `with_bias` makes b1 and b2. ``tail`` is the share of draws in
    a tail that is looked at, and ``driver_b2`` the second moment's bias of one coordinate.
    """

    model: str
    label: str
    limit: float
    dim: int
    killed: bool
    verdict: str | None
    findings: list[str]
    certificate_seconds: float
    fit_seconds: float
    drawing_seconds: dict[str, float]
    total_seconds: dict[str, float]
    certificate_gradients: int
    tuning_depth: int
    certificate_depth: int
    draw_depth: int
    kept: float
    gradients: dict[str, int]
    depths: dict[str, int]
    rhat: float
    reached: dict[str, bool]
    found: dict[str, list[float]]
    tail: float
    driver_b2: float
    b1_max: float
    b1_worst: str
    b1_noise: float
    b2_worst: str
    b2_noise: float
    processor_seconds: float
    peak_megabytes: int


def measure(
    target: Target, method: Rival, outcome: Outcome, keep: Callable[[Outcome], None], tail: Tail | None = None
) -> Outcome:
    """Fit, draw and measure; ``keep`` is given what is known after fitting and at the end."""
    began, worked = time.perf_counter(), time.process_time()
    fit_key, sample_key, tail_key = keys_of(target, outcome["label"], outcome["seed"])
    clock = Stopwatch()
    sampler = method.fit(target, fit_key, progress=False)
    _fitted(outcome, sampler, clock)
    keep(outcome)
    left = outcome["limit"] - min(time.perf_counter() - began, time.process_time() - worked)
    made = drawn(sampler, sample_key, left, outcome["fit_seconds"])
    _drawn(outcome, made)
    outcome["processor_seconds"] = time.process_time() - worked
    outcome["wall_seconds"] = time.perf_counter() - began
    outcome["cpu_share"] = outcome["processor_seconds"] / outcome["wall_seconds"]
    keep(outcome)
    if tail is not None:
        left = outcome["limit"] - min(time.perf_counter() - began, time.process_time() - worked)
        outcome["tail"] = tail.found(sampler, made.draws, tail_key, 0.5 * left)
        keep(outcome)
    return outcome


def _fitted(outcome: Outcome, sampler: Sampler | Running, clock: Stopwatch) -> None:
    """What fitting cost. Seconds are of the whole call: a fit of several rounds may return an earlier one's sampler."""
    whole = clock.cost(0, 0)
    certificate = sampler.certificate if isinstance(sampler, Sampler) else None
    cost = None if certificate is None else certificate.cost
    outcome["verdict"] = None if certificate is None else certificate.verdict
    if certificate is not None:
        outcome["findings"] = [f"{f.name}: {f.verdict}" for f in certificate.findings if f.verdict != "passed"]
    outcome["fit_seconds"] = whole.compile_seconds + whole.run_seconds
    outcome["certificate_seconds"] = 0.0 if cost is None else cost.compile_seconds + cost.run_seconds
    outcome["compile_seconds"] = whole.compile_seconds - (0.0 if cost is None else cost.compile_seconds)
    outcome["tuning_seconds"] = whole.run_seconds - (0.0 if cost is None else cost.run_seconds)
    outcome["tuning_gradients"] = sampler.cost.gradients
    outcome["certificate_gradients"] = 0 if cost is None else cost.gradients
    outcome["tuning_depth"] = sampler.cost.depth
    outcome["certificate_depth"] = 0 if cost is None else cost.depth
    if isinstance(sampler, Sampler) and isinstance(sampler.method, Independent):
        outcome["draw_depth"] = sampler.depth


def _drawn(outcome: Outcome, made: Drawn) -> None:
    """What drawing cost, and all of it together."""
    draws, costs = made.draws, {str(size): cost for size, cost in made.costs.items()}
    gradients = outcome["tuning_gradients"] + outcome["certificate_gradients"]
    depth = outcome["tuning_depth"] + outcome["certificate_depth"]
    outcome["kind"], outcome["draws"], outcome["kept"] = draws.kind, len(draws), made.kept
    outcome["effective"], outcome["rhat"] = made.effective, largest_rhat(draws)
    outcome["drawing_seconds"] = {size: cost.compile_seconds + cost.run_seconds for size, cost in costs.items()}
    outcome["total_seconds"] = {
        size: outcome["fit_seconds"] + seconds for size, seconds in outcome["drawing_seconds"].items()
    }
    outcome["gradients"] = {size: gradients + cost.gradients for size, cost in costs.items()}
    outcome["depths"] = {size: depth + cost.depth for size, cost in costs.items()}
    sound = outcome["rhat"] < _RHAT and outcome["verdict"] in (None, "passed")
    outcome["reached"] = {str(size): sound and made.effective >= size for size in made.costs}
    x = draws.unconstrained[: made.measured].astype(np.float64)
    outcome["found"] = {"1": short(x.mean(axis=0)), "2": short((x**2).mean(axis=0))}


def with_bias(outcome: Outcome, truth: Moments | None) -> Outcome:
    """The outcome with the largest bias of a coordinate's first and second moment instead of the moments.

    It is made when results are gathered, so that a better truth needs no new run.
    """
    judged = outcome.copy()
    found = judged.pop("found", None)
    if found is None or truth is None:
        return judged
    first, second = (bias_of(np.asarray(found[str(power)]), truth.moments(power)) for power in (1, 2))
    judged["b1_max"], judged["b1_worst"], judged["b1_noise"] = first.largest, first.worst, first.noise
    judged["b2_max"], judged["b2_worst"], judged["b2_noise"] = second.largest, second.worst, second.noise
    return judged
