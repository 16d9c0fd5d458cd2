"""Cells of the generative study: one way of training on one data set with one seed, trained, judged, kept on disk.

A cell's folder has its checkpoint, the models kept at parts of the budget, and for each of those a likelihood file; a
study that was killed goes on in the middle of a training run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ergodic.datasets import images as image_data
from ergodic.generative.checkpoints import write_checkpoint
from ergodic.generative.likelihood import Annealing, likelihood_gap, log_likelihood
from ergodic.generative.training import Trained, read_mark, train
from ergodic.generative.training_settings import Budget, Recipe
from ergodic.runtime.files import write_atomically
from ergodic_studies.measures.importance import importance_bound


@dataclass(frozen=True)
class Effort:
    """How long a model is trained and how closely it is looked at.

    Attributes:
      marks: parts of the budget after which the model is judged; the last is 1.
      judged: test images, the same for all cells.
      simulated: images made up by the model, for the sandwich.
      importance: draws an image of the importance-weighted bound.
    """

    budget: Budget
    marks: tuple[float, ...]
    annealing: Annealing
    judged: int
    simulated: int
    importance: int


@dataclass(frozen=True)
class Cell:
    """What is trained: a recipe, by its label, on images of a data set."""

    data: str
    label: str
    recipe: Recipe
    seed: int
    effort: Effort

    def folder(self, root: Path) -> Path:
        """Where it is kept; the name holds a hash of the settings."""
        settings = json.dumps([self.recipe.describe(), asdict(self.effort.budget)], sort_keys=True)
        mark = hashlib.sha256(settings.encode()).hexdigest()[:8]
        return root / f"{self.data}-{self.label.replace(' ', '_')}-{self.seed}-{mark}"

    def inherit(self, root: Path, other: Cell) -> None:
        """Take the first stage from a cell that is nothing but that stage, where it is on disk: it is the same run.

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

    def train(self, root: Path, tell: Callable[[dict[str, Any]], None] | None = None) -> Trained:
        """Train, or go on training; at once where it is done."""
        data, key = image_data.load(self.data), jax.random.fold_in(jax.random.key(self.seed), 1)
        return train(
            data.train, self.recipe, self.effort.budget, key, self.folder(root), marks=self.effort.marks, tell=tell
        )

    def model(self, root: Path, mark: float = 1.0) -> Any:
        """The training state at a part of the budget."""
        shape = image_data.load(self.data).train.shape
        return read_mark(self.folder(root), f"mark-{mark:g}", self.recipe, shape)

    def judge(self, root: Path, mark: float) -> dict[str, Any]:
        """log p(y) of test images at a mark; kept with its settings, so that others are judged anew."""
        settings = json.dumps([asdict(self.effort.annealing), self.effort.judged])
        name = f"judged-{mark:g}-{hashlib.sha256(settings.encode()).hexdigest()[:8]}"
        file = self.folder(root) / f"{name}.json"
        if file.is_file():
            return json.loads(file.read_text())
        data, kept = image_data.load(self.data), self.model(root, mark)
        decoder, key = kept.state.decoder, jax.random.fold_in(jax.random.key(self.seed), 2)
        found = log_likelihood(decoder, data.test[: self.effort.judged], key, self.effort.annealing)
        epoch = len(data.train) // self.recipe.batch
        result: dict[str, Any] = {
            "mark": mark,
            "seconds": kept.seconds,
            "iterations": int(kept.state.iteration),
            "epochs": int(kept.state.iteration) / epoch,
            **found.summary(),
            "values": np.round(found.value, 4).tolist(),
            "errors": np.round(found.error, 4).tolist(),
        }
        encoder = kept.state.parameters.get("encoder")
        if encoder is not None and self.effort.importance:
            bound = importance_bound(decoder, encoder, data.test[: self.effort.judged], key, self.effort.importance)
            result["importance_bound"] = float(bound.mean())
        if mark == self.effort.marks[-1] and self.effort.simulated:
            result["sandwich"] = likelihood_gap(decoder, key, self.effort.simulated, self.effort.annealing)._asdict()
        write_atomically(file, json.dumps(result, indent=1).encode())
        return result

    def result(self, root: Path, tell: Callable[[dict[str, Any]], None] | None = None) -> dict[str, Any]:
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
            "marks": [self.judge(root, mark) for mark in self.effort.marks],
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
