"""Training a decoder with an encoder, for a number of epochs or for some wall-clock time, in stages.

An iteration (`iterations.py`) depends on the state alone, so that a run which was killed and goes on from its
checkpoint ends bit by bit where it would have ended. Many iterations are one call of one program;
how many is not part of it.

A recipe has stages, each an encoder and its share of the budget. The decoder, and what parameters the next encoder has
too, are carried over: a variational autoencoder and then a chain from its encoder is a warm start, a short chain and
then a longer one is a chain that grows. Compiling, and writing files, are not part of the time.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Real

from ..family import Family
from ..runtime.errors import ConfigError, ErgodicError
from ..runtime.programs import Stopwatch, compiled
from .checkpoints import Checkpoint, read_checkpoint, write_checkpoint
from .decoders import Decoder
from .image_encoder import ImageEncoder
from .iterations import State, advance_training, begin_training, carry
from .joint import Parameters
from .posteriors import latent_posteriors
from .training_settings import Budget, Recipe

_CALL = 1.0
"""Seconds that one call of the program should take."""
Row = dict[str, float]
"""One row of a run's history: numbers by name."""


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained model, what it was trained with, and how it went.

    Attributes:
      decoder: p(y | x).
      parameters: what the last stage's encoder has learnt.
      encoder: the last stage's encoder.
      iterations: how many iterations were made, over all stages.
      seconds: how long they took, without compiling.
      compile_seconds: how long compiling took.
      history: columns by name (iteration, seconds, stage, objective, ...), one row per call of the training program.
    """

    decoder: Decoder
    parameters: Parameters
    encoder: ImageEncoder
    iterations: int
    seconds: float
    compile_seconds: float
    history: dict[str, np.ndarray] = field(repr=False)

    def posteriors(self, images: Real[Array | np.ndarray, "n pixels"]) -> Family:
        """The posteriors of given images' latents, as a family for any method of the library."""
        return latent_posteriors(self.decoder, images)


def train(
    images: Float[np.ndarray, "images pixels"],
    recipe: Recipe,
    budget: Budget,
    key: Array,
    folder: Path,
    *,
    marks: Sequence[float] = (),
    every: float | int = 60.0,
    tell: Callable[[Row], None] | None = None,
) -> Trained:
    """Train on grey levels; go on from the checkpoint in ``folder`` if there is one. Ctrl-C leaves one.

    Args:
      images: grey levels between 0 and 1, one image per row.
      recipe: which encoders train the decoder, one after the other.
      budget: how long.
      key: a JAX random key; with it and the images the run is decided.
      folder: where checkpoints are kept.
      marks: fractions of the budget at which the model is also kept, as ``mark-<fraction>`` beside the checkpoint.
      every: seconds of training between checkpoints.
      tell: called about every second with the latest row, and ``left``, the part of the budget that is left.
    """
    if len(images) < recipe.batch:
        raise ConfigError(f"a batch of {recipe.batch} needs as many images; there are {len(images)}")
    clock, run = Stopwatch(), _Run(jnp.asarray(images), recipe, budget)
    at = _read(folder / "checkpoint", recipe, images.shape)
    at = Checkpoint(0, begin_training(images.shape, recipe, key), 0.0, []) if at is None else at
    saved = at.seconds
    waiting = [mark for mark in sorted(marks) if not (folder / f"mark-{mark:g}").is_file()]
    pace = 0.0  # seconds per iteration

    def keep(name: str, at: Checkpoint) -> None:
        write_checkpoint(folder / name, recipe.describe(), at)

    try:
        while True:
            done = run.progress(at)
            while at.stage + 1 < len(recipe.stages) and done >= recipe.ends()[at.stage]:
                at, pace = _promoted(images.shape[1], recipe, at), 0.0
            for mark in [mark for mark in waiting if done >= mark]:
                keep(f"mark-{mark:g}", at)
                waiting.remove(mark)
            if done >= 1 or at.seconds - saved >= every:
                keep("checkpoint", at)
                saved = at.seconds
            if done >= 1:
                break
            count = run.count(at, pace, waiting)
            state, row, took = run.call(at, count)
            pace = took / count
            if not row.pop("finite"):
                raise ErgodicError(_diverged(folder, int(at.state.iteration), int(state.iteration), saved))
            seconds, rate = at.seconds + took, recipe.batch / pace
            row |= {"iteration": int(state.iteration), "seconds": seconds, "stage": at.stage, "rate": rate}
            at = Checkpoint(at.stage, state, seconds, [*at.rows, row])
            if tell is not None:
                tell(row | {"left": 1 - run.progress(at)})
    except KeyboardInterrupt:
        keep("checkpoint", at)
        raise
    rows, state = at.rows, at.state
    names = sorted({name for row in rows for name in row})
    history = {name: np.array([row.get(name, math.nan) for row in rows]) for name in names}
    encoder = recipe.stages[-1].encoder
    compile_seconds = clock.cost(0, 0).compile_seconds
    return Trained(state.decoder, state.parameters, encoder, int(state.iteration), at.seconds, compile_seconds, history)


