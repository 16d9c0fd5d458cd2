"""What a certificate says of pairs of chains (`meeting.py`): whether averages are off, and who does not meet."""

from __future__ import annotations

import numpy as np
from scipy import special

from ..certificate import Finding
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
    off = meeting.bias(look) / np.maximum(1, meeting.spread(look))
    tested, error = _averaged(off), off.std(axis=0) / np.sqrt(len(off))
    seeable = error / np.repeat(_VAGUE, len(error) // 2)
    p_value, worst, vague = smallest(tested.p_value), int(np.argmin(tested.p_value)), int(np.argmax(seeable))
    verdict, statistic = judge(p_value, threshold), float(tested.statistic[worst])
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
