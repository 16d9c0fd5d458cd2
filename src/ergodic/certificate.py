"""The certificate: evidence that draws are from the target, or a plain statement that they are not.

A `Certificate` holds findings, each a named test with its statistic, p-value and a sentence; `Sampler.certify` makes
one (`diagnostics/certify.py` does the work), a sampler's file keeps it.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .runtime import html
from .runtime.errors import ConfigError
from .runtime.programs import Cost, compiled
from .runtime.validation import one_of, record
from .target import Density, Target

VERDICTS = ("passed", "failed", "inconclusive")
_VACUOUS = 0.5
"""A bound above this is no evidence, and is not printed as such."""


@dataclass(frozen=True)
class Finding:
    """One test.

    Attributes:
      group: what kind of evidence: ``"stationarity"``, ``"stein"``, ``"start"``, ``"health"``, ``"evidence"`` or
        ``"distance"``.
      name: the test.
      verdict: ``"passed"``, ``"failed"``, ``"inconclusive"``, or ``"noted"``: worth knowing, without weight.
      statistic: its value, where it has one.
      p_value: corrected for all that this test looked at, where it has one.
      words: what was seen.
      advice: what to try, when it did not pass.
    """

    group: str
    name: str
    verdict: str
    words: str
    statistic: float | None = None
    p_value: float | None = None
    advice: str = ""


@dataclass(frozen=True)
class Bound:
    """How far the draws' law P_T can be from the target, by coupled chains (`diagnostics/meeting.py`).

    It holds for what these chains visit: of a region that none of them reached it says nothing.

    Attributes:
      total_variation: TV(P_T, π) is at most this, with the confidence given; 1 says nothing.
      confidence: of that limit, whatever the number of pairs.
      pairs: of chains.
      curve: the same limits for chains of T, 2 T, 3 T, ... transitions.
      means: the estimates that they are limits of.
      gradients: what following the pairs cost.
      wasserstein: limits of W1(P_T, π), W1(P_2T, π), ..., for Euclidean distances of unconstrained positions, whose
        coordinates are in units of their spread; so for all means of functions that rise by no more than that.
    """

    total_variation: float
    confidence: float
    pairs: int
    curve: tuple[float, ...]
    means: tuple[float, ...]
    gradients: int
    wasserstein: tuple[float, ...] = ()

    def __str__(self) -> str:
        further = ", ".join(f"{value:.2g}" for value in self.curve[1:4])
        return (
            f"total variation from the target at most {self.total_variation:.2g} ({self.confidence:.0%} confidence, "
            f"{self.pairs:,} pairs of chains; {further} for chains 2, 3, 4 times as long), as far as chains came"
        )


@dataclass(frozen=True)
class Certificate:
    """What was found on fresh draws of a sampler.

    Attributes:
      findings: one a test.
      draws: how many fresh draws were looked at.
      level: the probability, at most, that sound draws are failed: shared out evenly over the tests.
      cost: what certifying cost, the fresh draws included.
      drawing: gradients of the fresh draws alone.
      bound: on the distance between the draws' law and the target; None where there is none.
      passes: how often the chain should be gone through, as pairs of chains say: 1 where once is enough, 0 where they
        do not know or there are none.
    """

    findings: tuple[Finding, ...]
    draws: int
    level: float
    cost: Cost
    drawing: int
    bound: Bound | None = None
    passes: int = 0

    @property
    def verdict(self) -> str:
        """``"failed"`` if any test failed; else ``"inconclusive"`` if any could not tell; else ``"passed"``."""
        verdicts = {finding.verdict for finding in self.findings} or {"inconclusive"}
        return next((word for word in ("failed", "inconclusive") if word in verdicts), "passed")

    @property
    def passed(self) -> bool | None:
        """True, False, or None for inconclusive."""
        return {"passed": True, "failed": False, "inconclusive": None}[self.verdict]

    def advice(self) -> tuple[str, ...]:
        """What to try, at most three things, most weighty first."""
        order = [f for verdict in ("failed", "inconclusive") for f in self.findings if f.verdict == verdict]
        return tuple(dict.fromkeys(finding.advice for finding in order if finding.advice))[:3]

    def summary(self, *, all: bool = False) -> str:
        """The findings as a table in plain text, then the verdict and what to try.

        What is only noted says how hard a chain has to work (a narrow P0, diverging transitions, idle steps), and is
        no evidence against its draws: they would fail the tests. It is shown with ``all=True``.
        """
        rows = [("", "test", "statistic", "p-value", "what was seen")]
        marks = {"passed": "✓", "failed": "✗", "inconclusive": "?", "noted": "·"}
        shown = [f for f in self.findings if all or f.verdict != "noted"]
        for f in shown:
            rows.append((marks[f.verdict], f.name, _number(f.statistic), _p(f.p_value), f.words))
        widths = [max(len(row[i]) for row in rows) for i in range(4)]
        lines = [
            f"{mark:<{widths[0]}}  {name:<{widths[1]}}  {statistic:>{widths[2]}}  {p:>{widths[3]}}  {words}"
            for mark, name, statistic, p, words in rows
        ]
        lines.append(f"certificate: {self.verdict} ({self.draws:,} fresh draws; {_LEGEND[self.verdict]})")
        return "\n".join([*lines, *self._below(len(shown))])

    def _below(self, shown: int) -> Iterator[str]:
        """What stands below the table: the bound, how much is not shown, and what to try."""
        if self.bound is not None and self.bound.total_variation < _VACUOUS:
            yield f"bound: {self.bound}"
        if hidden := len(self.findings) - shown:
            yield f"noted besides, without weight: {hidden} more, in summary(all=True)"
        yield from (f"  try: {words}" for words in self.advice())

    def _repr_html_(self) -> str:
        rows = [
            (f.name, _number(f.statistic), _p(f.p_value), html.badge(f.verdict), html.Html(html.text(f.words)))
            for f in self.findings
            if f.verdict != "noted"
        ]
        verdict = f"{html.badge(self.verdict)} {html.text(f'{self.draws:,} fresh draws; {_LEGEND[self.verdict]}')}"
        return html.panel(
            "Certificate",
            verdict,
            html.table(("test", "statistic", "p-value", "", "what was seen"), rows),
            *(html.text(line.strip()) for line in self._below(len(rows))),
        )

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for a file's header."""
        return asdict(self)

    @staticmethod
    def from_dict(parts: dict[str, Any]) -> Certificate:
        """Read back what `to_dict` gave; an error that names what is none of a certificate."""
        listed = parts.get("findings")
        if not isinstance(listed, list | tuple) or not listed:
            raise ConfigError("a certificate must have findings")
        findings = tuple(record(Finding, finding, "a finding") for finding in listed)
        for finding in findings:
            one_of(finding.verdict, (*VERDICTS, "noted"), "a finding's verdict")
        bound = parts.get("bound")
        if bound is not None:
            bound = record(Bound, bound, "a bound")
        cost = record(Cost, parts.get("cost"), "a certificate's cost")
        made: dict[str, Any] = {"findings": findings, "cost": cost, "bound": bound}
        types = {name: kind for name, kind in inspect.get_annotations(Certificate).items() if name not in made}
        rest = {name: value for name, value in parts.items() if name not in made}
        return record(partial(Certificate, **made), rest, "a certificate", types)

    def __repr__(self) -> str:
        return f"Certificate({self.verdict}: {sum(f.verdict == 'passed' for f in self.findings)} tests passed of " + (
            f"{sum(f.verdict != 'noted' for f in self.findings)}, {self.draws:,} fresh draws)"
        )


