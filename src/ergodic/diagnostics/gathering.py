"""The evidence of a certificate, gathered a stage at a time: fresh draws, and where further transitions took them.

Nothing is thrown away: a stage adds rows to what there is, and every test looks at all of them. All of it is in the
coordinates u that the sampler has learned, where it has: there necks are as wide as everything else, and other starts
reach along them. Draws are from π in x where they are from its pull-back in u.
"""

from __future__ import annotations

import copy
import itertools
import math
import warnings
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ..certificate import Bound, Finding
from ..charts.fitting import identity
from ..draws import Draws, WeightedDraws, concatenate
from ..kernels.coupled import Pairs
from ..kernels.ensemble import Ensemble
from ..protocols import Chained, Coupled
from ..runtime.drawing import Kind
from ..runtime.errors import DrawsWarning
from ..runtime.noise import generator
from ..sampler import Sampler
from ..tuning.forgetting import Particles
from ..tuning.stepping import Way
from . import starts
from .beyond import Beyond
from .edges import edges
from .functions import Functions, frame
from .lines import Lines
from .meeting import PASSES, Meeting
from .stationarity import ROWS, Moved, Probe, joined

_GOING_ON = 18  # transitions
_SEPARATE = 3
_PROBED = 16  # leapfrogs of a probe's lengths together, before it is known
_STARTS = 4
"""One start of each kind for as many draws."""
_PAIRS = 8
"""One pair of chains for as many draws, beyond those that the program moves at once."""
_TOGETHER = 3
"""Passes that pairs take to meet, before it is known."""
_LATE = 0.1
"""Pairs that have not met after all passes are run on where they are a smaller share."""
_DRAW, _PICK, _PROBE, _AGAIN, _START, _MEET, _BEYOND, _LATER = range(8)


