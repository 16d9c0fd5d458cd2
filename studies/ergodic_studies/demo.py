"""The figure and the page of `ergodic demo`: histograms of exact draws and of ours, and the chains' paths."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import jax
import jax.numpy as jnp

from ergodic.chain import ChainParams
from ergodic.charts import chart_at
from ergodic.cli.demo import Run
from ergodic.kernels.affine import AffineParams
from ergodic.methods import GEI
from ergodic.methods.schedule import GEIParams
from ergodic.runtime.files import write_atomically
from ergodic.targets.synthetic import SYNTHETIC

from .harness.results import commit
from .paper.synthetic_views import chain_view, write_views
from .report.histograms import Panel, histogram_grid
from .report.page import write_page
from .report.style import save_figure


def illustrate(out: Path, runs: Sequence[Run], seed: int) -> Mapping[str, Path]:
    """Write the figure and the page beside the demo's ``results.json``, which also gets the commit of this checkout."""
    exact_panels, our_panels, paths = [], [], []
    for row, sampler, ours, exact in runs:
        method = sampler.method
        if isinstance(method, GEI) and sampler.params.schedule.beta is None:
            chain = _chain(sampler.params)
            paths.append(chain_view(row.target, method.name, method.kernel, chain, jax.random.key(seed + 1)))
        view = SYNTHETIC[row.target].view
        exact_panels.append(Panel(exact, view, f"({row.letter}) {row.target}", f"−E log π* = {row.exact:.3f}"))
        our_panels.append(Panel(ours, view, "", f"{row.estimate:.3f}   SW {row.distance:.3f} (floor {row.floor:.3f})"))
    figure = histogram_grid([exact_panels, our_panels], ["exact draws", f"eg.fit, {runs[0].sampler.method.name}"])
    write_views(out, paths)
    results = out / "results.json"
    document = json.loads(results.read_text())
    document["versions"]["commit"] = commit()
    write_atomically(results, (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode())
    return {"figure": save_figure(figure, out / "demo.png"), "report": write_page(out)}


def _chain(params: GEIParams) -> ChainParams:
    """A greedy schedule as a chain with a chart per step, for looking at with its kernel."""
    schedule = params.schedule
    charts = chart_at(params.charts, schedule.which)
    varied = jnp.ones_like(schedule.step) if schedule.varied is None else schedule.varied
    return ChainParams(params.initial, AffineParams(schedule.step, schedule.leapfrogs, charts, varied))
