"""What the certificate of a chain that was just tuned says of what to do next (`gei.py`)."""

from __future__ import annotations

from ..certificate import Finding
from ..runtime.drawing import Kind
from ..sampler import Sampler

_NEARER, _FEW = 0.75, 0.15
"""What share of the pairs that were left a longer chain must not leave; shares of pairs below this say nothing."""


def failed(sampler: Sampler) -> bool:
    """Whether there is evidence against it; or, for weighted draws, whether they are worth too little to tell."""
    certificate = sampler.certificate
    if certificate is None or _untunable(sampler):
        return False
    return certificate.passed is False or (sampler.kind is Kind.WEIGHTED and certificate.passed is None)


def short(sampler: Sampler) -> bool:
    """Whether nothing failed, but other starts than its own have not settled yet: a longer chain would tell."""
    late = any(finding.group == "start" and finding.verdict == "inconclusive" for finding in _findings(sampler))
    return late and not _untunable(sampler)


def biased(sampler: Sampler) -> bool:
    """Whether all that speaks against it is that averages are a little off still: a longer chain mends that."""
    return {finding.name for finding in _findings(sampler) if finding.verdict == "failed"} == {"coupled chains"}


def rank(sampler: Sampler) -> int:
    """How little speaks against it."""
    return 0 if sampler.certificate is None else {True: 2, None: 1, False: 0}[sampler.certificate.passed]


def no_nearer(longer: Sampler, before: Sampler) -> bool:
    """Whether pairs of chains that do not meet do not meet in a longer chain either: they live in separate modes."""
    return min(_apart(longer), _apart(before)) > _FEW and _apart(longer) > _NEARER * _apart(before)


def _untunable(sampler: Sampler) -> bool:
    """Whether what is wrong is the density itself, which no tuning mends (`diagnostics/edges.py`)."""
    names = ("infinite values", "support", "NaN")
    return any(finding.name in names and finding.verdict != "noted" for finding in _findings(sampler))


def _apart(sampler: Sampler) -> float:
    return max((finding.statistic or 0.0 for finding in _findings(sampler) if finding.name == "meeting"), default=0.0)


def _findings(sampler: Sampler) -> tuple[Finding, ...]:
    return () if sampler.certificate is None else sampler.certificate.findings