def read_mark(folder: Path, name: str, recipe: Recipe, shape: tuple[int, ...]) -> Checkpoint:
    """A model that was kept: ``"checkpoint"`` or ``"mark-0.5"``; ``shape`` is that of the training images."""
    kept = _read(folder / name, recipe, shape)
    if kept is None:
        raise ConfigError(f"{folder / name}: there is no such file; train first")
    return kept


def _read(path: Path, recipe: Recipe, shape: tuple[int, ...]) -> Checkpoint | None:
    def template(stage: int) -> State:
        """The structure and shapes of a stage's state."""

        def build() -> State:
            state = begin_training(shape, recipe, jax.random.key(0))
            return carry(shape[1], recipe, stage, state) if stage else state

        return jax.eval_shape(build)

    return read_checkpoint(path, recipe.describe(), template)


def _promoted(pixels: int, recipe: Recipe, at: Checkpoint) -> Checkpoint:
    """The checkpoint with which the next stage begins."""
    return at._replace(stage=at.stage + 1, state=carry(pixels, recipe, at.stage + 1, at.state))


def _diverged(folder: Path, before: int, after: int, saved: float) -> str:
    where = f"the last good one, after {saved:.0f} s, is {folder / 'checkpoint'}" if saved else "none was written yet"
    return (
        f"training diverged between iterations {before} and {after}: a parameter or the objective is not finite. "
        f"Checkpoints are only written of good states; {where}. Try a smaller learning rate or step size."
    )


@dataclass(frozen=True, eq=False)
class _Run:
    """What stays the same during a run of training."""

    images: Float[Array, "images pixels"]
    recipe: Recipe
    budget: Budget

    def progress(self, at: Checkpoint) -> float:
        """The part of the budget that is used up."""
        if self.budget.seconds is not None:
            return at.seconds / self.budget.seconds
        return int(at.state.iteration) / self._iterations

    @property
    def _iterations(self) -> int:
        return max(1, round((self.budget.epochs or 0) * (len(self.images) // self.recipe.batch)))

    def count(self, at: Checkpoint, pace: float, marks: Sequence[float]) -> int:
        """Iterations for the next call: about a second of them, and not beyond the stage, the mark or the budget."""
        until = min([1.0, self.recipe.ends()[at.stage], *marks[:1]])
        wanted = max(1, round(_CALL / pace)) if pace else 1
        if self.budget.seconds is None:
            return max(1, min(wanted, math.ceil(until * self._iterations - 1e-9) - int(at.state.iteration)))
        left = until * self.budget.seconds - at.seconds
        return max(1, min(wanted, math.ceil(left / pace))) if pace else 1

    def call(self, at: Checkpoint, count: int) -> tuple[State, Row, float]:
        """Make ``count`` iterations; returns the state, the averages of what they measured, and the seconds."""
        static = (self.recipe, at.stage)
        program = compiled(advance_training, static, self.images, at.state, jnp.asarray(count, jnp.int32))
        clock = time.perf_counter if self.budget.clock == "wall" else time.process_time
        began = clock()
        state, row = program(self.images, at.state, jnp.asarray(count, jnp.int32))
        try:
            row["objective"].block_until_ready()
        except KeyboardInterrupt:
            row["objective"].block_until_ready()  # the interpreter must not end under a running program
            raise
        took = clock() - began
        return state, {name: float(value) for name, value in row.items()}, took
