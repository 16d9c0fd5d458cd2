"""How a certificate comes about: fresh draws, and every test the library has for them, a stage at a time.

    health            divergences, dead steps, stray draws, entropy of P0      (`health.py`)
    stein             E[φ·∂log π + div φ] = 0, field by field and over a ball  (`stein.py`)
    stationarity      further transitions change nothing, a probe's nor its own   (`stationarity.py`)
    meeting           pairs of coupled chains meet, and their averages agree       (`meeting.py`)
    beyond            draws are where weights of points beyond them say           (`beyond.py`)
    start             the chain from other starts ends at the same place       (`starts.py`)
    evidence          log Z by annealing along the tuned chain, where asked    (`evidence.py`)

A first stage looks at few draws, with the tests that cost next to nothing. Every further one has twice as many draws,
and all tests. The first failure ends it, and so does a budget that does not afford the next stage.

Stage k may spend 1/(k (k+1)) of the level: however many stages there will be, and however often a certificate is gone
on with, that sums to all of it. A stage's part is shared out evenly over the tests that have a p-value, each of which
is corrected for the functions it looked at, so sound draws fail with at most the level's probability.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array

from ..certificate import Certificate, Finding
from ..draws import WeightedDraws
from ..protocols import Annealable, Chained
from ..runtime.budget import Budget
from ..runtime.drawing import Kind
from ..runtime.errors import ConfigError
from ..runtime.noise import generator
from ..runtime.programs import Stopwatch
from ..runtime.progress import count_steps, phase
from ..runtime.validation import positive_int
from ..sampler import Sampler
from ..statistics.hypotheses import average, smallest, symmetric
from . import starts
from .annealings import ANNEALINGS, annealed_again, other_initials
from .beyond import beyond
from .distance import pairs_for, reached
from .evidence import findings as evidence_findings
from .exchange import explained
from .functions import Functions, Tails
from .gathering import Gathered, coupled
from .health import findings as health_findings
from .meeting_tests import LONGER, MODES, UNSETTLED, coupled_chains, follow_pairs, judge, other_starts, too_short
from .stein import identities, kernel_discrepancy

TESTS = 8
"""Tests that have a p-value, at most: two each of stein and stationarity, and three starts and their memory, pairs'
two, other starts and what lies beyond, or three other annealings and one at other temperatures."""
LEAST = 1000
DRAWS = 10_240
FLOOR = 1.0
"""Seconds that a certificate may always take."""
_SHARE = 0.5
"""Of what tuning and compiling took, that the certificate may take by default."""
_FIRST = 512
_HASTE = 10.0
"""The first stage that has all tests may take as many times the allowance: without it there is no verdict."""
_KERNEL_DRAWS = 1000
_FORGOTTEN = 1.15
_CONFIDENCE = 0.95
_SPLIT, _EVIDENCE, _OTHERS, _EDGES = 1 << 20, 1 << 21, 1 << 22, 1 << 23
"""By which numbers the key is folded for what is not part of a stage."""


class _Case(NamedTuple):
    """What every test works on."""

    seen: Gathered
    functions: Functions
    threshold: float
    key: Array
    rng: np.random.Generator

    @property
    def sampler(self) -> Sampler:
        """Whose draws they are."""
        return self.seen.sampler


def certify(
    sampler: Sampler,
    key: Array,
    *,
    draws: int | None = None,
    level: float = 0.02,
    evidence: bool = False,
    budget: float | Budget | None = None,
    distance: float | None = None,
) -> Certificate:
    """Look at fresh draws of a sampler, beside those that were looked at before; see `Sampler.certify`.

    A budget in seconds is all that counts. One that a fit hands on is a limit beside the allowance.
    """
    wanted = DRAWS if draws is None else positive_int(draws, "draws")
    if wanted < 100:
        raise ConfigError(f"draws={draws} are too few to certify anything; use {LEAST:,} or more")
    if not 0 < level < 1:
        raise ConfigError(f"level must be between 0 and 1, not {level}")
    clock, before = Stopwatch(), sampler.certificate
    free = draws is not None or isinstance(budget, float)
    allowed = math.inf if free else allowance(sampler)
    budget = Budget() if budget is None else Budget(budget) if isinstance(budget, float) else budget
    seen = sampler.gathered if isinstance(sampler.gathered, Gathered) else Gathered(sampler)
    seen.wanted = 0 if distance is None else pairs_for(distance)
    spent = seen.gradients
    found = _staged(seen, key, wanted, level, budget, allowed, hasty=not free)
    found = [*seen.edges(found, jax.random.fold_in(key, _EDGES)), *found]
    if seen.passes <= seen.meeting.times:  # where a longer chain is asked for, nothing else needs to be explained
        found = explained(found, seen.draws, seen.levels)
    if evidence:
        more, gradients = evidence_findings(sampler, jax.random.fold_in(key, _EVIDENCE))
        found += more
        seen.gradients += gradients
    sampler.gathered, sampler.draws = seen, seen.draws
    if isinstance(seen.draws, WeightedDraws):
        sampler.draws = seen.draws.resample(
            jax.random.fold_in(key, _EVIDENCE), max(1, int(seen.draws.effective_size()))
        )
    cost = clock.cost(seen.gradients - spent, seen.depth)
    went_on = before is not None and spent > 0
    cost = before.cost + cost if went_on and before is not None else cost
    looked = 0 if seen.draws is None else len(seen.draws)
    bound = seen.bound(_CONFIDENCE)
    if distance is not None:
        found.append(reached(sampler, bound, distance))
    passes = -(-seen.passes // seen.meeting.times)
    return Certificate(tuple(found), looked, level, cost, seen.drawing, bound, passes)


def allowance(sampler: Sampler) -> float:
    """Seconds that a certificate may take by default: half of those that tuning and compiling did, or one."""
    return max(FLOOR, _SHARE * (sampler.cost.run_seconds + sampler.cost.compile_seconds))


def _staged(
    seen: Gathered, key: Array, wanted: int, level: float, budget: Budget, allowed: float, hasty: bool
) -> list[Finding]:
    """Stages until one fails, as many draws as wanted have been looked at, or the budget is spent.

    One in haste ends where pairs of chains ask for a longer one, of which there will be another certificate: they are
    followed before all other tests that cost as much.
    """
    found: list[Finding] = []
    clock, complete = Stopwatch(), False
    phase("certificate", wanted, "draws")
    for total, whole in _sizes(seen, _affordable(seen.sampler, wanted, allowed)):
        price = seen.price(total, whole)
        seconds = price * (seen.pace() or (budget.pace or 0.0) / seen.rows)
        patience = 1 if complete else _HASTE
        left = patience * allowed - clock.cost(0, 0).run_seconds  # compiling is for all certificates to come
        short = seconds > min(left, budget.seconds()) or price > budget.gradients()
        if short or budget.over():
            return found if complete else [*found, _cut(seen)]
        so_far, already = seen.gradients, 0 if seen.draws is None else len(seen.draws)
        seen.stage(total - already, key)
        found = []
        for group in _tests(seen, key, level, whole):
            found += group
            if any(
                finding.verdict == "failed" or (finding.name == "meeting" and finding.verdict != "passed")
                for finding in group
            ):
                return found  # no number of draws, nor any other start, lets a chain pass that is too short
        if hasty and not whole and (pairing := coupled(seen.sampler)) is not None:
            follow_pairs(seen, pairing, key)
            found += too_short(seen, level / 2 / TESTS)
        budget.spend(seen.gradients - so_far)
        count_steps(by=total - already, gradients=seen.gradients - so_far)
        complete = whole
        if hasty and seen.passes > seen.meeting.times:
            return found
    return found


def _affordable(sampler: Sampler, wanted: int, allowed: float) -> int:
    """As many draws as wanted; of draws that come in one stage, as many as what tuning cost says can be paid for."""
    if sampler.kind is Kind.INDEPENDENT or not (sampler.cost.gradients and math.isfinite(allowed)):
        return wanted
    each = sampler.cost.run_seconds / sampler.cost.gradients * sampler.depth * (1 + ANNEALINGS)
    return int(np.clip(_HASTE * allowed / max(each, 1e-9), min(2 * LEAST, wanted), wanted))


def _sizes(seen: Gathered, wanted: int) -> Iterator[tuple[int, bool]]:
    """How many draws there are after each stage, and whether it has all tests."""
    already = 0 if seen.draws is None else len(seen.draws)
    until = already + wanted
    if seen.sampler.kind is not Kind.INDEPENDENT:
        yield until, True
        return
    total = already
    if not already and until > 2 * _FIRST:
        total = _FIRST
        yield total, False
    while total < until:
        total = min(max(2 * total, 2 * _FIRST), until)
        yield total, True


def _cut(seen: Gathered) -> Finding:
    """That the budget ended before all tests."""
    words = f"the budget ended after {len(seen.usable.position):,} draws, before all tests"
    return Finding("health", "budget", "inconclusive", words, advice="sampler.certify(key, budget=seconds) goes on")


def _tests(seen: Gathered, key: Array, level: float, whole: bool) -> Iterator[list[Finding]]:
    """The findings of a stage, a group at a time; each group first gathers what it needs."""
    assert seen.draws is not None
    found, n = list(health_findings(seen.sampler, seen.draws)), len(seen.usable.position)
    if whole and n < LEAST:
        words = f"only {n:,} usable, separate draws: too few to tell, {LEAST:,} are needed"
        advice = "draw more: certify(draws=...)"
        found.append(Finding("health", "number of draws", "inconclusive", words, advice=advice))
    yield found
    if n < 100:
        return
    rng = generator(jax.random.fold_in(key, _SPLIT + seen.stages))
    threshold = level / (seen.stages * (seen.stages + 1)) / TESTS
    case = _Case(seen, seen.functions(rng), threshold, key, rng)
    for test in (_stein, _stationarity, _going_on, _starts) if whole else (_stein,):
        yield test(case)


def _stationarity(case: _Case) -> list[Finding]:
    """A probe of another chart than the chain's, at several lengths."""
    seen, functions = case.seen, case.functions
    seen.move(case.key)
    if seen.probe is None or not seen.probed:
        step = 0.0 if seen.probe is None else seen.probe.step
        words = f"no step size down to {step:.2g} sd moves the draws: nothing can be seen"
        advice = "the target is too rough, or the draws lie where it is steep: look at log π* along them"
        return [Finding("stationarity", "stationarity", "inconclusive", words, advice=advice)]
    # Limits of the tails come from the first half of the draws, so only the second half is tested with them.
    x, level = seen.usable.position, seen.usable.logdensity
    half = len(x) // 2
    tails = Tails.of(seen.names, x[:half], level[:half])
    before, outside = functions(x, level), tails(x[half:], level[half:])
    statistics, p_values = [], []
    for moved in seen.probed.values():
        for change in (
            functions(moved.position, moved.logdensity) - before,
            tails(moved.position[half:], moved.logdensity[half:]) - outside,
        ):
            tested = symmetric(change)
            statistics.append(tested.statistic)
            p_values.append(tested.p_value)
    names = (*functions.names, *tails.names)
    p_value = smallest(np.concatenate(p_values))
    which, column = divmod(int(np.argmin(np.concatenate(p_values))), len(names))
    statistic = float(np.concatenate(statistics)[which * len(names) + column])
    verdict, lengths = judge(p_value, case.threshold), tuple(seen.probed)
    if verdict == "failed":
        way, more = "rises" if statistic > 0 else "falls", lengths[which]
        words = f"E[{names[column]}] still {way} under {more} more leapfrog{'s' if more > 1 else ''}"
    else:
        acceptance = np.mean([moved.acceptance.mean() for moved in seen.probed.values()])
        tried = ", ".join(map(str, lengths))
        words = f"{len(names)} functions stay, under {tried} more leapfrogs (acceptance {acceptance:.2f})"
    return [Finding("stationarity", "stationarity", verdict, words, statistic, p_value, UNSETTLED)]


