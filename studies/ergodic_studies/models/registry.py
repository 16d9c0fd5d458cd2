"""The models by name."""

from __future__ import annotations

from ergodic.runtime.errors import ConfigError, unknown

from . import constrained, counts, dynamics, multilevel, processes, regressions, series
from .model import Model

_GROUPS = (multilevel, counts, constrained, regressions, series, processes, dynamics)

MODELS: dict[str, Model] = {name: model for group in _GROUPS for name, model in group.MODELS.items()}


def get(name: str) -> Model:
    """The model of that name."""
    if name not in MODELS:
        raise ConfigError(unknown("model of the benchmark", name, tuple(MODELS)))
    return MODELS[name]
