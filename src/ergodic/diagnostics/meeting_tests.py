"""What a certificate says of pairs of chains (`meeting.py`): whether averages are off, and who does not meet."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Array
from scipy import special

from ..certificate import Finding
from ..protocols import Coupled
from ..statistics.hypotheses import Tested, average, smallest, symmetric
from ..statistics.levels import floor_of
from .gathering import Gathered
from .meeting import PASSES, Meeting, Moments
from .starts import SETTLED

UNSETTLED = "the chain has not settled: more steps, or more tuning iterations"
MODES = "separate modes, whose weights P0 decides: anneal (HAIS), or cover them with P0 and check their weights"
LONGER = "the chain is too short for other starts than its own: more steps, or larger ones"
_APART, _UNMET = 0.02, 0.1
"""Shares of pairs that live apart, from which draws fail; and that need not have met, since chains forget sooner."""
_STALLED = 0.75
"""Pairs of which more than this share are left after two more passes live apart."""
_FEW = 100
"""Pairs that are late, from which on the central limit theorem holds for them."""
_VAGUE = 0.1, 0.25
"""Standard deviations by which an average of coordinates, or of their squares, may be off without its being seen."""
_OFTEN, _LEFT = 4, 0.25
"""How often a chain may be gone through, at most; and which share of pairs may not have met by then."""
_MORE = 3
"""So many times more pairs, at most, where these would tell."""
_ELSEWHERE, _SLOW, _LOST = 0.05, 0.2, 0.5
"""Shares of other starts: that live elsewhere, from which draws fail; that are on their way, or that say nothing."""


def judge(p_value: float, threshold: float) -> str:
    """The verdict of a p-value."""
    return "failed" if p_value < threshold else "passed"


def coupled_chains(seen: Gathered, threshold: float) -> list[Finding]:
    """By how much the draws' averages are off, and whether chains from P0 forget each other."""
    meeting = seen.meeting
    if not len(meeting):
        return []
    look = Moments.of(seen.names, seen.usable.position)
    off, tested, error, seeable = _bias(meeting, look, meeting.times)
    p_value, worst, vague = smallest(tested.p_value), int(np.argmin(tested.p_value)), int(np.argmax(seeable))
    verdict, statistic = judge(p_value, threshold), float(tested.statistic[worst])
    seen.passes = _enough(meeting, look, threshold, seen.lengthened)
    words = f"{len(meeting)} pairs: no mean is off by more than chance has it (± {error[vague]:.2g} sd)"
    if verdict == "failed":
        words = f"E[{look.names[worst]}] is off by {-off[:, worst].mean():+.2g} ± {error[worst]:.2g} sd"
    found = [Finding("stationarity", "coupled chains", verdict, words, statistic, p_value, UNSETTLED)]
    share = meeting.unmet()
    left, took = float(share[-1]), int(np.argmax(share <= _UNMET)) + 1
    p_value = _stalled(len(meeting) * share)
    words = f"{left:.1%} of {len(meeting)} pairs of chains have not met after {PASSES} passes"
    if left > _APART and p_value < threshold:
        words += ", and hardly any do any more"
        return [*found, Finding("start", "meeting", "failed", words, left, p_value, MODES)]
    if left > _UNMET:
        return [*found, Finding("start", "meeting", "inconclusive", words, left, p_value, LONGER)]
    if seeable[vague] > 1:
        words = f"E[{look.names[vague]}] may be off by some {error[vague]:.2g} sd: few pairs met late, far away"
        return [*found, Finding("start", "meeting", "inconclusive", words, left, None, LONGER)]
    words = f"chains from P0 forget each other within {took} passes (all but {left:.1%} of {len(meeting)})"
    return [*found, Finding("start", "meeting", "passed", words, left)]


class _Bias(NamedTuple):
    """What pairs say of averages: of every pair, tested, their errors, and these in units of what may go unseen."""

    off: np.ndarray
    tested: Tested
    error: np.ndarray
    seeable: np.ndarray


