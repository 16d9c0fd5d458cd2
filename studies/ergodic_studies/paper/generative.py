"""Section 4.2: deep generative models trained with a chain as the encoder, against its baselines, at equal time.

Table 4 (test log-likelihood), Table 3 right (seconds per epoch), Figures 6b and 6c (convergence on single images), the
likelihood against training time, and pictures. Time is that of one processor (`Budget.clock`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
import typer

from ergodic.cli.generative import describe
from ergodic.datasets import images as image_data
from ergodic.generative import ErgodicEncoder, VAEEncoder
from ergodic.generative.likelihood import Annealing
from ergodic.generative.recipes import recipes
from ergodic.generative.training import Row
from ergodic.generative.training_settings import Budget, Recipe, Stage
from ergodic.runtime.errors import ConfigError, unknown

from ..harness.study import Report, Run, Say, Study
from ..harness.tables import Figure
from .generative_cells import Effort, Result, Trial
from .generative_chain import ChainCurves, chain_curves
from .generative_tables import likelihood_table, paired_table, timing_table
from .generative_timing import epoch_seconds

FIGURE = "HEI"
"""The label whose chain Figures 6b and 6c show."""


@dataclass(frozen=True)
class Size:
    """How much is run on a data set."""

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
    """Chains per image, there."""
    batch: int = 128
    """Images per iteration of what is timed."""


def _smoke(data: str) -> Size:
    few = {
        "VAE": Recipe((Stage(VAEEncoder()),), batch=64),
        "HEI": Recipe((Stage(ErgodicEncoder(steps=3, leapfrogs=2)),), batch=64),
        "HEI warm": Recipe(
            (Stage(VAEEncoder()), Stage(ErgodicEncoder(steps=2, leapfrogs=2, start="encoder"))), batch=64
        ),
    }
    epochs = Budget(epochs=1 if data == "digits" else 0.01)
    return Size(data, few, 1, Effort(epochs, (0.5, 1.0), Annealing(20, 1, 4), 8, 4, 50), (2,), 1, 2, 4, 64)


def _cpu(data: str) -> Size:
    quickly = Annealing(500, 2, 8)
    if data == "digits":
        minutes = Budget(seconds=120.0, clock="processor")
        effort = Effort(minutes, (0.125, 0.25, 0.5, 1.0), quickly, 300, 100, 1000)
        return Size(data, recipes(10, 5), 3, effort, (15, 30), 5)
    hour = Budget(seconds=3600.0, clock="processor")
    return Size(data, recipes(10, 5), 1, Effort(hour, (0.5, 1.0), quickly, 100, 20, 1000), (15, 30), 7)


def _paper(data: str) -> Size:
    closely = Annealing(1000, 5, 100, acceptance=0.7, schedule="sigmoid", particles=20_000)
    hours = Effort(Budget(seconds=6 * 3600.0), (0.25, 0.5, 1.0), closely, 10_000, 500, 5000)
    return Size(data, recipes(30, 5), 1, hours, (15, 30), 5)


PRESETS: dict[str, Callable[[str], Size]] = {"smoke": _smoke, "cpu": _cpu, "paper": _paper}
"""Sizes by name, each given the data set's name."""


