"""Training a decoder with an encoder, for a number of epochs or for some wall-clock time, in stages.

One iteration takes the next batch of a shuffled epoch, binarises it anew (a pixel is 1 with its grey level as
probability), and lets Adam climb the encoder's estimate. It depends on the state alone, so that a run which was killed
and goes on from its checkpoint ends bit by bit where it would have ended. Many iterations are one call of one program;
how many is not part of it.

A recipe has stages, each an encoder and its share of the budget. The decoder, and what parameters the next encoder has
too, are carried over: a variational autoencoder and then a chain from its encoder is a warm start, a short chain and
then a longer one is a chain that grows. Compiling, and writing files, are not part of the time.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int

from ..runtime.errors import ConfigError, ErgodicError
from ..runtime.programs import Stopwatch, compiled
from ..runtime.validation import choice, positive_float, positive_int, settle
from .architectures import architecture
from .checkpoints import Checkpoint, read_checkpoint, write_checkpoint
from .decoders import Decoder
from .ergodic import carried
from .joint import Parameters

_CALL = 1.0
"""Seconds that one call of the program should take."""
_CHAIN = ("transitions", "log_step", "log_scale")
"""Parameters that learn at the chain's rate."""


@dataclass(frozen=True)
class Stage:
    """An encoder and its share of the budget."""

    encoder: Any
    share: float = 1.0


@dataclass(frozen=True)
class Recipe:
    """How a model is trained.

    Attributes:
      stages: encoders, one after the other.
      batch: images an iteration.
      learning_rate: Adam's, for networks.
      chain_rate: Adam's, for the parameters of chains.
    """

    stages: tuple[Stage, ...]
    batch: int = 128
    learning_rate: float = 1e-3
    chain_rate: float = 1e-2

    def __post_init__(self) -> None:
        settle(self, batch=positive_int, learning_rate=positive_float, chain_rate=positive_float)
        if not self.stages:
            raise ConfigError("a recipe needs at least one stage")

    def describe(self) -> dict[str, Any]:
        """Plain values for JSON."""
        stages = [
            {"encoder": stage.encoder.name, **asdict(stage.encoder), "share": stage.share} for stage in self.stages
        ]
        rates = {"learning_rate": self.learning_rate, "chain_rate": self.chain_rate}
        return {"stages": stages, "batch": self.batch, **rates}

    def ends(self) -> list[float]:
        """When each stage ends, as a fraction of the budget."""
        shares = np.cumsum([stage.share for stage in self.stages])
        return list(shares / shares[-1])


@dataclass(frozen=True)
class Budget:
    """Epochs or seconds, one of them.

    Attributes:
      clock: what seconds are, ``"wall"``, or ``"processor"``: those that this process computed. On one processor of its
        own the two are the same, and other work on the machine changes only the first.
    """

    epochs: float | None = None
    seconds: float | None = None
    clock: str = "wall"

    def __post_init__(self) -> None:
        settle(self, clock=choice("wall", "processor"))
        if (self.epochs is None) == (self.seconds is None):
            raise ConfigError("a budget is in epochs or in seconds: give one of them")
        positive_float(self.epochs if self.seconds is None else self.seconds, "budget")


class State(NamedTuple):
    """All that one iteration needs and changes."""

    decoder: Decoder
    parameters: Parameters
    adam: Any
    order: Int[Array, "images"]
    """This epoch's order of images."""
    iteration: Int[Array, ""]
    key: Array
    """Of the run; every iteration's keys come from it and the iteration."""


@dataclass(frozen=True, eq=False)
class Trained:
    """A model, what it was trained with, and how it went."""

    decoder: Decoder
    parameters: Parameters
    encoder: Any
    """The last stage's."""
    iterations: int
    seconds: float
    compile_seconds: float
    history: dict[str, np.ndarray] = field(repr=False)
    """A row a call: iteration, seconds, stage, objective, ..."""


def train(
    images: Float[np.ndarray, "images pixels"],
    recipe: Recipe,
    budget: Budget,
    key: Array,
    folder: Path,
    *,
    marks: Sequence[float] = (),
    every: float = 60.0,
    tell: Callable[[dict[str, Any]], None] | None = None,
) -> Trained:
    """Train on grey levels; go on from the checkpoint in ``folder`` if there is one. Ctrl-C leaves one.

    Args:
      marks: fractions of the budget at which the model is also kept, as ``mark-<fraction>`` beside the checkpoint.
      every: seconds of training between checkpoints.
      tell: called about every second with the latest row, and ``left``, the part of the budget that is left.
    """
    if len(images) < recipe.batch:
        raise ConfigError(f"a batch of {recipe.batch} needs as many images; there are {len(images)}")
    clock, run = Stopwatch(), _Run(jnp.asarray(images), recipe, budget)
    at = _read(folder / "checkpoint", recipe, images.shape)
    at = Checkpoint(0, begin(images.shape, recipe, key), 0.0, []) if at is None else at
    saved = at.seconds
    waiting = [mark for mark in sorted(marks) if not (folder / f"mark-{mark:g}").is_file()]
    pace = 0.0  # seconds an iteration

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
    def template(stage: int) -> Any:
        """The structure and shapes of a stage's state."""

        def build() -> State:
            state = begin(shape, recipe, jax.random.key(0))
            return carry(shape[1], recipe, stage, state) if stage else state

        return jax.eval_shape(build)

    return read_checkpoint(path, recipe.describe(), template)