def _bias(meeting: Meeting, look: Moments, times: int) -> _Bias:
    off = meeting.bias(look, times) / np.maximum(1, meeting.spread(look))
    error = off.std(axis=0) / np.sqrt(len(off))
    return _Bias(off, _averaged(off), error, error / np.repeat(_VAGUE, len(error) // 2))


def _enough(meeting: Meeting, look: Moments, threshold: float, lengthened: bool) -> int:
    """How often a draw should go through the chain, of which it now does so ``meeting.times``; 0: pairs do not say.

    As often as it takes until no average is off by more than chance has it, and none by more than may go unseen. A
    chain that was not made longer before is gone through until three quarters of the pairs have met: what is off by a
    tenth of a standard deviation is less than so few pairs can see.
    """
    unmet = meeting.unmet()
    if unmet[-1] > _UNMET:
        return 0
    least = meeting.times if lengthened else 1 + int(np.argmax(unmet <= _LEFT))
    for times in range(max(meeting.times, least), _OFTEN + 1):
        found = _bias(meeting, look, times)
        if judge(smallest(found.tested.p_value), threshold) == "passed" and found.seeable.max() <= 1:
            return times
    return 0


def too_short(seen: Gathered, threshold: float) -> list[Finding]:
    """Whether pairs ask for a longer chain, which is then not looked at any further."""
    look, meeting = Moments.of(seen.names, seen.usable.position), seen.meeting
    seen.passes = _enough(meeting, look, threshold, seen.lengthened)
    if seen.passes <= meeting.times:
        return []
    share = float(meeting.unmet()[meeting.times - 1])
    words = f"{share:.1%} of {len(meeting)} pairs of chains have not met yet: {seen.passes} passes are better than one"
    return [Finding("start", "meeting", "inconclusive", words, share, None, LONGER)]


def follow_pairs(seen: Gathered, method: Coupled, key: Array) -> None:
    """Pairs of chains; more of them, where these would tell."""
    seen.meet(method, key)
    if (wanted := _telling(seen)) > seen.wanted:
        seen.wanted = wanted
        seen.meet(method, key)


def _telling(seen: Gathered) -> int:
    """How many pairs it takes until what may go unseen is seen, where it is not many more than there are; or 0."""
    pairs = len(seen.meeting)
    if not pairs or seen.meeting.unmet()[-1] > _UNMET:
        return 0
    seeable = _bias(seen.meeting, Moments.of(seen.names, seen.usable.position), seen.meeting.times).seeable.max()
    wanted = math.ceil(pairs * seeable**2)
    return wanted if pairs < wanted <= _MORE * pairs else 0


def other_starts(joining: Meeting, logdensity: np.ndarray, threshold: float) -> list[Finding]:
    """Starts from further out, coupled with the draws: they join them, or they live somewhere else."""
    if not len(joining):
        return []
    apart = joining.apart(floor_of(logdensity))
    left, lost = float(apart[-1]), float(joining.unmet()[-1] - apart[-1])
    words = f"of {len(joining)} starts from further out {1 - left - lost:.1%} join the draws"
    words += f", {lost:.1%} come to nowhere" if lost else ""
    if left > SETTLED:
        words += f", {left:.1%} are somewhere else after {PASSES} passes"
    verdict, advice, p_value = "passed", "", _stalled(len(joining) * apart)
    if left > _ELSEWHERE and p_value < threshold:
        verdict, advice = "failed", MODES
    elif left > _SLOW or left + lost > _LOST:
        verdict, advice = "inconclusive", LONGER
    return [Finding("start", "other starts", verdict, words, left, p_value, advice)]


def _averaged(off: np.ndarray) -> Tested:
    """Whether means are 0, of columns most of which may be exactly 0: what is not is little then, and decides.

    Where that is less than the central limit theorem asks for, the sum must be striking for signs flipped by chance,
    too (`symmetric`), which holds for any number.
    """
    tested, late = average(off), (off != 0).sum(axis=0)
    few = (late > 0) & (late < _FEW)
    return tested._replace(p_value=np.where(few, np.maximum(tested.p_value, symmetric(off).p_value), tested.p_value))


def _stalled(left: np.ndarray) -> float:
    """The p-value that of the pairs left after all but two passes at most `_STALLED` are left at the end."""
    then, now = round(float(left[-3])), round(float(left[-1]))
    return float(special.bdtrc(now - 1, then, _STALLED)) if now else 1.0
