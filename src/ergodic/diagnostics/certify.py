"""How a certificate comes about: fresh draws, and every test the library has for them.

    stationarity      further transitions change nothing, a probe's nor its own   (`stationarity.py`)
    stein             E[φ·∂log π + div φ] = 0, field by field and over a ball  (`stein.py`)
    start             the chain from other starts ends at the same place       (`starts.py`)
    health            divergences, dead steps, stray draws, entropy of P0
    evidence          log Z by annealing along the tuned chain, where asked    (`evidence.py`)

The level is shared out evenly over the tests that have a p-value, each of which is corrected for the functions it
looked at, so sound draws fail with at most that probability.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..certificate import Certificate, Finding
from ..draws import Draws, WeightedDraws
from ..protocols import Annealable, Chained
from ..runtime.drawing import Kind, default_chunk
from ..runtime.errors import ConfigError, DrawsWarning
from ..runtime.programs import Stopwatch, compiled
from ..runtime.validation import positive_int
from ..sampler import Sampler
from ..statistics.hypotheses import average, smallest, symmetric, two_averages, two_samples
from ..target import Density
from . import starts
from .evidence import evidence as evidence_of
from .functions import Functions, Tails, frame
from .health import findings as health_findings
from .stationarity import probe
from .stein import identities, kernel_discrepancy

TESTS = 8
"""Tests that have a p-value: two each of stein and stationarity, three starts and their memory."""
LEAST = 1000
_KERNEL_DRAWS = 1000
_UNSETTLED = "the chain has not settled: more steps, or more tuning iterations"
_FORGOTTEN = 1.15
_ROUGH = 0.5  # nats
_WEIGHTS = 50
_SEPARATE = 3
_AGAIN_KEY = 99
_GOING_ON = 36  # transitions
_OTHER = {"inflated": (0.0, 1.5), "displaced +": (0.5, 1.2), "displaced -": (-0.5, 1.2)}


class _Case(NamedTuple):
    """What every test works on."""

    sampler: Sampler
    positions: np.ndarray
    logdensity: np.ndarray
    gradient: np.ndarray
    functions: Functions
    threshold: float


def certify(
    sampler: Sampler, key: Array, *, draws: int = 10_000, level: float = 0.02, evidence: bool = False
) -> Certificate:
    """Look at fresh draws of a sampler; see `Sampler.certify`."""
    draws = positive_int(draws, "draws")
    if draws < 100:
        raise ConfigError(f"draws={draws} are too few to certify anything; use {LEAST:,} or more")
    if not 0 < level < 1:
        raise ConfigError(f"level must be between 0 and 1, not {level}")
    clock = Stopwatch()
    draw_key, seed_key, evidence_key, *test_keys = jax.random.split(key, 6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DrawsWarning)  # a finding says it
        fresh = sampler.sample(draw_key, draws, weighted=sampler.kind is Kind.WEIGHTED, progress=False)
    found = list(health_findings(sampler, fresh))
    spent, depth = fresh.cost.gradients, fresh.cost.depth
    positions, logdensity = _separate(fresh, seed_key)
    usable = np.isfinite(logdensity)
    positions, logdensity = positions[usable], logdensity[usable]
    if len(positions) < LEAST:
        words = f"only {len(positions):,} usable, separate draws: too few to tell, {LEAST:,} are needed"
        found.append(
            Finding("health", "number of draws", "inconclusive", words, advice="draw more: certify(draws=...)")
        )
    if len(positions) >= 100:
        rng = np.random.default_rng(np.asarray(jax.random.key_data(seed_key)).tolist())
        gradient = _gradients(sampler.target.density, positions)
        half = len(positions) // 2  # the frame fits the draws that it is made from too well to compare them with others
        functions = Functions.of(frame(positions[:half], logdensity[:half]), sampler.target.names, rng)
        case = _Case(sampler, positions, logdensity, gradient, functions, level / TESTS)
        for test, test_key in zip((_stationarity, _stein, _starts), test_keys, strict=True):
            more, gradients = test(case, test_key, rng)
            found += more
            spent += gradients
    if evidence:
        more, gradients = _evidence(sampler, evidence_key)
        found += more
        spent += gradients
    depth += starts.ROUNDS * depth if isinstance(sampler.method, Chained) else 0  # the tests run side by side
    return Certificate(tuple(found), draws, level, clock.cost(spent, depth), fresh.cost.gradients)


def _separate(draws: Draws, key: Array) -> tuple[np.ndarray, np.ndarray]:
    """Rows that can be taken as independent: all of independent draws, as many as the others are worth."""
    if draws.independent:
        return draws.unconstrained, draws.logdensity
    worth = max(1, int(draws.effective_size()))
    if isinstance(draws, WeightedDraws):
        chosen = draws.resample(key, max(1, worth // _SEPARATE))  # few, so that hardly any comes twice
        return chosen.unconstrained, chosen.logdensity
    every = max(1, math.ceil(len(draws) / worth))
    return draws.unconstrained[::every], draws.logdensity[::every]


def _blocks(positions: np.ndarray) -> Iterator[Array]:
    """Positions as many at a time as are drawn at a time."""
    size = default_chunk(positions.shape[1])
    return (jnp.asarray(positions[at : at + size]) for at in range(0, len(positions), size))


def _gradients(density: Density, positions: np.ndarray) -> np.ndarray:
    forces = (compiled(_force, (density,), block)(block) for block in _blocks(positions))
    return np.concatenate([np.asarray(force) for force in forces])


def _force(density: Density, positions: Array) -> Array:
    return density.batched(positions)[1]


def _judge(p_value: float, threshold: float) -> str:
    return "failed" if p_value < threshold else "passed"


def _stationarity(case: _Case, key: Array, rng: np.random.Generator) -> tuple[list[Finding], int]:
    functions = case.functions
    probes = probe(case.sampler.target.density, case.positions, functions.frame, key)
    if not probes.probes:
        words = f"no step size down to {probes.step:.2g} sd moves the draws: nothing can be seen"
        advice = "the target is too rough, or the draws lie where it is steep: look at log π* along them"
        return [Finding("stationarity", "stationarity", "inconclusive", words, advice=advice)], probes.gradients
    # Limits of the tails come from the first half of the draws, so only the second half is tested with them.
    half = len(case.positions) // 2
    tails = Tails.of(case.sampler.target.names, case.positions[:half], case.logdensity[:half])
    before = functions(case.positions, case.logdensity)
    outside = tails(case.positions[half:], case.logdensity[half:])
    statistics, p_values = [], []
    for p in probes.probes:
        for change in (
            functions(p.position, p.logdensity) - before,
            tails(p.position[half:], p.logdensity[half:]) - outside,
        ):
            tested = symmetric(change)
            statistics.append(tested.statistic)
            p_values.append(tested.p_value)
    names = (*functions.names, *tails.names)
    p_value = smallest(np.concatenate(p_values))
    length, column = divmod(int(np.argmin(np.concatenate(p_values))), len(names))
    statistic = float(np.concatenate(statistics)[length * len(names) + column])
    verdict = _judge(p_value, case.threshold)
    lengths = ", ".join(str(p.leapfrogs) for p in probes.probes)
    if verdict == "failed":
        way = "rises" if statistic > 0 else "falls"
        words = f"E[{names[column]}] still {way} under {_leapfrogs(probes.probes[length].leapfrogs)}"
    else:
        words = f"{len(names)} functions stay, under {lengths} more leapfrogs (acceptance {probes.acceptance:.2f})"
    found = [Finding("stationarity", "stationarity", verdict, words, statistic, p_value, _UNSETTLED)]
    method = case.sampler.method
    if not isinstance(method, Chained) or case.sampler.kind is Kind.WEIGHTED:
        return found, probes.gradients
    times = int(np.clip(_GOING_ON // method.transitions(case.sampler.params), 1, starts.ROUNDS))
    found.append(_going_on(case, method, jax.random.fold_in(key, _AGAIN_KEY), before, times))
    return found, probes.gradients + times * len(case.positions) * case.sampler.depth


def _going_on(case: _Case, method: Chained, key: Array, before: np.ndarray, times: int) -> Finding:
    """Once more through the chain that made the draws, or more: what is slow shows there, not in one trajectory."""
    move, after = _mover(case.sampler, method, key), (case.positions, case.logdensity)
    for _ in range(times):
        after = move(after[0])
    change = case.functions(*after) - before
    tested = average(change)
    p_value, worst = smallest(tested.p_value), int(np.argmin(tested.p_value))
    verdict, statistic = _judge(p_value, case.threshold), float(tested.statistic[worst])
    moves = f"E[{case.functions.names[worst]}] still {'rises' if statistic > 0 else 'falls'} when the chain goes on"
    words = moves if verdict == "failed" else f"{change.shape[1]} functions stay when the chain goes on"
    return Finding("stationarity", "the chain again", verdict, words, statistic, p_value, _UNSETTLED)


def _leapfrogs(count: int) -> str:
    return f"{count} more leapfrog{'s' if count > 1 else ''}"


def _stein(case: _Case, key: Array, rng: np.random.Generator) -> tuple[list[Finding], int]:
    functions = case.functions
    found = identities(functions, case.sampler.target.names, case.positions, case.gradient)
    tested = average(found.values)
    p_value, worst = smallest(tested.p_value), int(np.argmin(tested.p_value))
    verdict = _judge(p_value, case.threshold)
    held = f"{len(found.names)} identities hold"
    broken = (
        f"E[{found.names[worst]}] is off by {found.values[:, worst].mean():+.3g}, {tested.statistic[worst]:+.1f} errors"
    )
    words = broken if verdict == "failed" else held
    advice = "the draws' scale or place is wrong: more steps, more tuning iterations, or another P0"
    first = Finding("stein", "Stein identities", verdict, words, float(tested.statistic[worst]), p_value, advice)
    rows = rng.choice(len(case.positions), min(_KERNEL_DRAWS, len(case.positions)), replace=False)
    z, force = functions.frame.whiten(case.positions[rows]), case.gradient[rows] @ functions.frame.scale
    value, p_value = kernel_discrepancy(z, force, rng)
    verdict = _judge(p_value, case.threshold)
    words = f"of {len(rows):,} draws, {'larger than' if verdict == 'failed' else 'as'} chance gives it (999 sign flips)"
    second = Finding("stein", "kernel Stein discrepancy", verdict, words, value, p_value, advice)
    return [first, second], len(case.positions)


def _starts(case: _Case, key: Array, rng: np.random.Generator) -> tuple[list[Finding], int]:
    sampler = case.sampler
    if not isinstance(sampler.method, Chained):
        words = f"{sampler.method.name} has no chain that could start elsewhere: a missed mode would not show"
        advice = "compare with a method that has one, such as HEI, or with starts of your own"
        return [Finding("start", "start dependence", "inconclusive", words, advice=advice)], 0
    if isinstance(sampler.method, Annealable) and sampler.kind is Kind.WEIGHTED:
        return _other_initials(case, sampler.method, key, rng)
    n = max(10 * starts.MEMBERS, len(case.positions) // (4 * starts.MEMBERS) * starts.MEMBERS)
    move = _mover(sampler, sampler.method, key)
    half = len(case.positions) // 2
    draws = starts.OwnDraws.of(case.functions, case.positions[half:], case.logdensity[half:])
    paths = {
        name: starts.follow(begin.astype(case.positions.dtype), move)
        for name, begin in starts.starting_points(case.functions, case.positions, n, rng).items()
    }
    p_value, rhat, where = starts.memory(paths["inflated"], draws)
    remembers = p_value < case.threshold and rhat > _FORGOTTEN
    found = [_start_finding(name, path, draws, case.threshold, remembers) for name, path in paths.items()]
    if remembers:
        words = f"chains from one point end nearer to each other than to others in {where}"
        verdict = "inconclusive" if found[0].verdict == "inconclusive" else "failed"
    else:
        little = p_value < case.threshold
        kept = f"remembered, but too little to matter (R-hat below {_FORGOTTEN})" if little else "forgotten"
        words = f"{n // starts.MEMBERS} points, {starts.MEMBERS} chains each: where they started is {kept}"
        verdict = "passed"
    advice = {"passed": "", "inconclusive": _LONGER, "failed": _MODES}[verdict]
    found.append(Finding("start", "nested R-hat", verdict, words, rhat, p_value, advice))
    return found, len(paths) * n * starts.ROUNDS * sampler.depth


def _other_initials(case: _Case, method: Annealable, key: Array, rng: np.random.Generator) -> tuple[list[Finding], int]:
    """Weighted draws, annealed from other P0s: their weights must make up for it."""
    sampler, half = case.sampler, len(case.positions) // 2
    draws = starts.OwnDraws.of(case.functions, case.positions[half:], case.logdensity[half:])
    found, spent = [], 0
    for index, (name, (shift, factor)) in enumerate(_OTHER.items()):
        params = method.elsewhere(sampler.params, shift, factor)
        other = Sampler(sampler.target, method, params)
        run_key, pick_key = jax.random.split(jax.random.fold_in(key, index))
        fresh = other.sample(run_key, 2 * half, weighted=True, progress=False)
        positions, logdensity = _separate(fresh, pick_key)
        spent += fresh.cost.gradients
        name, worth = f"start: {name}", fresh.effective_size() / len(fresh)
        if len(positions) < 10 * starts.MEMBERS or not np.isfinite(logdensity).all():
            words = f"its weights are worth {worth:.0%} of its draws: this start says nothing"
            found.append(Finding("start", name, "inconclusive", words, worth, None, _TEMPERATURES))
            continue
        theirs = draws.look(positions, logdensity)
        means, shapes = two_averages(draws.values, theirs), two_samples(draws.ordered, theirs)
        p_values = np.minimum(1, 2 * np.minimum(means.p_value, shapes.p_value))
        p_value, worst = smallest(p_values), int(np.argmin(p_values))
        verdict = _judge(p_value, case.threshold)
        away = f"{case.functions.names[worst]} is {theirs.mean(axis=0)[worst] - draws.values.mean(axis=0)[worst]:+.2g}"
        words = "annealed from another P0, it is the same" if verdict == "passed" else f"{away} spreads away from it"
        found.append(Finding("start", name, verdict, words, worth, p_value, _TEMPERATURES))
    return found, spent


_TEMPERATURES = "more temperatures (eg.HAIS), or a P0 that covers the target: the weights are too uneven"
_MODES = "separate modes, whose weights P0 decides: anneal (HAIS), or cover them with P0 and check their weights"
_LONGER = "the chain is too short for other starts than its own: more steps, or larger ones"


def _start_finding(
    name: str, path: starts.Followed, draws: starts.OwnDraws, threshold: float, remembers: bool
) -> Finding:
    moved = float(path.moved().mean())
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
            "start", name, "inconclusive", f"has not settled: {away}, and moving", seen.distance, seen.differs, _LONGER
        )
    advice = _MODES if remembers else _UNSETTLED
    return Finding("start", name, "failed", f"settles elsewhere: {away}", seen.distance, seen.differs, advice)


def _mover(sampler: Sampler, method: Chained, key: Array) -> starts.Move:
    """Once through the sampler's chain, in chunks; a new key every time."""
    calls = itertools.count()
    size = default_chunk(sampler.target.dim)

    def move(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        moved, levels = np.empty_like(positions), np.empty(len(positions), positions.dtype)
        for at in range(0, len(positions), size):
            rows = slice(at, min(at + size, len(positions)))
            block = np.resize(positions[rows], (size, positions.shape[1]))  # the program that draws
            batch = method.chain(
                sampler.target, sampler.params, jnp.asarray(block), jax.random.fold_in(key, next(calls))
            )
            moved[rows], levels[rows] = (np.asarray(v)[: rows.stop - at] for v in (batch.position, batch.logdensity))
        return moved, levels

    return move


def _evidence(sampler: Sampler, key: Array) -> tuple[list[Finding], int]:
    """log Z, and P0's entropy against the target's."""
    found = evidence_of(sampler, key)
    words = f"{found.log_z:.4f} ± {found.error:.4f}; E[log π*] {found.expected_logdensity:.4f}"
    sure = found.error < _ROUGH and found.weight_ess >= _WEIGHTS
    advice = "a chain whose steps suit the tempered targets too, or eg.HAIS with more temperatures"
    findings = [
        Finding("evidence", "log Z", "passed" if sure else "noted", words, found.log_z, None, "" if sure else advice),
        Finding("evidence", "effective weights", "noted", "of 1,000 annealed runs", found.weight_ess),
    ]
    entropy = float(sampler.params.initial.entropy())
    wide = entropy >= found.entropy - 2 * found.entropy_error
    words = f"H(P0) = {entropy:.2f} nats, H(π) = {found.entropy:.2f} ± {found.entropy_error:.2f}"
    words += "" if wide else ": P0 is too narrow for the paper's objective"
    advice = "" if wide else 'a wider P0, or entropy_floor="auto"'
    verdict = "passed" if wide else "noted"
    findings.append(Finding("evidence", "entropy of π", verdict, words, entropy - found.entropy, None, advice))
    return findings, found.cost.gradients