class Gathered:
    """What has been seen of a sampler so far.

    Attributes:
      sampler: whose draws they are.
      stages: how many there were.
      draws: as they came.
      usable: those of them that can be taken as independent, and have a finite log π*, with its force; in u.
      probe: how they were probed, once they were; ``probed`` is where each length took them.
      again: where the chain took them, going on; ``paths``: where it took other starts.
      meeting: how pairs of chains met, where a method has such; ``joining``: how other starts met the draws.
      passes: how often a draw should go through the chain, as pairs say; 0 where they do not.
      lengthened: whether it does so more often already, because they said so; ``once`` are the parameters of one pass.
      beyond: points on lines through the draws.
      wanted: pairs that a distance asks for; ``following`` is what following pairs from P0 cost, in gradients.
      gradients, depth: what all of it cost; ``drawing`` is the draws' part of the gradients.
    """

    def __init__(self, sampler: Sampler):
        target, dtype = sampler.target, sampler.target.dtype
        self.sampler, self.stages, self.once = sampler, 0, sampler.params
        self.way = Way.on(target, coordinates=sampler.method.coordinates(sampler.params))
        self.inside = self.way.coordinates.on_host()
        self.names = self.inside.names(target.names)
        self.rows = min(sampler.method.chunk(target.dim, sampler.params), ROWS)
        self.chart = identity(self.rows, target.dim, self.way.settings.chart_rank, dtype)
        self.draws: Draws | None = None
        self.usable = Particles(np.zeros((0, target.dim), dtype), np.zeros(0, dtype), np.zeros((0, target.dim), dtype))
        self.probe: Probe | None = None
        self.probed: dict[int, Moved] = {}
        self.again: Moved | None = None
        self.meeting, self.joining = Meeting(), Meeting()
        self.beyond = Beyond(self.inside.drivers(), target.dim)
        self.wanted = self.following = self.passes = 0
        self.lengthened = False
        self.paths: dict[str, starts.Followed] = {}
        self.gradients = self.depth = self.drawing = 0

    def stage(self, n: int, key: Array) -> None:
        """n more draws, as one more stage."""
        key = jax.random.fold_in(key, self.stages)
        self.stages += 1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DrawsWarning)  # a finding says it
            size = self.rows if self.sampler.kind is Kind.INDEPENDENT else None
            draw_key, weighted = jax.random.fold_in(key, _DRAW), self.sampler.kind is Kind.WEIGHTED
            fresh = self.sampler.sample(draw_key, n, chunk=size, weighted=weighted, progress=False)
        self.draws = fresh if self.draws is None else concatenate([self.draws, fresh])
        self.drawing += fresh.cost.gradients
        self.depth = max(self.depth, fresh.cost.depth)
        position, logdensity = separate(fresh, jax.random.fold_in(key, _PICK))
        inside = np.isfinite(logdensity)
        new = self._evaluated(position[inside])
        self.usable = Particles(*(np.concatenate(both) for both in zip(self.usable, new, strict=True)))
        self.gradients += fresh.cost.gradients + len(new.position)

    def edges(self, found: list[Finding], key: Array) -> list[Finding]:
        """What is not finite among the draws and beyond them; nothing where they are too few to look at."""
        x = self.inside.forward(self.usable.position)[0].astype(self.sampler.target.dtype)
        return edges(self.sampler.target, x, lambda x: np.isfinite(self.levels(x)), found, generator(key))

    def levels(self, x: np.ndarray) -> np.ndarray:
        """log π* of some positions x; -inf where it or its force is not finite."""
        self.gradients += len(x)
        level = np.empty(len(x), x.dtype)
        way = self.way.outside()
        for at in range(0, len(x), self.rows):
            here = slice(at, min(at + self.rows, len(x)))
            some = np.resize(x[here], (self.rows, x.shape[1]))
            level[here] = np.asarray(way.evaluated(some, self.chart).logdensity)[: here.stop - at]
        return level

    def functions(self, rng: np.random.Generator) -> Functions:
        """What is looked at: in a frame of the first half of the draws, which fits them too well to compare them."""
        half = len(self.usable.position) // 2
        made = frame(self.usable.position[:half], self.usable.logdensity[:half])
        return Functions.of(made, self.names, rng)

    def move(self, key: Array) -> None:
        """Probe the draws that were not probed yet."""
        key = jax.random.fold_in(jax.random.fold_in(key, self.stages), _PROBE)
        if self.probe is None:
            some = Particles(*(np.resize(leaf[: self.rows], (self.rows, *leaf.shape[1:])) for leaf in self.usable))
            self.probe = Probe.of(self.way, some, key)
            self.gradients += self.probe.gradients
        done = min((len(moved.position) for moved in self.probed.values()), default=0)
        new = Particles(*(leaf[done:] for leaf in self.usable))
        for length, moved in self.probe.move(new, self.rows, key).items():
            self.probed[length] = joined([self.probed[length], moved]) if length in self.probed else moved
        self.gradients += len(new.position) * sum(self.probe.lengths)

    def go_on(self, method: Chained, key: Array) -> None:
        """Once more, or more often, through the chain for draws that have not been yet: what is slow shows there."""
        done = 0 if self.again is None else len(self.again.position)
        position, times = self.usable.position[done:], self.times(method)
        move = self._mover(method, jax.random.fold_in(jax.random.fold_in(key, self.stages), _AGAIN))
        logdensity = self.usable.logdensity[done:]
        for _ in range(times):
            position, logdensity = move(position)
        new = Moved(position, logdensity, np.ones(len(position)))
        self.again = new if self.again is None else joined([self.again, new])
        self.gradients += times * len(position) * self.sampler.depth

    def meet(self, method: Coupled, key: Array) -> None:
        """As many pairs of chains as the draws that there are deserve: some of these, and fresh ones from P0."""
        half = self.rows // 2
        if len(self.meeting) < self.pairs_of(len(self.usable.position)) and self.meeting.times > 1:
            self.meeting, self.following = Meeting(), 0  # pairs of a longer chain, which are passes of it
        while len(self.meeting) < self.pairs_of(len(self.usable.position)):
            some = jax.random.fold_in(jax.random.fold_in(key, len(self.meeting)), _MEET)
            begun = method.fresh(self.sampler.target, self.sampler.params, generator(some), self.rows)
            fresh = Particles(*(np.asarray(leaf)[:half] for leaf in begun))
            self.following += self._together(self.meeting, method, fresh, some, 0.0, self.sampler.params)
        self._run_on(method, key)

    def _run_on(self, method: Coupled, key: Array) -> None:
        """Late pairs until they meet, as long as that costs less than following all pairs did, where few are late."""
        late, params = self.meeting, self.once if self.meeting.times > 1 else self.sampler.params
        half, price, most = self.rows // 2, self.rows * (method.depth(params) - 1), self.following
        while late.late is not None and len(late.which) < _LATE * len(late) and most > price:
            some = jax.random.fold_in(jax.random.fold_in(key, len(late.later)), _LATER)
            late.run_on(partial(method.together, self.sampler.target, params, key=some), half)
            self.following += price
            self.gradients += price
            most -= price

    def join(self, method: Coupled, functions: Functions, key: Array, rng: np.random.Generator) -> None:
        """As many other starts as the draws deserve, coupled with these."""
        each = -(-(self.rows // 2) // len(starts.KINDS))
        while len(self.joining) < self.pairs_of(len(self.usable.position), 0):
            some = jax.random.fold_in(jax.random.fold_in(key, len(self.joining)), _START)
            begin = starts.starting_points(functions, self.usable.position, each, rng, groups=1)
            u = np.stack([*begin.values()], axis=1).reshape(-1, self.sampler.target.dim)[: self.rows // 2]
            x = self.inside.forward(u.astype(self.usable.position.dtype))[0]
            self._together(self.joining, method, self._evaluated(x), some, starts.SETTLED, self.once)

    def of_longer(self, sampler: Sampler, times: int) -> Gathered:
        """What this says of a sampler whose chain is this one's, so many times: its pairs of chains."""
        other = Gathered(sampler)
        other.meeting, other.joining, other.following = copy.copy(self.meeting), self.joining, self.following
        other.meeting.times *= times
        other.lengthened, other.once = True, self.once
        return other

    def look_beyond(self, method: Coupled, key: Array) -> None:
        """The lines of the draws that were not looked at yet."""
        rng = generator(jax.random.fold_in(jax.random.fold_in(key, self.stages), _BEYOND))
        if self.beyond.lines is None:
            start = method.start(self.sampler.params)
            assert start is not None
            points = self._evaluated(start.sample_on_host(rng, self.rows))
            finite = np.isfinite(points.logdensity) & np.isfinite(points.gradient).all(axis=1)
            points = Particles(*(leaf[finite] for leaf in points))
            self.beyond.begin(Lines.of(points, self.way.chart(points)))
            self.gradients += self.rows
        u, level = self.usable.position, self.usable.logdensity
        self.gradients += self.beyond.add(u, level, lambda u: self._inside(u).logdensity, rng)

    def _together(
        self, kept: Meeting, method: Coupled, fresh: Particles, key: Array, left: float, params: PyTree
    ) -> int:
        """Draws and fresh starts pass after pass, until all but a share that may be left have met; in gradients."""
        rows = slice(len(kept), len(kept) + len(fresh.position))
        begin: PyTree = (tuple(leaf[rows] for leaf in self.usable), fresh)
        pairs, states = Pairs.of(Ensemble(*begin[0]), Ensemble(*begin[1])), list[Pairs]()
        while len(states) < PASSES and np.mean(~pairs.met) > left:
            each = jax.random.fold_in(key, len(states))
            pairs = method.together(self.sampler.target, params, pairs, each)
            states.append(pairs)
        kept.add(states)
        depth = self.sampler.method.depth(params)
        gradients = len(fresh.position) * (1 + 2 * len(states) * (depth - 1))
        self.gradients += gradients
        self.depth = max(self.depth, self.sampler.depth + len(states) * depth)
        return gradients

    def start_elsewhere(self, method: Chained, functions: Functions, key: Array, rng: np.random.Generator) -> None:
        """As many starts of each kind as the draws that there are deserve."""
        done = min((len(path.end) for path in self.paths.values()), default=0)
        more = self.starts_of(len(self.usable.position)) - done
        if more <= 0:
            return
        move = self._mover(method, jax.random.fold_in(jax.random.fold_in(key, self.stages), _START))
        for name, begin in starts.starting_points(functions, self.usable.position, more, rng).items():
            path = starts.follow(begin.astype(self.usable.position.dtype), move)
            old = self.paths.get(name)
            both = path if old is None else starts.Followed(*map(np.concatenate, zip(old, path, strict=True)))
            self.paths[name] = both
        self.gradients += len(self.paths) * more * starts.ROUNDS * self.sampler.depth
        self.depth = max(self.depth, (1 + starts.ROUNDS) * self.sampler.depth)

    def bound(self, confidence: float) -> Bound | None:
        """What pairs of chains say of the distance to the target, with a limit that holds with such a confidence."""
        return self.meeting.bound(confidence, self.following, lambda u: self.inside.forward(np.asarray(u))[0])

    def times(self, method: Chained) -> int:
        """How often the chain goes on: a short one more often."""
        return int(np.clip(_GOING_ON // method.transitions(self.sampler.params), 1, starts.ROUNDS))

    @staticmethod
    def starts_of(n: int) -> int:
        """Starts of each kind for n draws, in whole groups."""
        return max(10 * starts.MEMBERS, n // (_STARTS * starts.MEMBERS) * starts.MEMBERS)

    def pairs_of(self, n: int, wanted: int | None = None) -> int:
        """Pairs of chains for n draws, and as many as are wanted; of a chain made longer by them, as few as may be."""
        more = 0 if self.lengthened else n // _PAIRS
        return min(max(self.rows // 2, more, self.wanted if wanted is None else wanted), n - self.rows // 2)

    def pace(self) -> float:
        """Seconds per gradient, as drawing has seen them."""
        return 0.0 if self.draws is None else self.draws.cost.run_seconds / max(1, self.draws.cost.gradients)

    def price(self, total: int, whole: bool) -> int:
        """Gradients until there are as many draws, with all tests or with the cheap ones."""
        n, depth, method = len(self.usable.position), self.sampler.depth, self.sampler.method
        price = (total - n) * (depth + 1)
        if not whole:
            return price
        done = min((len(moved.position) for moved in self.probed.values()), default=0)
        price += (total - done) * (_PROBED if self.probe is None else sum(self.probe.lengths))
        if isinstance(method, Chained) and self.sampler.kind is Kind.INDEPENDENT:
            again = 0 if self.again is None else len(self.again.position)
            followed = min((len(path.end) for path in self.paths.values()), default=0)
            if coupled(self.sampler) is not None:
                so_far = len(self.meeting) + len(self.joining)
                price += self.beyond.price(total)
                return price + max(0, 2 * self.pairs_of(total) - so_far) * 2 * _TOGETHER * depth
            price += (total - again) * self.times(method) * depth
            price += len(starts.KINDS) * (self.starts_of(total) - followed) * starts.ROUNDS * depth
        return price

    def _evaluated(self, position: np.ndarray) -> Particles:
        """Positions x in the sampler's coordinates, with the density there and its force."""
        return self._inside(self.inside.inverse(position))

    def _inside(self, u: np.ndarray) -> Particles:
        """The density at some u, and its force."""
        level, force = np.empty(len(u), u.dtype), np.empty_like(u)
        for at in range(0, len(u), self.rows):
            here = slice(at, min(at + self.rows, len(u)))
            found = self.way.evaluated(np.resize(u[here], (self.rows, u.shape[1])), self.chart)
            level[here], force[here] = (
                np.asarray(leaf)[: here.stop - at] for leaf in (found.logdensity, found.gradient)
            )
        return Particles(u, level, force)

    def _mover(self, method: Chained, key: Array) -> starts.Move:
        """Once through the sampler's chain, in chunks; a new key every time."""
        calls, sampler, size = itertools.count(), self.sampler, self.rows

        def move(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            moved, levels = np.empty_like(positions), np.empty(len(positions), positions.dtype)
            for at in range(0, len(positions), size):
                rows = slice(at, min(at + size, len(positions)))
                some = np.resize(positions[rows], (size, positions.shape[1]))  # the program that draws
                block = jnp.asarray(self.inside.forward(some)[0])
                batch = method.chain(sampler.target, sampler.params, block, jax.random.fold_in(key, next(calls)))
                end, level = (np.asarray(v)[: rows.stop - at] for v in (batch.position, batch.logdensity))
                moved[rows] = self.inside.inverse(end)
                levels[rows] = level + self.inside.forward(moved[rows])[1]
            return moved, levels

        return move


def coupled(sampler: Sampler) -> Coupled | None:
    """The sampler's method, where its chains can be coupled."""
    method = sampler.method
    return method if isinstance(method, Coupled) and sampler.kind is Kind.INDEPENDENT else None


def separate(draws: Draws, key: Array) -> tuple[np.ndarray, np.ndarray]:
    """Rows that can be taken as independent: all of independent draws, as many as the others are worth."""
    if draws.independent:
        return draws.unconstrained, draws.logdensity
    worth = max(1, int(draws.effective_size()))
    if isinstance(draws, WeightedDraws):
        chosen = draws.resample(key, max(1, worth // _SEPARATE))  # few, so that hardly any comes twice
        return chosen.unconstrained, chosen.logdensity
    every = max(1, math.ceil(2 * len(draws) / worth))  # products of coordinates forget more slowly than they do
    return draws.unconstrained[::every], draws.logdensity[::every]
