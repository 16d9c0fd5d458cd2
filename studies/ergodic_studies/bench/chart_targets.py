"""Targets of `ergodic bench charts`: necks and bends, hierarchies in both forms, and two that need no chart.

    funnel-D-S      v ~ N(0, S²), x_1..x_{D-1} given v ~ N(0, e^v)
    squiggle        (x1, x2 + sin 5 x1) ~ N(0, Σ), Σ = (2, ¼; ¼, ½)

Others are built in, or models of `models/`. The truth is the target's own where it is exact, and of models a long run.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy import stats

from ergodic import targets
from ergodic.runtime.errors import ConfigError, unknown
from ergodic.target import Truth
from ergodic.targets.classics import Classic

from ..measures.bias import Known, Moments
from ..models.registry import ALL
from .model_cells import Entry
from .model_draws import Tail
from .model_truth import truth_of

_FREQUENCY = 5.0
_SQUIGGLE = np.array([[2.0, 0.25], [0.25, 0.5]])


class Place(NamedTuple):
    """A target of the study: of which group it is, and the name of the coordinate that drives others, if one does."""

    group: str
    driver: str | None = None
    tail: Tail | None = None


def funnel(dim: int, scale: float) -> Classic:
    """v ~ N(0, scale²), and dim - 1 others given v ~ N(0, e^v). E[x_i²] = e^{scale²/2}, E[x_i⁴] = 3 e^{2 scale²}."""
    rest = dim - 1

    def logdensity(x: Float[Array, "dim"]) -> Array:
        return -0.5 * (x[0] / scale) ** 2 - 0.5 * jnp.sum(x[1:] ** 2) * jnp.exp(-x[0]) - 0.5 * rest * x[0]

    def draw(key: Array, n: int) -> Float[Array, "n dim"]:
        noise = jax.random.normal(key, (n, dim))
        v = scale * noise[:, :1]
        return jnp.concatenate([v, jnp.exp(v / 2) * noise[:, 1:]], axis=-1)

    def truth() -> Truth:
        square = math.exp(scale**2 / 2)
        variance = np.array([scale**2] + rest * [square])
        fourth = np.array([2 * scale**4] + rest * [3 * math.exp(2 * scale**2) - square**2])
        log_z = math.log(scale) + 0.5 * dim * math.log(2 * math.pi)
        return Truth(-0.5 * dim, log_z, np.zeros(dim), np.diag(variance), square_variance=fourth)

    return Classic(f"a funnel of log-variance N(0, {scale:g}²)", dim, logdensity, draw, truth)


def squiggle() -> Classic:
    """(x1, x2 + sin(a x1)) ~ N(0, Σ).

    With s = sin(a x1): E s² = ½, E s⁴ = ⅜, and products with odd powers of s, as well as E[x1² cos 2a x1], are below
    e^{-20}. So E[x2²] = Σ22 + ½ and E[x2⁴] = 3 Σ22² + 3 Σ22 + ⅜.
    """
    precision, root = np.linalg.inv(_SQUIGGLE), np.linalg.cholesky(_SQUIGGLE)

    def logdensity(x: Float[Array, "2"]) -> Array:
        straight = jnp.stack([x[0], x[1] + jnp.sin(_FREQUENCY * x[0])])
        return -0.5 * straight @ jnp.asarray(precision, x.dtype) @ straight

    def draw(key: Array, n: int) -> Float[Array, "n dim"]:
        straight = jax.random.normal(key, (n, 2)) @ jnp.asarray(root.T, float)
        return straight.at[:, 1].add(-jnp.sin(_FREQUENCY * straight[:, 0]))

    def truth() -> Truth:
        (a, b), c = _SQUIGGLE[0], _SQUIGGLE[1, 1]
        fourth = np.array([2 * a**2, 3 * c**2 + 3 * c + 0.375 - (c + 0.5) ** 2])
        log_z = math.log(2 * math.pi) + 0.5 * math.log(np.linalg.det(_SQUIGGLE))
        return Truth(-1.0, log_z, np.zeros(2), np.array([[a, b], [b, c + 0.5]]), square_variance=fourth)

    return Classic("squiggle", 2, logdensity, draw, truth)


FUNNELS = {f"funnel-{dim}-{scale}": funnel(dim, float(scale)) for dim in (2, 10, 100) for scale in (1, 3)}
_LOW = -5.0
_TAIL = Tail(0, _LOW, float(stats.norm.cdf(_LOW / 3)))
OWN: dict[str, Classic] = {**FUNNELS, "squiggle": squiggle()}
PAIRS = {
    "schools": ("schools-c", "tau"),
    "varying": ("varying-c", "sigma_county"),
    "level": ("level-c", "sigma_level"),
    "offset": ("offset-c", "sigma"),
    "tumours": ("tumours-c", "sigma"),
}
"""Hierarchies, non-centred: the name of the centred form, and the coordinate that drives it."""
PLAIN = ("gaussian", "german-credit")
"""Targets that need no chart."""

PLACES: dict[str, Place] = {
    **{name: Place("funnel", "x1", _TAIL if name.endswith("-3") else None) for name in FUNNELS},
    **{name: Place("bend", "x1") for name in ("banana", "squiggle", "rosenbrock")},
    **{name: Place("hierarchy", driver) for plain, (centred, driver) in PAIRS.items() for name in (plain, centred)},
    "horseshoe200": Place("large", "tau"),
    "path": Place("large", "amplitude"),
    "path-c": Place("large", "amplitude"),
    **{name: Place("plain") for name in PLAIN},
}


def entry_of(name: str) -> Entry:
    """What is said of a target before it is made."""
    if name not in PLACES:
        raise ConfigError(unknown("target of the study", name, tuple(PLACES)))
    return OWN.get(name) or ALL.get(name) or targets.registry()[name]


def truth_at(name: str) -> Moments | None:
    """What is known of a target: exactly, published, or by a long run; None where that was not made."""
    return truth_of(name) if name in ALL else Known(entry_of(name).target(name))