def _going_on(case: _Case) -> list[Finding]:
    """Once more through the chain that made the draws, or more: what is slow shows there, not in one trajectory."""
    method, seen = case.sampler.method, case.seen
    if not isinstance(method, Chained) or case.sampler.kind is Kind.WEIGHTED:
        return []
    if (pairing := coupled(case.sampler)) is not None:
        follow_pairs(seen, pairing, case.key)
        seen.look_beyond(pairing, case.key)
        return coupled_chains(seen, case.threshold) + beyond(seen.beyond, seen.names, case.threshold)
    seen.go_on(method, case.key)
    assert seen.again is not None
    before = case.functions(seen.usable.position, seen.usable.logdensity)
    change = case.functions(seen.again.position, seen.again.logdensity) - before
    tested = average(change)
    p_value, worst = smallest(tested.p_value), int(np.argmin(tested.p_value))
    verdict, statistic = judge(p_value, case.threshold), float(tested.statistic[worst])
    moves = f"E[{case.functions.names[worst]}] still {'rises' if statistic > 0 else 'falls'} when the chain goes on"
    words = moves if verdict == "failed" else f"{change.shape[1]} functions stay when the chain goes on"
    return [Finding("stationarity", "the chain again", verdict, words, statistic, p_value, UNSETTLED)]


