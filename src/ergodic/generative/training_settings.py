"""How a generative model is trained: stages of encoders, and a budget of epochs or of seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

import numpy as np

from ..runtime.errors import ConfigError
from ..runtime.validation import choice, positive_float, settle
from .image_encoder import ImageEncoder


@dataclass(frozen=True)
class Stage:
    """An encoder, and its share of the budget."""

    encoder: ImageEncoder
    share: float = 1.0


class RecipeSettings(TypedDict):
    """A recipe as plain values, as a checkpoint keeps them."""

    stages: list[dict[str, object]]
    """The name, settings and share of every stage's encoder."""
    batch: int
    learning_rate: float
    chain_rate: float


@dataclass(frozen=True)
class Recipe:
    """How a generative model is trained.

    Attributes:
      stages: encoders, one after the other.
      batch: images per iteration.
      learning_rate: Adam's learning rate for networks.
      chain_rate: Adam's learning rate for the parameters of chains.
    """

    stages: tuple[Stage, ...]
    batch: int = 128
    learning_rate: float = 1e-3
    chain_rate: float = 1e-2

    def __post_init__(self) -> None:
        settle(self)
        if not self.stages:
            raise ConfigError("a recipe needs at least one stage")

    def describe(self) -> RecipeSettings:
        """The recipe as plain values, for JSON."""
        return {
            "stages": [
                {"encoder": stage.encoder.name, **stage.encoder.settings(), "share": stage.share}
                for stage in self.stages
            ],
            "batch": self.batch,
            "learning_rate": self.learning_rate,
            "chain_rate": self.chain_rate,
        }

    def ends(self) -> list[float]:
        """The fraction of the budget after which each stage ends."""
        shares = np.cumsum([stage.share for stage in self.stages])
        return list(shares / shares[-1])


@dataclass(frozen=True)
class Budget:
    """How long to train: epochs or seconds, one of them.

    Attributes:
      epochs: passes over the training images.
      seconds: seconds of training, without compiling.
      clock: what seconds are, ``"wall"``, or ``"processor"``: those that this process computed. On one processor of its
        own the two are the same, and other work on the machine changes only the first.
    """

    epochs: float | int | None = None
    seconds: float | int | None = None
    clock: str = "wall"

    def __post_init__(self) -> None:
        settle(self, clock=choice("wall", "processor"))
        if (self.epochs is None) == (self.seconds is None):
            raise ConfigError("a budget is in epochs or in seconds: give one of them")
        positive_float(self.epochs if self.seconds is None else self.seconds, "budget")


def parse_budget(text: str, clock: str = "wall") -> Budget:
    """The budget that a text means: ``"90s"``, ``"30m"``, ``"1.5h"``, or ``"20"`` for epochs."""
    units = {"s": 1.0, "m": 60.0, "h": 3600.0}
    number, unit = (text[:-1], text[-1]) if text[-1:] in units else (text, "")
    try:
        amount = float(number)
    except ValueError:
        raise ConfigError(f"budget must look like 90s, 30m, 2h or, in epochs, 20; not {text!r}") from None
    return Budget(seconds=amount * units[unit], clock=clock) if unit else Budget(epochs=amount)
