"""Cells of the generative study: one way of training on one data set with one seed, trained, judged, kept on disk.

A cell's folder has its checkpoint, the models kept at parts of the budget, and for each of those a likelihood file; a
study that was killed goes on in the middle of a training run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypedDict

import jax
import numpy as np

from ergodic.datasets import images as image_data
from ergodic.generative.checkpoints import Checkpoint, write_checkpoint
from ergodic.generative.likelihood import Annealing, LikelihoodSummary, likelihood_gap, log_likelihood
from ergodic.generative.training import Row, Trained, read_mark, train
from ergodic.generative.training_settings import Budget, Recipe, RecipeSettings
from ergodic.runtime.files import write_atomically

from ..harness.cells import Cell, name_of
from ..measures.importance import importance_bound

Tell = Callable[[Row], None]


class Mark(LikelihoodSummary, total=False):
    """A model at a part of its budget, and how likely it makes the test images."""

    mark: float
    seconds: float
    iterations: int
    epochs: float
    values: list[float]
    """log p(y) of every image."""
    errors: list[float]
    importance_bound: float
    sandwich: dict[str, float]


class Result(TypedDict):
    """A model: how it was trained, and its marks."""

    data: str
    label: str
    seed: int
    recipe: RecipeSettings
    budget: dict[str, object]
    compile_seconds: float
    history: dict[str, list[float | None]]
    marks: list[Mark]


@dataclass(frozen=True)
class Effort:
    """How long a model is trained and how closely it is looked at.

    Attributes:
      marks: parts of the budget after which the model is judged; the last is 1.
      judged: test images, the same for all cells.
      simulated: images made up by the model, for the sandwich.
      importance: draws per image of the importance-weighted bound.
    """

    budget: Budget
    marks: tuple[float, ...]
    annealing: Annealing
    judged: int
    simulated: int
    importance: int


@dataclass(frozen=True)
class Trial:
    """What is trained: a recipe, by its label, on images of a data set."""

    data: str
    label: str
    recipe: Recipe
    seed: int
    effort: Effort

    def folder(self, root: Path) -> Path:
        """The folder where it is kept, whose name holds its settings."""
        return root / name_of((self.data, self.label, self.seed), [self.recipe.describe(), asdict(self.effort.budget)])

    def inherit(self, root: Path, other: Trial) -> None:
        """Take the first stage from a trial that is nothing but that stage, where it is on disk: it is the same run.

        And how it was judged: the same models, images and keys.
        """
        here, end = self.folder(root), self.recipe.ends()[0]
        first = replace(self.recipe, stages=other.recipe.stages) == other.recipe
        same = first and other.recipe.stages[0].encoder == self.recipe.stages[0].encoder and other.seed == self.seed
        there = other.folder(root) / f"mark-{end:g}"
        if not same or end == 1 or (here / "checkpoint").is_file() or not there.is_file():
            return
        for mark in (*(mark for mark in self.effort.marks if mark <= end), end):
            write_checkpoint(here / f"mark-{mark:g}", self.recipe.describe(), other.model(root, mark))
            for judged in other.folder(root).glob(f"judged-{mark:g}-*.json"):
                write_atomically(here / judged.name, judged.read_bytes())
        write_checkpoint(here / "checkpoint", self.recipe.describe(), other.model(root, end))

    def train(self, root: Path, tell: Tell | None = None) -> Trained:
        """Train, or go on training; at once where it is done."""
        data, key = image_data.load(self.data), jax.random.fold_in(jax.random.key(self.seed), 1)
        return train(
            data.train, self.recipe, self.effort.budget, key, self.folder(root), marks=self.effort.marks, tell=tell
        )

    def model(self, root: Path, mark: float = 1.0) -> Checkpoint:
        """The training state at a part of the budget."""
        shape = image_data.load(self.data).train.shape
        return read_mark(self.folder(root), f"mark-{mark:g}", self.recipe, shape)

    def judged(self, root: Path, mark: float) -> Cell[Mark]:
        """The judgement of the model at a mark: a cell in the trial's folder; other settings judge it anew."""
        settings = [asdict(self.effort.annealing), self.effort.judged]
        return Cell(("judged", f"{mark:g}"), settings, partial(self._judge, root, mark))

    def _judge(self, root: Path, mark: float, path: Path) -> Mark:
        """log p(y) of test images at a mark."""
        data, kept = image_data.load(self.data), self.model(root, mark)
        decoder, key = kept.state.decoder, jax.random.fold_in(jax.random.key(self.seed), 2)
        found = log_likelihood(decoder, data.test[: self.effort.judged], key, self.effort.annealing)
        epoch = len(data.train) // self.recipe.batch
        summary = found.summary()
        result: Mark = {
            "mark": mark,
            "seconds": kept.seconds,
            "iterations": int(kept.state.iteration),
            "epochs": int(kept.state.iteration) / epoch,
            "images": summary["images"],
            "log_likelihood": summary["log_likelihood"],
            "error": summary["error"],
            "error_over_images": summary["error_over_images"],
            "effective": summary["effective"],
            "values": np.round(found.value, 4).tolist(),
            "errors": np.round(found.error, 4).tolist(),
        }
        encoder = kept.state.parameters.get("encoder")
        if encoder is not None and self.effort.importance:
            bound = importance_bound(decoder, encoder, data.test[: self.effort.judged], key, self.effort.importance)
            result["importance_bound"] = float(bound.mean())
        if mark == self.effort.marks[-1] and self.effort.simulated:
            result["sandwich"] = likelihood_gap(decoder, key, self.effort.simulated, self.effort.annealing)._asdict()
        return result

    def result(self, root: Path, tell: Tell | None = None) -> Result:
        """Train and judge at every mark."""
        trained = self.train(root, tell)
        return {
            "data": self.data,
            "label": self.label,
            "seed": self.seed,
            "recipe": self.recipe.describe(),
            "budget": asdict(self.effort.budget),
            "compile_seconds": trained.compile_seconds,
            "history": _thinned(trained.history),
            "marks": [self.judged(root, mark).result(self.folder(root)) for mark in self.effort.marks],
        }

    def finished(self, root: Path) -> bool:
        """Whether training is over."""
        return (self.folder(root) / f"mark-{self.effort.marks[-1]:g}").is_file()


def _thinned(history: dict[str, np.ndarray], rows: int = 60) -> dict[str, list[float | None]]:
    """Some rows of a history, for plots; nothing where a stage had no such number."""
    count = len(history["seconds"])
    chosen = np.unique(np.linspace(0, count - 1, min(rows, count)).astype(int))
    return {
        name: [None if np.isnan(value) else round(float(value), 4) for value in np.asarray(column, float)[chosen]]
        for name, column in history.items()
    }