def begin(shape: tuple[int, ...], recipe: Recipe, key: Array) -> State:
    """Random weights, for the first stage; ``shape`` is that of the images."""
    count, networks = shape[0], architecture(shape[1])
    decoder_key, encoder_key, run_key = jax.random.split(key, 3)
    decoder = networks.decoder(decoder_key)
    parameters = recipe.stages[0].encoder.init(networks, encoder_key)
    order = jnp.arange(count, dtype=jnp.int32)
    adam = optimiser(recipe).init((decoder, parameters))
    return State(decoder, parameters, adam, order, jnp.zeros((), jnp.int32), jax.random.key_data(run_key))


def carry(pixels: int, recipe: Recipe, stage: int, state: State) -> State:
    """The state with which a stage begins: what it knows from the one before, Adam anew."""
    key = jax.random.fold_in(jax.random.wrap_key_data(state.key), 2 + stage)
    parameters = recipe.stages[stage].encoder.init(architecture(pixels), key)
    for name in parameters.keys() & state.parameters.keys():
        old = state.parameters[name]
        parameters[name] = carried(parameters[name], old) if name == "transitions" else old
    return state._replace(parameters=parameters, adam=optimiser(recipe).init((state.decoder, parameters)))


def _promoted(pixels: int, recipe: Recipe, at: Checkpoint) -> Checkpoint:
    """Where the next stage begins."""
    return at._replace(stage=at.stage + 1, state=carry(pixels, recipe, at.stage + 1, at.state))


def parse_budget(text: str, clock: str = "wall") -> Budget:
    """``"90s"``, ``"30m"``, ``"1.5h"`` or ``"20"`` (epochs)."""
    units = {"s": 1.0, "m": 60.0, "h": 3600.0}
    number, unit = (text[:-1], text[-1]) if text[-1:] in units else (text, "")
    try:
        amount = float(number)
    except ValueError:
        raise ConfigError(f"budget must look like 90s, 30m, 2h or, in epochs, 20; not {text!r}") from None
    return Budget(seconds=amount * units[unit], clock=clock) if unit else Budget(epochs=amount)


def _diverged(folder: Path, before: int, after: int, saved: float) -> str:
    where = f"the last good one, after {saved:.0f} s, is {folder / 'checkpoint'}" if saved else "none was written yet"
    return (
        f"training diverged between iterations {before} and {after}: a parameter or the objective is not finite. "
        f"Checkpoints are only written of good states; {where}. Try a smaller learning rate or step size."
    )


@dataclass(frozen=True, eq=False)
class _Run:
    """What stays the same during a run."""

    images: Float[Array, "images pixels"]
    recipe: Recipe
    budget: Budget

    def progress(self, at: Checkpoint) -> float:
        """The part of the budget that is used."""
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

    def call(self, at: Checkpoint, count: int) -> tuple[State, dict[str, float], float]:
        """So many iterations; the averages of what they measured, and the seconds."""
        static = (self.recipe, at.stage)
        program = compiled(advance, static, self.images, at.state, jnp.asarray(count, jnp.int32))
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


def optimiser(recipe: Recipe) -> optax.GradientTransformation:
    """Adam, at one rate for networks and one for chains."""

    def rates(updates: Any, params: Any = None) -> Any:
        decoder, parameters = updates
        networks, chain = recipe.learning_rate, recipe.chain_rate
        scaled = {
            name: jax.tree.map(lambda u, name=name: u * (chain if name in _CHAIN else networks), value)
            for name, value in parameters.items()
        }
        return jax.tree.map(lambda u: u * networks, decoder), scaled

    return optax.chain(optax.scale_by_adam(), optax.stateless(rates))


def advance(
    recipe: Recipe, stage: int, images: Float[Array, "images pixels"], state: State, count: Int[Array, ""]
) -> tuple[State, dict[str, Array]]:
    """So many iterations of a stage."""
    encoder, adam = recipe.stages[stage].encoder, optimiser(recipe)
    epoch = images.shape[0] // recipe.batch

    def iterate(state: State) -> tuple[State, dict[str, Array]]:
        key = jax.random.wrap_key_data(state.key)
        at = state.iteration % epoch
        order_key = jax.random.fold_in(jax.random.fold_in(key, 0), state.iteration // epoch)
        order = jax.lax.cond(
            at == 0, lambda order: jax.random.permutation(order_key, order.shape[0]), lambda order: order, state.order
        )
        pixel_key, estimate_key = jax.random.split(jax.random.fold_in(jax.random.fold_in(key, 1), state.iteration))
        rows = jax.lax.dynamic_slice_in_dim(order, at * recipe.batch, recipe.batch)
        grey = images[rows]
        y = jax.random.bernoulli(pixel_key, grey).astype(grey.dtype)
        row, *gradient = encoder.estimate(state.decoder, state.parameters, y, estimate_key)
        with jax.numpy_dtype_promotion("standard"):  # optax raises a float to an integer count
            updates, moments = adam.update(tuple(gradient), state.adam)
        decoder, parameters = optax.apply_updates((state.decoder, state.parameters), updates)
        return State(decoder, parameters, moments, order, state.iteration + 1, state.key), row

    def step(_: Any, carry: tuple[State, Any]) -> tuple[State, Any]:
        state, row = iterate(carry[0])
        return state, jax.tree.map(jnp.add, carry[1], row)

    shapes = jax.eval_shape(iterate, state)[1]
    nothing = {name: jnp.zeros(value.shape, value.dtype) for name, value in shapes.items()}
    state, total = jax.lax.fori_loop(0, count, step, (state, nothing))
    row = {name: value / count.astype(value.dtype) for name, value in total.items()}
    leaves = jax.tree.leaves((state.decoder, state.parameters))
    row["finite"] = jnp.all(jnp.stack([jnp.all(jnp.isfinite(x)) for x in (*leaves, row["objective"])]))
    return state, row
