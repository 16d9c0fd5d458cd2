"""A method in a given chart x = C(u): all that it does is done in u, and its draws come out in x (docs/charts.md).

In u the target is log π*(C(u)) + log|det ∂x/∂u|. The method is tuned to that, and runs from its own P0 in u; then a
draw is C(u), and its log π* that in u less the volume. C changes how fast a chain is, never what it leaves unchanged,
and bounds of log Z and importance weights are those of x. Settings that are positions, such as ``initial_mean``, are of
u, and so is the record. A prior is taken into u by its draws, as a Gaussian.

A method stays its plain settings: the chart is among the arrays of its sampler. Other numbers of a chart compile
nothing for drawing. Tuning is compiled anew, since every method tunes to a target and this is another one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from ..charts.coordinates import Coordinates, template_of
from ..charts.telling import ToldChart
from ..initial import DiagonalGaussian
from ..initial.pushed import Pushed
from ..protocols import Chained, Fact, Independent, Initial, Method, Shapes
from ..runtime.drawing import Batch, Kind
from ..runtime.errors import ConfigError
from ..runtime.programs import Stopwatch
from ..sampler import Sampler
from ..target import Density, Layout, Target
from .gei import GEI

SUFFIX = " in a chart"
"""What the name of a method ends with that runs in one."""
_FOR_PRIOR = 4096


class InChartParams(NamedTuple):
    """What was tuned, in u, and the chart."""

    inside: PyTree
    coordinates: Coordinates


@dataclass(frozen=True)
class InChart(Independent):
    """A method whose runs are independent, in a chart that is given when it is fitted.

    Attributes:
      method: the method, with its settings.
    """

    method: Independent

    name: ClassVar[str] = SUFFIX.strip()
    title: ClassVar[str] = "a method in a given chart"

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.method.name + SUFFIX)

    def fit(self, target: Target, key: Array, *, progress: bool | None = None, chart: object = None) -> Sampler:
        """Tune the method to the target in the coordinates of a chart, `Coordinates` or as a sampler tells of them."""
        clock, coordinates = Stopwatch(), _checked(chart, target, self.name)
        found = self.method.fit(_target_inside(target, coordinates), key, progress=progress)
        record = dict(found.record)
        if "entropy_floor" in record:  # which a certificate compares with P0's entropy in x
            record["entropy_floor_inside"] = record.pop("entropy_floor")
        cost = clock.cost(found.cost.gradients, found.cost.depth)
        return Sampler(target, self, InChartParams(found.params, coordinates), record, cost, extra=found.extra)

    def simulate(self, density: Density, params: InChartParams, key: Array, particles: int) -> Batch:
        """Independent runs in u, and where they end in x."""
        inside = density_inside(density, params.coordinates)
        return _left(self.method.simulate(inside, params.inside, key, particles), params.coordinates)

    def start(self, params: InChartParams) -> Initial | None:
        """P0 in x, which is the method's own in u."""
        inside = self.method.start(params.inside)
        return None if inside is None else Pushed(inside, params.coordinates)

    def coordinates(self, params: InChartParams) -> Coordinates:
        """The chart, in which certificates look at draws too."""
        return params.coordinates

    def template(self, target: Target, found: Shapes, members: int | None = None) -> InChartParams:
        """The method's own shapes, and those of as many layers as there are in the file."""
        prefix = "inside/"
        own = {name.removeprefix(prefix): shape for name, shape in found.items() if name.startswith(prefix)}
        layers = template_of(found, target.dim, target.dtype)
        return InChartParams(self.method.template(target, own, members), layers)

    def kind(self, params: InChartParams) -> Kind:
        """What the method's own draws are to one another."""
        return self.method.kind(params.inside)

    def depth(self, params: InChartParams) -> int:
        """Gradients that one of the method's draws costs."""
        return self.method.depth(params.inside)

    def chunk(self, dim: int, params: InChartParams) -> int:
        """As many rows as the method's own batches have."""
        return self.method.chunk(dim, params.inside)

    def facts(self, params: InChartParams) -> dict[str, Fact]:
        """The method's own facts, and that there is a chart."""
        return {**self.method.facts(params.inside), "chart": True}

    def settings(self) -> dict[str, PyTree]:
        """The method's own settings: the name says that there is a chart, and the arrays say which."""
        return self.method.settings()


