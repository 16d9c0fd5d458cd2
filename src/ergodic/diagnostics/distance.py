"""A chain as long as a distance asks: the schedule is gone through again and again, as often as coupled chains say.

One pass through all T transitions leaves π unchanged, so k passes are a chain of k T transitions, which is nearer to π.
`Certificate.bound` has estimates of a limit of the total variation for k = 1, 2, ...: the least k is taken whose limit
will be small enough as far as these tell, and the longer chain is certified anew, with as many pairs as tell so small a
distance.
"""

from __future__ import annotations

import math
from dataclasses import replace

import jax
import numpy as np
from jaxtyping import Array

from ..certificate import Bound, Finding
from ..protocols import Coupled
from ..runtime.budget import Budget
from ..runtime.drawing import Kind
from ..sampler import Sampler
from .gathering import Gathered
from .lengthening import longer_by

_TRIES = 3
_TELLING = 15.0
"""Pairs times distance."""
_NONE = 3.7
"""The limit of a share of which nothing was seen, times pairs."""
_KEY = 301
_NAME = "distance"


def nearer(method: Coupled, sampler: Sampler, key: Array, distance: float, budget: Budget) -> Sampler:
    """The sampler with a chain as long as the distance asks; the nearest, where it is not reached."""
    best = sampler
    for attempt in range(_TRIES):
        certificate = sampler.certificate
        if certificate is not None:
            near = _at_most(sampler) <= distance or sampler.kind is not Kind.INDEPENDENT
            if near or budget.over() or certificate.passed is False:
                break
            times = 2 if certificate.bound is None else _times(certificate.bound, distance)
            cost = sampler.cost + certificate.cost  # what decided how long it must be is part of tuning
            sampler = longer_by(method, sampler, times, cost)
        sampler.certify(jax.random.fold_in(key, _KEY + attempt), budget=budget, distance=distance)
        best = sampler if _at_most(sampler) <= _at_most(best) else best
    if best.certificate is not None and not _answered(best):  # it is near enough, or there is no nearer one
        said = reached(best, best.certificate.bound, distance)
        best.certificate = replace(best.certificate, findings=(*best.certificate.findings, said))
    return best


def pairs_for(distance: float) -> int:
    """Pairs of chains that tell whether a distance is reached where a few of them are late."""
    return math.ceil(_TELLING / distance)


def _times(bound: Bound, distance: float) -> int:
    """How many passes it will take: with more pairs, a limit comes nearer to what it is a limit of."""
    mean, pairs = np.asarray(bound.means), max(bound.pairs, pairs_for(distance))
    foreseen = mean + 2 * np.sqrt(mean / pairs) + _NONE / pairs
    enough = np.flatnonzero(np.minimum(foreseen, bound.curve) <= distance)
    return max(2, int(enough[0]) + 1) if len(enough) else len(bound.curve)


def reached(sampler: Sampler, bound: Bound | None, wanted: float) -> Finding:
    """Whether draws are as near to the target as was asked, and if not, why."""
    advice = "a longer chain takes more time: leave out max_seconds, or ask for less"
    if bound is not None:
        near = bound.total_variation
        words = f"total variation at most {near:.2g}, where {wanted:.2g} was asked for"
        advice = "" if near <= wanted else advice
        return Finding("distance", _NAME, "inconclusive" if advice else "passed", words, near, None, advice)
    words, seen = "nothing limits the total variation", sampler.gathered
    if sampler.kind is not Kind.INDEPENDENT:
        words += ": draws of an annealed chain have weights, and its runs are not coupled"
        advice = "ask for no distance, and see what the certificate says of the weights"
    elif isinstance(seen, Gathered) and len(seen.meeting):
        words += f": {len(seen.meeting.which):,} of {len(seen.meeting):,} pairs of chains have not met"
        advice = "chains that hardly ever meet live in separate modes, or one of them is stuck: see what failed"
    else:
        words += ": no pairs of chains were followed before the certificate ended"
    return Finding("distance", _NAME, "inconclusive", words, 1.0, None, advice)


def _answered(sampler: Sampler) -> bool:
    return sampler.certificate is not None and any(each.name == _NAME for each in sampler.certificate.findings)


def _at_most(sampler: Sampler) -> float:
    bound = None if sampler.certificate is None else sampler.certificate.bound
    return 1.0 if bound is None else bound.total_variation