def _stein(case: _Case) -> list[Finding]:
    """Identities that hold for draws of π: they need no more than the force at the draws."""
    functions, seen = case.functions, case.seen.usable
    found = identities(functions, case.seen.names, seen.position, seen.gradient)
    tested = average(found.values)
    p_value, worst = smallest(tested.p_value), int(np.argmin(tested.p_value))
    verdict = judge(p_value, case.threshold)
    held = f"{len(found.names)} identities hold"
    broken = (
        f"E[{found.names[worst]}] is off by {found.values[:, worst].mean():+.3g}, {tested.statistic[worst]:+.1f} errors"
    )
    words = broken if verdict == "failed" else held
    advice = "the draws' scale or place is wrong: more steps, more tuning iterations, or another P0"
    first = Finding("stein", "Stein identities", verdict, words, float(tested.statistic[worst]), p_value, advice)
    rows = case.rng.choice(len(seen.position), min(_KERNEL_DRAWS, len(seen.position)), replace=False)
    z, force = functions.frame.whiten(seen.position[rows]), seen.gradient[rows] @ functions.frame.scale
    value, p_value = kernel_discrepancy(z, force, case.rng)
    verdict = judge(p_value, case.threshold)
    words = f"of {len(rows):,} draws, {'larger than' if verdict == 'failed' else 'as'} chance gives it (sign flips)"
    second = Finding("stein", "kernel Stein discrepancy", verdict, words, value, p_value, advice)
    return [first, second]


