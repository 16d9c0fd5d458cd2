"""The ways of training that section 4.2 compares, by the label that a user types."""

from __future__ import annotations

from ..runtime.errors import ConfigError, unknown
from .ergodic_encoder import ErgodicEncoder
from .hvae_encoder import HVAEEncoder
from .hvi_encoder import HVIEncoder
from .training_settings import Recipe, Stage
from .vae_encoder import VAEEncoder


def recipes(steps: int = 30, leapfrogs: int = 5, batch: int = 128) -> dict[str, Recipe]:
    """Every label with its recipe; the chain from the prior has T = ``steps`` transitions of L = ``leapfrogs``.

    A warm start gives half of the budget to a variational autoencoder, half to a short chain from its encoder: with the
    paper's objective, or (whitened) in the encoder's coordinates with step sizes by acceptance. The step sizes of HVI
    and HVAE learn at the networks' rate, those of ergodic chains at ten times that.
    """
    near = ErgodicEncoder(steps=3, leapfrogs=3, start="encoder")
    white = ErgodicEncoder(2, 3, start="encoder", whitened=True, tuning="acceptance", step_size=(0.3, 0.4))
    stages: dict[str, tuple[Stage, ...]] = {
        "VAE": (Stage(VAEEncoder()),),
        "HVI": (Stage(HVIEncoder()),),
        "HVAE": (Stage(HVAEEncoder()),),
        "HVAE tempered": (Stage(HVAEEncoder(tempering="fixed")),),
        "HEI": (Stage(ErgodicEncoder(steps, leapfrogs)),),
        "HEI warm": (Stage(VAEEncoder(), 0.5), Stage(near, 0.5)),
        "HEI warm whitened": (Stage(VAEEncoder(), 0.5), Stage(white, 0.5)),
    }
    slow = {"chain_rate": Recipe.learning_rate}
    return {
        label: Recipe(stage, batch=batch, **(slow if label.startswith(("HVI", "HVAE")) else {}))
        for label, stage in stages.items()
    }


def recipe(label: str, steps: int = 30, leapfrogs: int = 5, batch: int = 128) -> Recipe:
    """The recipe of one label; an unknown label is refused, with the nearest known one."""
    known = recipes(steps, leapfrogs, batch)
    if label not in known:
        raise ConfigError(unknown("way of training", label, known))
    return known[label]
