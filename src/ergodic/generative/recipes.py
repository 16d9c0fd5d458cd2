"""The ways of training that the study compares, by label."""

from __future__ import annotations

from ..runtime.errors import ConfigError, unknown
from .ergodic import Ergodic
from .hvae import HVAE
from .hvi import HVI
from .training import Recipe, Stage
from .vae import VAE


def recipes(steps: int = 30, leapfrogs: int = 5, batch: int = 128) -> dict[str, Recipe]:
    """Label to recipe; the chain from the prior has T = ``steps`` transitions of L = ``leapfrogs``.

    A warm start gives half of the budget to a variational autoencoder, half to a short chain from its encoder: with the
    paper's objective, or (whitened) in the encoder's coordinates with step sizes by acceptance. The step sizes of HVI
    and HVAE learn at the networks' rate, those of ergodic chains at ten times that.
    """
    near = Ergodic(steps=3, leapfrogs=3, start="encoder")
    white = Ergodic(2, 3, start="encoder", whitened=True, tuning="acceptance", step_size=(0.3, 0.4))
    stages: dict[str, tuple[Stage, ...]] = {
        "VAE": (Stage(VAE()),),
        "HVI": (Stage(HVI()),),
        "HVAE": (Stage(HVAE()),),
        "HVAE tempered": (Stage(HVAE(tempering="fixed")),),
        "HEI": (Stage(Ergodic(steps, leapfrogs)),),
        "HEI warm": (Stage(VAE(), 0.5), Stage(near, 0.5)),
        "HEI warm whitened": (Stage(VAE(), 0.5), Stage(white, 0.5)),
    }
    slow = {"chain_rate": Recipe.learning_rate}
    return {
        label: Recipe(stage, batch=batch, **(slow if label.startswith(("HVI", "HVAE")) else {}))
        for label, stage in stages.items()
    }


def recipe(label: str, steps: int = 30, leapfrogs: int = 5, batch: int = 128) -> Recipe:
    """One of them."""
    known = recipes(steps, leapfrogs, batch)
    if label not in known:
        raise ConfigError(unknown("way of training", label, known))
    return known[label]