def _starts(case: _Case) -> list[Finding]:
    sampler, seen = case.sampler, case.seen
    if not isinstance(sampler.method, Chained):
        words = f"{sampler.method.name} has no chain that could start elsewhere: a missed mode would not show"
        advice = "compare with a method that has one, such as HEI, or with starts of your own"
        return [Finding("start", "start dependence", "inconclusive", words, advice=advice)]
    if isinstance(sampler.method, Annealable) and sampler.kind is Kind.WEIGHTED:
        key = jax.random.fold_in(case.key, _OTHERS + seen.stages)
        found = other_initials(seen, sampler.method, case.functions, case.threshold, key)
        return [*found, *annealed_again(seen, sampler.method, case.functions, case.threshold, key)]
    if (pairing := coupled(sampler)) is not None:
        seen.join(pairing, case.functions, case.key, case.rng)
        return other_starts(seen.joining, seen.usable.logdensity, case.threshold)
    seen.start_elsewhere(sampler.method, case.functions, case.key, case.rng)
    half = len(seen.usable.position) // 2
    draws = starts.OwnDraws.of(case.functions, seen.usable.position[half:], seen.usable.logdensity[half:])
    p_value, rhat, where = starts.memory(seen.paths["inflated"], draws)
    remembers = p_value < case.threshold and rhat > _FORGOTTEN
    found = [_start_finding(name, path, draws, case.threshold, remembers) for name, path in seen.paths.items()]
    if remembers:
        words = f"chains from one point end nearer to each other than to others in {where}"
        verdict = "inconclusive" if found[0].verdict == "inconclusive" else "failed"
    else:
        points, little = len(seen.paths["inflated"].end) // starts.MEMBERS, p_value < case.threshold
        kept = f"remembered, but too little to matter (R-hat below {_FORGOTTEN})" if little else "forgotten"
        words = f"{points} points, {starts.MEMBERS} chains each: where they started is {kept}"
        verdict = "passed"
    advice = {"passed": "", "inconclusive": LONGER, "failed": MODES}[verdict]
    found.append(Finding("start", "nested R-hat", verdict, words, rhat, p_value, advice))
    return found


def _start_finding(
    name: str, path: starts.Followed, draws: starts.OwnDraws, threshold: float, remembers: bool
) -> Finding:
    moved = float(path.moved(draws.floor).mean())
    name = f"start: {name}"
    if moved < 0.5:
        words = f"{1 - moved:.0%} of the particles stay where they are: this start says nothing"
        advice = "smaller steps: from further out every move is rejected"
        return Finding("start", name, "inconclusive", words, moved, None, advice)
    seen = starts.compare(path, draws)
    if seen.differs >= threshold:
        return Finding("start", name, "passed", "ends where the draws are", seen.distance, seen.differs)
    away = f"{seen.where} is {seen.distance:+.2g} spreads away"
    if seen.moving < threshold:
        return Finding(
            "start", name, "inconclusive", f"has not settled: {away}, and moving", seen.distance, seen.differs, LONGER
        )
    advice = MODES if remembers else UNSETTLED
    return Finding("start", name, "failed", f"settles elsewhere: {away}", seen.distance, seen.differs, advice)