class Witness(NamedTuple):
    """A density at a few points: what a certificate in a file says of the target that it is about."""

    position: Float[np.ndarray, "points dim"]
    logdensity: Float[np.ndarray, "points"]
    gradient: Float[np.ndarray, "points dim"]

    @staticmethod
    def of(target: Target, draws: np.ndarray | None) -> Witness:
        """The density at some of the certified draws, or, where there are none, at draws of N(0, I)."""
        if draws is None or not len(draws):
            draws = np.random.default_rng(0).normal(size=(_POINTS, target.dim))
        rows = np.linspace(0, len(draws) - 1, _POINTS).astype(int)
        return Witness.at(target, draws[rows].astype(target.dtype))

    @staticmethod
    def at(target: Target, position: np.ndarray) -> Witness:
        """The density at these points."""
        x = jnp.asarray(position)
        values = jax.device_get(compiled(_look, (target.density,), x)(x))
        return Witness(position, *map(np.asarray, values))

    def agrees(self, other: Witness) -> bool:
        """Whether two looks at the same points saw one density, but for the rounding of another machine."""
        levels, forces = _Same(self.logdensity, other.logdensity), _Same(self.gradient, other.gradient)
        return levels.within(_LEVEL, 0.0) and forces.within(0.0, _SHARE)


_POINTS = 8
_LEVEL, _ROUNDING, _SHARE = 0.02, 1e-5, 0.01
"""Nats by which log π* may differ, with the share of its size; the share of its spread by which a force may."""


class _Same(NamedTuple):
    """Values of one thing, seen twice."""

    one: np.ndarray
    other: np.ndarray

    def within(self, least: float, share: float) -> bool:
        """Whether they differ by rounding, by so much, or by a share of their spread in a column, at most.

        Both are not finite in the same places.
        """
        eps = float(jnp.finfo(self.one.dtype).eps)  # type: ignore[no-untyped-call]
        one, other = self.one.astype(np.float64), self.other.astype(np.float64)
        if one.shape != other.shape or not np.array_equal(np.isfinite(one), np.isfinite(other)):
            return False
        one, other = np.where(np.isfinite(one), one, 0), np.where(np.isfinite(other), other, 0)
        rounding = max(_ROUNDING, 8 * eps) * np.abs(one).max(axis=0)
        allowed = least + rounding + share * (one.max(axis=0) - one.min(axis=0)) + 1e-12
        return bool((np.abs(one - other) <= allowed).all())


def _look(density: Density, position: Array) -> tuple[Array, Array]:
    return density.batched(position)


_LEGEND = {
    "passed": "nothing speaks against them; a mode that no start reached would not show",
    "failed": "there is evidence against them",
    "inconclusive": "nothing failed, but something could not be tested",
}


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _p(value: float | None) -> str:
    if value is None or math.isnan(value):
        return ""
    return "< 1e-12" if value < 1e-12 else f"{value:.2g}"
