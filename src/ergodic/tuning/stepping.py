"""The one compiled program of the default: a greedy step of an ensemble (`greedy.py`), whatever it is made for.

Tuning, drawing and the certificate's probe go through it, with as many particles each, so that a density is compiled
once. What differs, the mode, ε, L, the chart, and the leapfrogs that can be afforded, are arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ..charts import LinearChart
from ..charts.coordinates import Coordinates, of_member, of_members
from ..charts.fitting import chart_of, identity
from ..charts.members import MembersChart
from ..family import Family, FamilyDensity
from ..kernels.affine import AffineHMC
from ..kernels.ensemble import Ensemble, Info
from ..protocols import Chart, Initial
from ..runtime.programs import compiled
from ..target import Density, Target
from .forgetting import Particles, particles_of
from .greedy import APPLY, START, Chosen, Walk, advance
from .greedy_settings import GreedySettings

ANY = np.iinfo(np.int32).max
"""As many leapfrogs as the mode asks for."""


class Way(NamedTuple):
    """What is moved on: one target without data, or a family with a datum per member; and how it goes."""

    density: Density | FamilyDensity
    data: PyTree
    members: Family | tuple[Target]
    kernel: AffineHMC
    settings: GreedySettings
    coordinates: Coordinates = Coordinates()
    """u, in which ensembles live; every member's, where there are many."""
    like: Coordinates = Coordinates()
    """In whose shapes they are learned."""

    @staticmethod
    def on(
        what: Target | Family,
        kernel: AffineHMC | None = None,
        settings: GreedySettings | None = None,
        coordinates: Coordinates | None = None,
    ) -> Way:
        """The way of a target, which is its only member, or of a family: that is in x, until it learns coordinates.

        A family's program is another one in coordinates. Those that need none do not pay for it.
        """
        kernel, settings = kernel or AffineHMC(), settings or GreedySettings()
        like = coordinates or Coordinates()
        if isinstance(what, Family):
            return Way(what.density, what.data, what, kernel, settings, like=like)
        return Way(what.density, (), (what,), kernel, settings, like, like)

    def inside(self, coordinates: Coordinates) -> Way:
        """The same in other coordinates, of as many layers: nothing is compiled for it."""
        return self._replace(coordinates=coordinates.on_device(self.members[0].dtype))

    def own(self) -> list[Coordinates]:
        """Every member's coordinates, on the host."""
        host = self.coordinates.on_host()
        return [of_member(host, at) for at in range(len(self.members))] if isinstance(self.members, Family) else [host]

    def learned(self, each: list[Coordinates]) -> Way:
        """The same in other coordinates of every member."""
        return self.inside(of_members(each) if isinstance(self.members, Family) else each[0])

    def outside(self) -> Way:
        """The same in coordinates u = x, by the same program."""
        return self.inside(self.coordinates.unmoved())

    def entered(self, particles: Particles) -> Particles:
        """Particles of x as those of u."""
        if not self.coordinates.layers:
            return particles

        def one(coordinates: Coordinates, here: Particles) -> Particles:
            u = coordinates.inverse(here.position)
            _, volume = coordinates.forward(u)
            return Particles(u, here.logdensity + volume, coordinates.pull_back(u, here.gradient))

        each = zip(self.own(), particles_of(particles, len(self.members)), strict=True)
        return Particles(*map(np.concatenate, zip(*(one(*pair) for pair in each), strict=True)))

    def left(self, position: np.ndarray, logdensity: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """x and log π* there, of positions u and the density in u."""
        if not self.coordinates.layers:
            return position, logdensity
        blocks = np.split(position, len(self.members))
        both = [coordinates.forward(u) for coordinates, u in zip(self.own(), blocks, strict=True)]
        x, volume = (np.concatenate(parts) for parts in zip(*both, strict=True))
        return x, logdensity - volume

    def started(
        self, initials: Sequence[Initial], rng: np.random.Generator, particles: int, floors: Sequence[float] = ()
    ) -> Ensemble:
        """Fresh particles of every member's P0, drawn on the host: that needs no compiling.

        With floors, a particle whose log π* is below its member's is drawn once more: it would hardly come back from
        there. Every particle of a member has the same law, and depends on no other.
        """

        def drawn() -> np.ndarray:
            return np.concatenate([initial.sample_on_host(rng, particles) for initial in initials])

        position, chart = drawn(), in_one([self.plain(particles)] * len(initials))
        ensemble = self.evaluated(position, chart)
        if not floors:
            return ensemble
        low = ~(np.asarray(ensemble.logdensity) >= np.repeat(floors, particles))
        if not low.any():
            return ensemble
        return self.evaluated(np.where(low[:, None], drawn(), position), chart)

    def plain(self, particles: int) -> LinearChart:
        """The chart x = z, in the form that as many particles have theirs."""
        member = self.members[0]
        return identity(particles, member.dim, self.settings.chart_rank, member.dtype)

    def evaluated(self, position: np.ndarray | Array, chart: Chart) -> Ensemble:
        """log π* and its force where particles stand, with any chart of the form that moves them."""
        rows = position.shape[0]
        blank: PyTree = (np.zeros(rows, position.dtype), np.zeros(position.shape, position.dtype))
        nowhere = Ensemble(jnp.asarray(position), *blank)
        return self.moved(_at(nowhere, 0.0, 1), chart, START, 0, jax.random.key(0))[0].ensemble

    def applied(
        self, ensemble: Ensemble, chart: Chart, step: float, leapfrogs: int, t: int, key: Array, mode: int = APPLY
    ) -> tuple[Ensemble, Info]:
        """One transition of a given size and length."""
        walk, _, info = self.moved(_at(ensemble, step, leapfrogs), chart, mode, t, key)
        return walk.ensemble, info

    def moved(
        self, walk: Walk, chart: Chart, mode: int, t: int, key: Array, most: int = ANY
    ) -> tuple[Walk, Chosen, Info]:
        """One step by the compiled program."""
        args = (self.data, self.coordinates, walk, chart, np.int32(mode), np.int32(most), np.int32(t), key)
        static, plain = (self.density, self.kernel, self.settings), self.density.work.plain
        return compiled(_step, static, *args, brief=True, plain=plain)(*args)

    def chart(self, particles: Particles) -> LinearChart:
        """The chart of some particles, on the host."""
        settings = self.settings
        limits = {"reach": settings.chart_reach, "noise": settings.chart_noise}
        return chart_of(particles.position, particles.gradient, rank=settings.chart_rank, **limits)


def _at(ensemble: Ensemble, step: float, leapfrogs: int) -> Walk:
    """A walk whose next step is given; its numbers stay on the host, where they cost nothing to make."""
    parts: PyTree = (np.asarray(step, ensemble.position.dtype), np.int32(leapfrogs))
    return Walk(ensemble, *parts)


def in_one(charts: list[LinearChart]) -> Chart:
    """The chart of all members' particles in one ensemble."""
    if len(charts) == 1:
        return charts[0]
    return MembersChart(jax.tree_util.tree_map(lambda *leaves: np.stack(leaves), *charts))


def _step(
    density: Density | FamilyDensity,
    kernel: AffineHMC,
    settings: GreedySettings,
    data: PyTree,
    coordinates: Coordinates,
    walk: Walk,
    chart: Chart,
    mode: Array,
    most: Array,
    t: Array,
    key: Array,
) -> tuple[Walk, Chosen, Info]:
    inside = density.of_members(data, coordinates)
    return advance(kernel, settings, inside, walk, chart, mode, most, t, jax.random.fold_in(key, t))
