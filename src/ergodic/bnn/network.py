"""A network for regression, and its posterior.

    y_i ~ N(f(x_i; w), 1/τ),    f relu layers, one hidden layer of 50 units in the paper
    w ~ N(0, I), biases too;    τ ~ Gamma(1, rate 0.01)

on inputs and outputs that are standardised by the training rows. The paper does not say how the noise is treated; here
its precision is inferred, under a prior that is weak for outputs of unit variance: mean 100, nineteen of twenty between
2.5 and 370. Positions hold log τ, so that log p(log τ) = log τ - 0.01 τ.

All splits of a table have the same shapes: they are a `Family`, whose data are the rows, and one program serves all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..family import Family
from ..initial import DiagonalGaussian
from ..runtime.errors import ConfigError
from ..runtime.validation import positive_float, positive_int
from ..target import Layout, Target


class Data(NamedTuple):
    """Standardised rows; with more leading axes, those of splits."""

    x: Float[Array, "*splits rows features"]
    y: Float[Array, "*splits rows"]

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return int(self.y.shape[-1])


@dataclass(frozen=True)
class RegressionNetwork:
    """The architecture: inputs, the units of each hidden layer, and the noise's prior.

    Attributes:
      noise: shape and rate of τ's Gamma distribution.
    """

    features: int
    hidden: tuple[int, ...] = (50,)
    noise: tuple[float, float] = (1.0, 0.01)

    def __post_init__(self) -> None:
        positive_int(self.features, "features")
        if not self.hidden:
            raise ConfigError("a network needs at least one hidden layer")
        for units in self.hidden:
            positive_int(units, "units of a hidden layer")
        for number, what in zip(self.noise, ("shape", "rate"), strict=True):
            positive_float(number, f"the noise's {what}")

    @cached_property
    def layout(self) -> Layout:
        """How weights, biases and log τ lie in a flat vector."""
        widths = (self.features, *self.hidden, 1)
        like: dict[str, np.ndarray] = {"log_precision": np.zeros((), np.float32)}
        for k, (inputs, outputs) in enumerate(pairwise(widths), start=1):
            like[f"biases_{k}"] = np.zeros(outputs, np.float32)
            like[f"weights_{k}"] = np.zeros((inputs, outputs), np.float32)
        return Layout.of(like)

    @property
    def dim(self) -> int:
        """The number of weights, biases and log τ together."""
        return self.layout.dim

    @cached_property
    def noise_index(self) -> int:
        """Where log τ is in a flat vector."""
        return sum(self.layout.sizes[: self.layout.paths.index("log_precision")])

    def mean(self, position: dict[str, Array], x: Float[Array, "rows features"]) -> Float[Array, "rows"]:
        """The network's output f(x; w) for every row."""
        last = len(self.hidden) + 1
        for k in range(1, last + 1):
            x = x @ position[f"weights_{k}"] + position[f"biases_{k}"][None, :]
            x = jax.nn.relu(x) if k < last else x
        return x[:, 0]

    def log_likelihood(self, position: dict[str, Array], data: Data) -> Float[Array, "rows"]:
        """log p(y_i | x_i, w, τ) of every row."""
        log_precision = position["log_precision"]
        squares = (data.y - self.mean(position, data.x)) ** 2
        return 0.5 * (log_precision - math.log(2 * math.pi) - jnp.exp(log_precision) * squares)

    def log_prior(self, position: dict[str, Array]) -> Float[Array, ""]:
        """log p(w) + log p(log τ), up to a constant."""
        log_precision = position["log_precision"]
        weights = sum(jnp.sum(value**2) for name, value in position.items() if name != "log_precision")
        shape, rate = self.noise
        return -0.5 * weights + shape * log_precision - rate * jnp.exp(log_precision)

    def logdensity(
        self, flat: Float[Array, "dim"], data: Data, times: float | Float[Array, "rows"] = 1.0
    ) -> Float[Array, ""]:
        """log p(w, τ, y) of a flat position, every row's likelihood counted ``times`` over."""
        return self.log_joint(self.layout.unravel(flat), data, times)

    def log_joint(
        self, position: dict[str, Array], data: Data, times: float | Float[Array, "rows"] = 1.0
    ) -> Float[Array, ""]:
        """log p(w, τ, y), every row's likelihood counted ``times`` over: as often as it stands for others."""
        return self.log_prior(position) + jnp.sum(times * self.log_likelihood(position, data))

    def log_joint_of_part(self, position: dict[str, Array], data: Data, key: Array, parts: int) -> Float[Array, ""]:
        """An estimate of log p(w, τ, y) from one of ``parts`` parts of the rows, drawn at random.

        Part k are the rows from k n/K to (k + 1) n/K, rounded down; a part that is short has a row of no weight.
        """
        part = jax.random.randint(key, (), 0, parts)
        first, after = part * data.rows // parts, (part + 1) * data.rows // parts
        rows = first + jnp.arange(-(-data.rows // parts))
        times = jnp.where(rows < after, float(parts), 0.0).astype(data.y.dtype)
        return self.log_joint(position, Data(data.x[rows], data.y[rows]), times)

    def inputs_of(self) -> np.ndarray:
        """Of every flat coordinate, n, the inputs of its layer; 1 for log τ."""
        widths = (self.features, *self.hidden)
        values = {"log_precision": np.ones(())}
        for name, shape in zip(self.layout.paths, self.layout.shapes, strict=True):
            if name != "log_precision":
                values[name] = np.full(shape, float(widths[int(name.rsplit("_", 1)[1]) - 1]))
        return np.concatenate([values[name].reshape(-1) for name in self.layout.paths])

    def random_scale(self) -> np.ndarray:
        """Standard deviations of a random network, per flat coordinate: √(2/n) of weights (He's), 0 of the others."""
        names = zip(self.layout.paths, self.layout.sizes, strict=True)
        is_weight = np.concatenate([np.full(size, name.startswith("weights")) for name, size in names])
        return np.where(is_weight, np.sqrt(2 / self.inputs_of()), 0.0)

    def target(self, data: Data, *, name: str = "network", minibatches: int | None = None) -> Target:
        """The posterior given some rows, for every method in the library."""
        target = self.family(Data(data.x[None], data.y[None]), minibatches=minibatches)[0]
        target.name = name
        return target

    def family(self, data: Data, *, name: str = "network", minibatches: int | None = None) -> Family:
        """The posteriors given the rows of every split, ``data`` having an axis of splits in front.

        With ``minibatches``, methods with stochastic forces take one of so many parts of the rows at a time.
        """

        def estimate(position: dict[str, Array], datum: Data, key: Array) -> Array:
            return self.log_joint_of_part(position, datum, key, minibatches or 1)

        zero = jnp.zeros(self.dim)
        return Family(
            self.log_joint,
            data,
            self.layout.unravel(np.zeros(self.dim, np.float32)),
            constrain=_constrained,
            name=name,
            prior=DiagonalGaussian(zero, zero),
            minibatch=estimate if minibatches else None,
        )


def _constrained(position: dict[str, Array]) -> dict[str, Array]:
    """Weights as they are, and the noise's standard deviation."""
    values = {name: value for name, value in position.items() if name != "log_precision"}
    return values | {"noise": jnp.exp(-0.5 * position["log_precision"])}
