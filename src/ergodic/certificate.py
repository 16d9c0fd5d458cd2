"""The certificate: evidence that draws are from the target, or a plain statement that they are not.

A `Certificate` holds findings, each a named test with its statistic, p-value and a sentence; `Sampler.certify` makes
one (`diagnostics/certify.py` does the work), a sampler's file keeps it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from .runtime import html
from .runtime.programs import Cost

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
    """

    total_variation: float
    confidence: float
    pairs: int
    curve: tuple[float, ...]
    means: tuple[float, ...]
    gradients: int

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
    """

    findings: tuple[Finding, ...]
    draws: int
    level: float
    cost: Cost
    drawing: int
    bound: Bound | None = None

    @property
    def verdict(self) -> str:
        """``"failed"`` if any test failed; else ``"inconclusive"`` if any could not tell; else ``"passed"``."""
        verdicts = {finding.verdict for finding in self.findings}
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
        """Read back what `to_dict` gave."""
        findings = tuple(Finding(**finding) for finding in parts["findings"])
        bound = parts.get("bound")
        if bound is not None:
            bound = Bound(**{**bound, "curve": tuple(bound["curve"]), "means": tuple(bound["means"])})
        return Certificate(**{**parts, "findings": findings, "cost": Cost(**parts["cost"]), "bound": bound})

    def __repr__(self) -> str:
        return f"Certificate({self.verdict}: {sum(f.verdict == 'passed' for f in self.findings)} tests passed of " + (
            f"{sum(f.verdict != 'noted' for f in self.findings)}, {self.draws:,} fresh draws)"
        )


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
