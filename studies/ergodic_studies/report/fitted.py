"""The page of a fitted sampler: its certificate, what it cost, and its chart, if it learned one, as a picture."""

from __future__ import annotations

import tempfile
from pathlib import Path

from ergodic.sampler import Sampler

from ..harness.results import write_results
from ..harness.tables import Figure, Table
from .necks import neck_figure, neck_of
from .page import write_page
from .style import save_figure

_CAPTION = (
    "Left: the draws that were certified, a driver against what it drives the most. Right: the same draws in the "
    "coordinates that were learned from the sampler's particles, in which it moves. A draw has the same colour in both."
)


def write_fitted_page(sampler: Sampler, name: str, command: str, out: Path) -> Path:
    """Write the page of a sampler, under a name and with the command that shows it; returns where it is."""
    told = sampler.chart
    summary = told.summary()
    with tempfile.TemporaryDirectory() as folder:
        figures, neck = [], neck_of(told)
        if neck is not None:
            save_figure(neck_figure(neck), Path(folder) / "chart.png")
            figures.append(Figure("chart.png", "The chart: what drives what", _CAPTION, summary))
        config = {"target": sampler.target.name, "method": sampler.method.settings()}
        tables = [_facts(sampler, summary), *_findings(sampler)]
        write_results(Path(folder), name, command, config, [], tables=tables, figures=figures)
        return write_page(Path(folder), out)


def _facts(sampler: Sampler, summary: str) -> Table:
    """What was fitted, and what it cost."""
    cost, certificate = sampler.cost, sampler.certificate
    rows = [
        ["target", f"{sampler.target.name}, {sampler.target.dim} coordinates"],
        ["method", sampler.method.title],
        ["certificate", "none" if certificate is None else certificate.verdict],
        ["gradients of a draw, one after the other", f"{sampler.depth:,}"],
        ["gradients of tuning, one after the other", f"{cost.depth:,}"],
        ["gradients of tuning", f"{cost.gradients:,}"],
        ["seconds of tuning, and of compiling", f"{cost.run_seconds:.2f} + {cost.compile_seconds:.2f}"],
        *([] if "\n" in summary else [["chart", summary]]),
    ]
    return Table.of("What was fitted", ["", "found"], rows)


def _findings(sampler: Sampler) -> list[Table]:
    """The certificate's findings, where it has one."""
    certificate = sampler.certificate
    if certificate is None:
        return []
    rows = [[finding.name, finding.verdict, finding.words] for finding in certificate.findings]
    note = f"On {certificate.draws:,} fresh draws; a sound one fails with probability {certificate.level:g} at most."
    return [Table.of("Certificate", ["test", "verdict", "what was seen"], rows, note)]
