"""The models by name."""

from __future__ import annotations

from ergodic.runtime.errors import ConfigError, unknown

from . import constrained, counts, dynamics, multilevel, necks, processes, regressions, series
from .model import Model

_GROUPS = (multilevel, counts, constrained, regressions, series, processes, dynamics)

MODELS: dict[str, Model] = {name: model for group in _GROUPS for name, model in group.MODELS.items()}
"""Those of `ergodic bench models`."""
ALL: dict[str, Model] = MODELS | necks.MODELS
"""Those besides that `ergodic bench charts` adds."""


def get(name: str) -> Model:
    """The model of that name."""
    if name not in ALL:
        raise ConfigError(unknown("model of the benchmark", name, tuple(ALL)))
    return ALL[name]
