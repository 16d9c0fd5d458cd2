"""The main job on the built-in targets: fit the default, draw, and hold the draws against exact ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from ergodic import targets
from ergodic.api import fit
from ergodic.methods import GEI
from ergodic.sampler import Sampler
from ergodic.statistics.wasserstein import noise_floor, sliced_wasserstein
from ergodic.targets.synthetic import PAPER_SIX, SYNTHETIC

from .harness.results import write_results
from .paper.synthetic_views import chain_view, write_views


class Row(NamedTuple):
    """One target's line in the table."""

    target: str
    letter: str
    estimate: float
    """Ours: -E[log π*] over the draws."""
    exact: float
    distance: float
    """Sliced Wasserstein distance from our draws to exact ones."""
    floor: float
    """The same between two exact samples of that size."""
    verdict: str
    """Of the certificate."""
    kind: str
    """``"independent"``, or ``"weighted"`` where modes were found to be separate."""
    depth: int
    """Gradients one draw costs."""
    compile_seconds: float
    tuning_seconds: float
    sampling_seconds: float
    draws_per_second: float


def run(
    method: GEI, draws: int, seed: int, names: tuple[str, ...] = PAPER_SIX
) -> Iterator[tuple[Row, Sampler, np.ndarray, np.ndarray]]:
    """Fit and sample each target in turn; yields its row, the sampler, our draws and exact draws."""
    for name in names:
        target = targets.get(name)
        truth = target.require_truth()
        fit_key, sample_key, exact_key, floor_key = jax.random.split(jax.random.key(seed), 4)
        sampler = fit(target, fit_key, method, progress=False)
        ours = sampler.sample(sample_key, draws, progress=False)
        exact = target.draw_exact(exact_key, draws)
        shown = ours.resample(floor_key, draws) if ours.kind == "weighted" else ours
        yield (
            Row(
                target=name,
                letter=SYNTHETIC[name].letter,
                estimate=-float(ours.mean(ours.logdensity)),
                exact=-truth.expected_logdensity,
                distance=sliced_wasserstein(shown.unconstrained, exact),
                floor=noise_floor(target.draw_exact, floor_key, draws),
                verdict="none" if sampler.certificate is None else sampler.certificate.verdict,
                kind=ours.kind,
                depth=sampler.depth,
                compile_seconds=sampler.cost.compile_seconds + ours.cost.compile_seconds,
                tuning_seconds=sampler.cost.run_seconds,
                sampling_seconds=ours.cost.run_seconds,
                draws_per_second=draws / ours.cost.run_seconds,
            ),
            sampler,
            shown.unconstrained,
            exact,
        )


def demo(out: Path, draws: int, seed: int, show: Callable[[Row], None]) -> tuple[Path, Path]:
    """Run, showing each row as it comes; write ``results.json`` and the figure; returns their paths."""
    from .report.histograms import Panel, histogram_grid
    from .report.style import save_figure

    method = GEI()
    rows: list[Row] = []
    exact_panels, our_panels, paths = [], [], []
    for row, sampler, ours, exact in run(method, draws, seed):
        show(row)
        rows.append(row)
        chain = method.chain(sampler.params)
        if chain is not None:
            paths.append(chain_view(row.target, method.name, method.kernel, chain, jax.random.key(seed + 1)))
        view = SYNTHETIC[row.target].view
        exact_panels.append(Panel(exact, view, f"({row.letter}) {row.target}", f"−E log π* = {row.exact:.3f}"))
        our_panels.append(Panel(ours, view, "", f"{row.estimate:.3f}   SW {row.distance:.3f} (floor {row.floor:.3f})"))
    figure = histogram_grid([exact_panels, our_panels], ["exact draws", f"eg.fit, {method.name}"])
    write_views(out, paths)
    picture = save_figure(figure, out / "demo.png")
    config: dict[str, Any] = {"method": method.name, **asdict(method), "draws": draws, "seed": seed}
    results = write_results(out, "demo", "ergodic demo", config, [row._asdict() for row in rows])
    return results, picture