def generative(
    run: Run[Callable[[str], Size]],
    *,
    data: Annotated[
        str, typer.Option(help="digits, mnist or fashion-mnist; `ergodic data list` says what is there.")
    ] = "digits",
    methods: Annotated[list[str] | None, typer.Option(help="Some ways of training only; repeatable.")] = None,
    seeds: Annotated[list[int] | None, typer.Option(help="Some seeds only; repeatable.")] = None,
    collect: Annotated[bool, typer.Option("--collect", help="Train nothing; tables of what is finished.")] = False,
) -> Report:
    """Section 4.2: a chain as the encoder of a deep generative model, against VAE, HVI and HVAE, at equal time.

    A run that was stopped goes on where it was, in the middle of training too, when it is started again with the same
    --out. With --methods or --seeds the work can be shared between processes; then --collect.
    """
    size, root, say = run.size(data), run.cells, run.say
    for label in methods or ():
        if label not in size.recipes:
            raise ConfigError(unknown("way of training", label, size.recipes))
    trials = [
        _trial(size, label, seed)
        for seed in (range(size.seeds) if seeds is None else seeds)
        for label in (size.recipes if methods is None else methods)
    ]
    if collect:
        missing = [f"{trial.label} (seed {trial.seed})" for trial in trials if not trial.finished(root)]
        if missing:
            say(f"not finished, so not in the tables: {', '.join(missing)}")
        trials = [trial for trial in trials if trial.finished(root)]
    done: list[Result] = []
    for index, trial in enumerate(trials):
        name = f"{trial.label}, seed {trial.seed}"
        if "VAE" in size.recipes:
            trial.inherit(root, _trial(size, "VAE", trial.seed))
        result = trial.result(root, partial(_tell, run.status, name))
        done.append(result)
        last = result["marks"][-1]
        say(
            f"[{index + 1:>2}/{len(trials)}] {name:28s} {last['seconds']:,.0f} s  {last['epochs']:,.1f} epochs  "
            f"log p(y) {last['log_likelihood']:.3f} ± {last['error']:.3f}  ESS {last['effective']:.1f}"
        )
    if not done:
        raise ConfigError(f"nothing under {root} is finished yet")
    likelihoods = likelihood_table(done, list(size.recipes), size.effort.annealing.chains, data)
    if methods is not None or seeds is not None:
        return Report({}, [likelihoods], whole=False)
    say("measuring seconds per epoch")
    timing = epoch_seconds(data, size.timing, 5, size.batch, size.repeats)
    tables = [likelihoods, paired_table(done, list(size.recipes), data), timing_table(timing)]
    say("drawing figures")
    figures, curves = _figures(size, trials, done, root, run.out)
    config = {
        "preset": run.preset.name,
        "data": data,
        "seeds": size.seeds,
        "budget": asdict(size.effort.budget),
        "annealing": asdict(size.effort.annealing),
        "judged": size.effort.judged,
        "recipes": {label: recipe.describe() for label, recipe in size.recipes.items()},
    }
    results = {"cells": [_short(result) for result in done], "timing": timing, "chain": curves or {}}
    return Report(results, tables, figures, config)


def _tell(status: Say, name: str, row: Row) -> None:
    status(f"{name}: {describe(row)}")


def _trial(size: Size, label: str, seed: int) -> Trial:
    return Trial(size.data, label, size.recipes[label], seed, size.effort)


def _short(result: Result) -> dict[str, object]:
    """A model's result without what is long: values of single images are in its folder."""
    marks = [{k: v for k, v in mark.items() if k not in ("values", "errors")} for mark in result["marks"]]
    return {**{k: v for k, v in result.items() if k != "recipe"}, "marks": marks}


def _figures(
    size: Size, trials: list[Trial], done: list[Result], root: Path, out: Path
) -> tuple[list[Figure], ChainCurves | None]:
    from ..report.likelihoods import against_time, single_images
    from ..report.pictures import image_rows
    from ..report.style import save_figure

    data, curves = image_data.load(size.data), []
    for label in size.recipes:
        group = [cell["marks"] for cell in done if cell["label"] == label]
        if group:
            seconds = np.array([[mark["seconds"] for mark in marks] for marks in group])
            curves.append((label, seconds, np.array([[mark["log_likelihood"] for mark in marks] for marks in group])))
    unit = "min" if (size.effort.budget.seconds or 0) > 600 else "s"
    save_figure(against_time(curves, unit), out / "likelihood.png")
    caption = f"{size.effort.judged} test images, {size.data}; median and range over seeds."
    figures = [Figure("likelihood.png", "Test log-likelihood against training time", caption)]
    first = {label: next(trial for trial in trials if trial.label == label) for label, _, _ in curves}
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
    caption = "Mean images of latents inferred for test images, and of latents from the prior; seed 0."
    figures.append(Figure("pictures.png", "Reconstructions and samples", caption))
    if FIGURE not in first:
        return figures, None
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
    save_figure(single_images({"tuned": found["tuned"], "untuned": found["untuned"]}), out / "convergence.png")
    caption = (
        f"{size.shown} test images, a line each; {many.chains} chains from the prior on the posterior of the decoder "
        "that HEI trained, with its tuned parameters and with those it began with. Truth: annealed importance sampling."
    )
    return [*figures, Figure("convergence.png", "Figures 6b and 6c: convergence on single images", caption)], found


STUDY = Study("generative", "reproduce", PRESETS, generative)
