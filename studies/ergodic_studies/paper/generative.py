"""Section 4.2: deep generative models trained with a chain as the encoder, against its baselines, at equal time.

Table 4 (test log-likelihood), Table 3 right (seconds an epoch), Figures 6b and 6c (convergence on single images), the
likelihood against training time, and pictures. Time is that of one processor (`Budget.clock`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ergodic.datasets import images as image_data
from ergodic.generative import ErgodicEncoder, VAEEncoder
from ergodic.generative.likelihood import Annealing
from ergodic.generative.recipes import recipes
from ergodic.generative.training_settings import Budget, Recipe, Stage
from ergodic.runtime.errors import ConfigError, unknown
from ergodic.runtime.validation import one_of

from ..harness.results import write_results
from .generative_cells import Cell, Effort
from .generative_chain import chain_curves
from .generative_tables import likelihood_table, paired_table, timing_table
from .generative_timing import epoch_seconds

FIGURE = "HEI"
"""The label whose chain Figures 6b and 6c show."""


@dataclass(frozen=True)
class Preset:
    """How much is run."""

    data: str
    recipes: dict[str, Recipe]
    seeds: int
    effort: Effort
    timing: tuple[int, ...]
    """T of Table 3."""
    repeats: int
    shown: int = 5
    """Images of Figure 6."""
    chains: int = 100
    """An image, there."""


def preset_of(name: str, data: str) -> Preset:
    """The preset for a data set."""
    one_of(name, ("smoke", "cpu", "paper"), "preset")
    small = data == "digits"
    if name == "smoke":
        few = {
            "VAE": Recipe((Stage(VAEEncoder()),), batch=64),
            "HEI": Recipe((Stage(ErgodicEncoder(steps=3, leapfrogs=2)),), batch=64),
            "HEI warm": Recipe(
                (Stage(VAEEncoder()), Stage(ErgodicEncoder(steps=2, leapfrogs=2, start="encoder"))), batch=64
            ),
        }
        epochs = Budget(epochs=1 if small else 0.01)
        return Preset(data, few, 1, Effort(epochs, (0.5, 1.0), Annealing(20, 1, 4), 8, 4, 50), (2,), 1, 2, 4)
    if name == "paper":
        closely = Annealing(1000, 5, 100, acceptance=0.7, schedule="sigmoid", particles=20_000)
        hours = Effort(Budget(seconds=6 * 3600.0), (0.25, 0.5, 1.0), closely, 10_000, 500, 5000)
        return Preset(data, recipes(30, 5), 1, hours, (15, 30), 5)
    quickly = Annealing(500, 2, 8)
    if small:
        minutes = Budget(seconds=120.0, clock="processor")
        effort = Effort(minutes, (0.125, 0.25, 0.5, 1.0), quickly, 300, 100, 1000)
        return Preset(data, recipes(10, 5), 3, effort, (15, 30), 5)
    hour = Budget(seconds=3600.0, clock="processor")
    return Preset(data, recipes(10, 5), 1, Effort(hour, (0.5, 1.0), quickly, 100, 20, 1000), (15, 30), 7)


def reproduce(
    preset: str,
    out: Path,
    say: Callable[[str], None] = print,
    *,
    data: str = "digits",
    methods: Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
    collect: bool = False,
    tell: Callable[[str, dict[str, Any]], None] | None = None,
) -> dict[str, Any]:
    """Train and judge what is missing, then write tables, figures and ``results.json`` under ``out``.

    Args:
      methods, seeds: some only, so that several processes may share the work; their results are then not written.
      collect: train nothing; tables of what is finished.
      tell: called about every second of training with the cell's name and its latest numbers.
    """
    size = preset_of(preset, data)
    for label in methods or ():
        if label not in size.recipes:
            raise ConfigError(unknown("way of training", label, size.recipes))
    cells = [
        _cell(size, label, seed)
        for seed in (range(size.seeds) if seeds is None else seeds)
        for label in (size.recipes if methods is None else methods)
    ]
    root = out / "cells"
    if collect:
        missing = [f"{cell.label} (seed {cell.seed})" for cell in cells if not cell.finished(root)]
        if missing:
            say(f"not finished, so not in the tables: {', '.join(missing)}")
        cells = [cell for cell in cells if cell.finished(root)]
    done = []
    for index, cell in enumerate(cells):
        name = f"{cell.label}, seed {cell.seed}"
        if "VAE" in size.recipes:
            cell.inherit(root, _cell(size, "VAE", cell.seed))
        result = cell.result(root, tell and partial(tell, name))
        done.append(result)
        last = result["marks"][-1]
        say(
            f"[{index + 1:>2}/{len(cells)}] {name:28s} {last['seconds']:,.0f} s  {last['epochs']:,.1f} epochs  "
            f"log p(y) {last['log_likelihood']:.3f} ± {last['error']:.3f}  ESS {last['effective']:.1f}"
        )
    if not done:
        raise ConfigError(f"nothing under {root} is finished yet")
    if methods is not None or seeds is not None:
        return {"tables": [likelihood_table(done, list(size.recipes), size.effort.annealing.chains, data)]}
    say("measuring seconds an epoch")
    timing = epoch_seconds(data, size.timing, 5, 128 if preset != "smoke" else 64, size.repeats)
    tables = [
        likelihood_table(done, list(size.recipes), size.effort.annealing.chains, data),
        paired_table(done, list(size.recipes), data),
        timing_table(timing),
    ]
    say("drawing figures")
    figures, curves = _figures(size, cells, done, root, out)
    config = {
        "preset": preset,
        "data": data,
        "seeds": size.seeds,
        "budget": asdict(size.effort.budget),
        "annealing": asdict(size.effort.annealing),
        "judged": size.effort.judged,
        "recipes": {label: recipe.describe() for label, recipe in size.recipes.items()},
    }
    command = f"ergodic reproduce generative --preset {preset} --data {data}" + (" --collect" if collect else "")
    results = {"cells": [_short(cell) for cell in done], "timing": timing, "chain": curves}
    write_results(out, "generative", command, config, results, tables=tables, figures=figures)
    return {"tables": tables, **results}


def _cell(size: Preset, label: str, seed: int) -> Cell:
    return Cell(size.data, label, size.recipes[label], seed, size.effort)


def _short(cell: dict[str, Any]) -> dict[str, Any]:
    """A cell without what is long: values of single images are in its folder."""
    marks = [{k: v for k, v in mark.items() if k not in ("values", "errors")} for mark in cell["marks"]]
    return {**{k: v for k, v in cell.items() if k != "recipe"}, "marks": marks}


def _figures(
    size: Preset, cells: list[Cell], done: list[dict[str, Any]], root: Path, out: Path
) -> tuple[list[dict[str, str]], dict[str, Any]]:
    from ..report.likelihoods import against_time, single_images
    from ..report.pictures import image_rows
    from ..report.style import save_figure

    data, curves = image_data.load(size.data), []
    for label in size.recipes:
        group = [cell["marks"] for cell in done if cell["label"] == label]
        if group:
            seconds, values = (
                np.array([[mark[name] for mark in marks] for marks in group]) for name in ("seconds", "log_likelihood")
            )
            curves.append((label, seconds, values))
    unit = "min" if (size.effort.budget.seconds or 0) > 600 else "s"
    save_figure(against_time(curves, unit), out / "likelihood.png")
    figures = [
        {
            "file": "likelihood.png",
            "title": "Test log-likelihood against training time",
            "caption": f"{size.effort.judged} test images, {size.data}; median and range over seeds.",
        }
    ]
    first = {label: next(cell for cell in cells if cell.label == label) for label, _, _ in curves}
    rows: list[tuple[str, np.ndarray]] = [("test images", data.test[:12].astype(float))]
    for label, cell in first.items():
        kept = cell.model(root)
        images = jnp.asarray(data.test[:12], jnp.float32)
        encoder = cell.recipe.stages[-1].encoder
        x = encoder.infer(kept.state.decoder, kept.state.parameters, images, jax.random.key(0))
        rows.append((f"{label},\nreconstructed", np.asarray(kept.state.decoder.mean(x))))
        fancy = jax.random.normal(jax.random.key(1), (12, kept.state.decoder.latents()))
        rows.append((f"{label},\nmade up", np.asarray(kept.state.decoder.mean(fancy))))
    save_figure(image_rows(rows, data.shape), out / "pictures.png")
    figures.append(
        {
            "file": "pictures.png",
            "title": "Reconstructions and samples",
            "caption": "Mean images of latents inferred for test images, and of latents from the prior; seed 0.",
        }
    )
    if FIGURE not in first:
        return figures, {}
    cell = first[FIGURE]
    kept, encoder = cell.model(root), cell.recipe.stages[-1].encoder
    assert isinstance(encoder, ErgodicEncoder)
    annealing = size.effort.annealing
    many = replace(annealing, chains=max(annealing.chains, size.chains))
    found = chain_curves(
        kept.state.decoder,
        encoder,
        kept.state.parameters["transitions"],
        data.test[: size.shown],
        jax.random.key(3),
        many,
    )
    save_figure(single_images(found), out / "convergence.png")
    figures.append(
        {
            "file": "convergence.png",
            "title": "Figures 6b and 6c: convergence on single images",
            "caption": f"{size.shown} test images, a line each; {many.chains} chains from the prior on the posterior "
            "of the decoder that HEI trained, with its tuned parameters and with those it began with. Truth: "
            "annealed importance sampling.",
        }
    )
    return figures, found
