"""A chain as long as a distance asks: the schedule is gone through again and again, as often as coupled chains say.

One pass through all T transitions leaves π unchanged, so k passes are a chain of k T transitions, which is nearer to π.
`Certificate.bound` has a limit of the total variation for k = 1, 2, ...: the least k whose limit is small enough is
taken, and the longer chain is certified anew, with as many pairs as tell so small a distance.
"""

from __future__ import annotations

import jax
import numpy as np
from jaxtyping import Array

from ..protocols import Coupled
from ..runtime.budget import Budget
from ..runtime.drawing import Kind
from ..sampler import Sampler
from .lengthening import longer_by

_TRIES = 3
_KEY = 301


def nearer(method: Coupled, sampler: Sampler, key: Array, distance: float, budget: Budget) -> Sampler:
    """The sampler with a chain as long as the distance asks; the nearest, where it is not reached."""
    best = sampler
    for attempt in range(_TRIES):
        certificate = sampler.certificate
        if budget.over() or (certificate is not None and certificate.passed is False):
            break
        bound = None if certificate is None else certificate.bound
        if certificate is not None and _reached(sampler) > distance and sampler.kind is Kind.INDEPENDENT:
            enough = np.flatnonzero(np.asarray(() if bound is None else bound.curve) <= distance)
            times = int(enough[0]) + 1 if len(enough) else 2 if bound is None else len(bound.curve)
            cost = sampler.cost + certificate.cost  # what decided how long it must be is part of tuning
            sampler = longer_by(method, sampler, times, cost)
        elif certificate is not None and any(finding.name == "distance" for finding in certificate.findings):
            break
        sampler.certify(jax.random.fold_in(key, _KEY + attempt), budget=budget, distance=distance)
        best = sampler if _reached(sampler) <= _reached(best) else best
    return best


def _reached(sampler: Sampler) -> float:
    bound = None if sampler.certificate is None else sampler.certificate.bound
    return 1.0 if bound is None else bound.total_variation