@dataclass(frozen=True)
class ChainInChart(InChart, Chained):
    """The same of P0 and T transitions, which can start from given positions too."""

    method: Chained

    def start(self, params: InChartParams) -> Pushed:
        """P0 in x, the method's own pushed through the chart."""
        return Pushed(self.method.start(params.inside), params.coordinates)

    def transitions(self, params: InChartParams) -> int:
        """T, the method's own."""
        return self.method.transitions(params.inside)

    def go_on(
        self, density: Density, params: InChartParams, position: Float[Array, "particles dim"], key: Array
    ) -> Batch:
        """The T transitions in u, from given positions x."""
        coordinates = params.coordinates
        inside, u = density_inside(density, coordinates), coordinates.inverse(position)
        return _left(self.method.go_on(inside, params.inside, u, key), coordinates)


def in_chart(method: Method) -> InChart:
    """The method as one that runs in a chart, if it can."""
    if isinstance(method, InChart):
        return method
    if isinstance(method, GEI):
        raise ConfigError("GEI learns a chart of its own: leave out chart; it is for methods such as eg.HEI()")
    if not isinstance(method, Independent):
        raise ConfigError(f"{method.name} cannot run in a given chart: methods of independent runs can, as eg.HEI()")
    return ChainInChart(method) if isinstance(method, Chained) else InChart(method)


def density_inside(density: Density, coordinates: Coordinates) -> Density:
    """log π*(C(u)) + log|det ∂x/∂u| of flat positions u."""

    def function(u: Float[Array, "dim"]) -> Float[Array, ""]:
        x, volume = coordinates.forward(u[None, :])
        return density(x[0]) + volume[0]

    return Density(function, Layout.of(jnp.zeros(density.layout.dim, density.layout.dtype)))


def _target_inside(target: Target, coordinates: Coordinates) -> Target:
    """What the method is tuned to."""
    return Target(
        density_inside(target.density, coordinates).function,
        like=jnp.zeros(target.dim, target.dtype),
        names=coordinates.names(target.names),
        name=target.name,
        prior=None if target.prior is None else _prior_inside(target.prior, coordinates),
        prior_entropy=target.prior_entropy,
    )


def _prior_inside(prior: DiagonalGaussian, coordinates: Coordinates) -> DiagonalGaussian:
    """The Gaussian with the median of the prior's draws in u, and half the width of their middle 68 % as its spread."""
    dtype = prior.mean.dtype
    u = coordinates.on_host().inverse(prior.sample_on_host(np.random.default_rng(0), _FOR_PRIOR))
    low, middle, high = np.nanquantile(u.astype(np.float64), (0.16, 0.5, 0.84), axis=0)
    return DiagonalGaussian(jnp.asarray(middle, dtype), jnp.log(jnp.asarray((high - low) / 2, dtype)))


def _left(batch: Batch, coordinates: Coordinates) -> Batch:
    """Where runs are in x, with log π* there. What is averaged along a chain is of u, so log π* is left out there."""
    x, volume = coordinates.forward(batch.position)
    trace = {name: column for name, column in batch.trace.items() if name != "expected_logdensity"}
    return Batch(x, batch.logdensity - volume, batch.stats, trace)


def _checked(chart: object, target: Target, name: str) -> Coordinates:
    """A chart of the target's dimension, in its precision; or an error that says what is wrong."""
    if isinstance(chart, ToldChart):
        chart = chart.coordinates
    if not isinstance(chart, Coordinates):
        raise ConfigError(f"{name} needs the chart of a sampler, such as eg.fit(target, key).chart, not {chart!r}")
    dims = {int(layer.centre.shape[-1]) for layer in chart.layers} - {target.dim}
    if dims:
        raise ConfigError(f"the chart has {dims.pop()} coordinates, but '{target.name}' has {target.dim}")
    return chart.on_device(target.dtype)
