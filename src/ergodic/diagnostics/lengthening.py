"""A chain that is gone through as often as its own certificate asks for, and what pairs of chains say of it then.

All T transitions together leave π unchanged, so m passes of them are a chain of m T transitions, nearer to π. Pairs
that were followed for more passes than one say how near: they need not be followed again.
"""

from __future__ import annotations

from dataclasses import replace

from ..protocols import Coupled
from ..runtime.programs import Cost
from ..sampler import Sampler
from .gathering import Gathered


def longer_by(method: Coupled, sampler: Sampler, times: int, cost: Cost) -> Sampler:
    """The sampler with so many passes of its chain, not certified yet."""
    params = method.longer(sampler.params, times)
    return replace(sampler, params=params, cost=cost, certificate=None, gathered=None, draws=None)


def as_asked(method: Coupled, sampler: Sampler, cost: Cost) -> Sampler:
    """The sampler with as many passes of its chain as its certificate asks for: itself, where that is one."""
    certificate, seen = sampler.certificate, sampler.gathered
    if certificate is None or certificate.passes < 2 or not isinstance(seen, Gathered):
        return sampler
    longer = longer_by(method, sampler, certificate.passes, cost)
    longer.gathered = seen.of_longer(longer, certificate.passes)
    return longer
