"""Annealing from P0 to π: temperatures and step sizes found on a pilot, then fresh weighted particles along them.

    f_β = π*^β p0^(1-β),    0 = β_0 < β_1 < ... < β_N = 1,    log w += (β_n - β_{n-1}) (log π*(x) - log p0(x))

with one annealed HMC move at each β_n (`kernels/annealed.py`): annealed importance sampling, E[w] = Z.

- How far apart temperatures may be depends on the target: a posterior of a thousand observations changes most at β near
  0. `find_path` lets an ensemble find out. It goes from β to the largest β' whose weights keep an effective size of 0.9
  of the particles, resamples, and moves once. Step sizes, where none are given, follow the ensemble's own spread in
  each dimension, times a factor adapted to an acceptance of 0.8.
- `weigh` runs fresh particles on islands, independent groups. Where an island's weights are worth less than half of its
  particles it resamples, which keeps E[w] = Z (Del Moral et al. 2006) and keeps 25 dimensions within reach; where they
  stay even, as on easy targets, it is plain AIS. Islands being independent, their spread gives standard errors.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ..initial import DiagonalGaussian
from ..kernels.annealed import Annealed, annealed_move, annealed_ratio, begin
from ..runtime.errors import ConfigError
from ..runtime.programs import compiled
from ..target import Density

_SIZE_KEPT = 0.9
_SIZE_TO_RESAMPLE = 0.5
_ACCEPTANCE = 0.8
_FIRST_FACTOR = 0.25
_MOST_TEMPERATURES = 1000


class TemperaturePath(NamedTuple):
    """Temperatures, and the step sizes (of unit momentum variance) of the move at each."""

    betas: Float[Array, "temperatures_plus_one"]
    """β_0 = 0 to β_N = 1."""
    steps: Float[Array, "temperatures dim"]
    """The step sizes of the move at β_1, ..., β_N."""

    @property
    def temperatures(self) -> int:
        """N, the number of moves."""
        return int(self.steps.shape[0])

    def stretched(self, temperatures: int) -> TemperaturePath:
        """The same way in another number of temperatures: β linear, step sizes constant, between those found."""
        found, steps = np.asarray(self.betas, np.float64), np.asarray(self.steps)
        at = np.linspace(0, len(found) - 1, temperatures + 1)
        betas = np.interp(at, np.arange(len(found)), found)
        inside = np.clip(np.ceil(at[1:] - 1e-9).astype(int) - 1, 0, len(steps) - 1)
        return TemperaturePath(jnp.asarray(betas, self.betas.dtype), jnp.asarray(steps[inside]))


class Islands(NamedTuple):
    """What independent groups of particles bring back."""

    log_z: np.ndarray
    """log of the mean weights at which each island resampled, summed, ``(islands,)``."""
    log_weight: np.ndarray
    """log w since then, ``(islands, particles)``."""
    position: np.ndarray
    """Where particles ended, ``(islands, particles, dim)``."""
    logdensity: np.ndarray
    """log π* there, ``(islands, particles)``."""
    acceptance: np.ndarray
    """Mean acceptance probability at each temperature."""

    def weighted(self) -> tuple[np.ndarray, np.ndarray]:
        """All positions ``(n, dim)``, and their weights ``(n,)``, which sum to one."""
        log_weight = self.log_z[:, None].astype(np.float64) + self.log_weight
        weight = np.exp(log_weight - log_weight.max()).reshape(-1)
        return self.position.reshape(len(weight), -1).astype(np.float64), weight / weight.sum()


def find_path(
    density: Density,
    initial: DiagonalGaussian,
    key: Array,
    *,
    particles: int,
    leapfrogs: int,
    speeds: Float[Array, "steps dim"] | None = None,
) -> TemperaturePath:
    """Temperatures and step sizes for this target, at a cost of N L + 1 gradients per particle.

    With ``speeds`` those are the step sizes, one after the other and again from the first. A way that needs more than
    1,000 temperatures is cut short by one last leap to β = 1; weights will tell.
    """
    start_key, chain_key = jax.random.split(key)
    state = compiled(_begin, (density, particles), initial, start_key)(initial, start_key)
    if not np.isfinite(np.asarray(state.logdensity)).any():
        raise ConfigError("log π* is finite at no draw of P0, so there is nothing to anneal from; move or narrow P0")
    dtype = initial.mean.dtype
    spread, log_factor = jnp.exp(initial.log_scale), float(np.log(_FIRST_FACTOR))
    beta, betas, steps = jnp.zeros((), dtype), [0.0], []
    program = compiled(_advance, (density, leapfrogs), initial, beta, spread, state, chain_key)
    for n in range(_MOST_TEMPERATURES):
        step = spread * float(np.exp(log_factor)) if speeds is None else speeds[n % speeds.shape[0]]
        state, beta, spread, acceptance = program(initial, beta, step, state, jax.random.fold_in(chain_key, n))
        betas.append(float(beta))
        steps.append(np.asarray(step))
        log_factor += (float(acceptance) - _ACCEPTANCE) * 2 / np.sqrt(1 + min(n, 15))
        if betas[-1] >= 1:
            break
    betas[-1] = 1.0
    return TemperaturePath(jnp.asarray(betas, dtype), jnp.asarray(np.stack(steps)))


def weigh(
    density: Density,
    initial: DiagonalGaussian,
    path: TemperaturePath,
    key: Array,
    *,
    islands: int,
    particles: int,
    leapfrogs: int,
) -> Islands:
    """Run fresh particles along the path, ``particles`` on each island, at N L + 1 gradients each."""
    program = compiled(_weigh, (density, islands, particles, leapfrogs), initial, path, key)
    return Islands(*jax.device_get(program(initial, path, key)))


def _begin(density: Density, particles: int, initial: DiagonalGaussian, key: Array) -> Annealed:
    """Draws of P0. Outside of the support log π* is -inf with no force: weight zero from the first temperature on."""
    start_key, momentum_key = jax.random.split(key)
    state = begin(density.batched, initial.sample(start_key, particles), momentum_key)
    inside = jnp.isfinite(state.logdensity) & jnp.all(jnp.isfinite(state.gradient), axis=-1)
    logdensity = jnp.where(inside, state.logdensity, -jnp.inf)
    return state._replace(logdensity=logdensity, gradient=jnp.where(inside[:, None], state.gradient, 0))


def _advance(
    density: Density,
    leapfrogs: int,
    initial: DiagonalGaussian,
    beta: Float[Array, ""],
    step: Float[Array, "dim"],
    state: Annealed,
    key: Array,
) -> tuple[Annealed, Float[Array, ""], Float[Array, "dim"], Float[Array, ""]]:
    """To the next temperature: choose it, resample, move. Returns the state, β, the ensemble's spread, acceptance."""
    resample_key, move_key = jax.random.split(key)
    ratio = annealed_ratio(initial, state)
    ratio = jnp.where(jnp.isfinite(ratio), ratio, -jnp.inf)
    rise = largest_rise(ratio, 1 - beta)
    state = _take(state, systematic(jax.nn.softmax(rise * ratio), resample_key))
    beta = jnp.where(rise >= 1 - beta, 1.0, beta + rise)
    state, acceptance = annealed_move(
        density.batched, initial, beta, step, state, move_key, leapfrogs=leapfrogs, refresh="full"
    )
    spread = jnp.std(state.position, axis=0)
    return state, beta, jnp.where(spread > 0, spread, jnp.exp(initial.log_scale)), jnp.mean(acceptance)


def largest_rise(ratio: Float[Array, "particles"], room: Float[Array, ""]) -> Float[Array, ""]:
    """The largest δ <= room that keeps an effective size of 0.9, by bisection in log δ over forty powers of e."""
    top = jnp.max(ratio)
    alive = jnp.mean(jnp.isfinite(ratio).astype(ratio.dtype))

    def kept(log_rise: Array) -> Array:
        weight = jnp.exp(jnp.exp(log_rise) * (ratio - top))
        return jnp.mean(weight) ** 2 >= _SIZE_KEPT * alive * jnp.mean(weight**2)

    def halve(_: Int[Array, ""], ends: tuple[Array, Array]) -> tuple[Array, Array]:
        middle = 0.5 * (ends[0] + ends[1])
        good = kept(middle)
        return jnp.where(good, middle, ends[0]), jnp.where(good, ends[1], middle)

    log_room = jnp.log(room)
    low, _ = jax.lax.fori_loop(0, 30, halve, (log_room - 40, log_room))
    return jnp.where(kept(log_room), room, jnp.exp(low))


def systematic(weight: Float[Array, "particles"], key: Array) -> Int[Array, "particles"]:
    """The indices of those that go on, by systematic resampling of weights that sum to one."""
    n = weight.shape[0]
    places = (jnp.arange(n, dtype=weight.dtype) + jax.random.uniform(key, (), weight.dtype)) / n
    return jnp.minimum(jnp.searchsorted(jnp.cumsum(weight), places), n - 1)


def _take(state: Annealed, chosen: Int[Array, "particles"]) -> Annealed:
    return jax.tree_util.tree_map(lambda leaf: leaf[chosen], state)


def _weigh(
    density: Density,
    islands: int,
    particles: int,
    leapfrogs: int,
    initial: DiagonalGaussian,
    path: TemperaturePath,
    key: Array,
) -> tuple[Array, Array, Array, Array, Array]:
    start_key, chain_key = jax.random.split(key)
    state = _begin(density, islands * particles, initial, start_key)

    def move(
        carry: tuple[Annealed, Array, Array], inputs: tuple[Array, ...]
    ) -> tuple[tuple[Annealed, Array, Array], Array]:
        state, log_z, log_weight = carry
        before, beta, step, key = inputs
        resample_key, move_key = jax.random.split(key)
        ratio = annealed_ratio(initial, state)
        rise = jnp.where(jnp.isfinite(ratio), (beta - before) * ratio, -jnp.inf)
        chosen, log_z, log_weight = _resample(log_z, log_weight + rise.reshape(islands, particles), resample_key)
        state, acceptance = annealed_move(
            *(density.batched, initial, beta, step, _take(state, chosen), move_key), leapfrogs=leapfrogs, refresh="full"
        )
        return (state, log_z, log_weight), jnp.mean(acceptance)

    dtype = state.logdensity.dtype
    inputs = (path.betas[:-1], path.betas[1:], path.steps, jax.random.split(chain_key, path.temperatures))
    carry = (state, jnp.zeros(islands, dtype), jnp.zeros((islands, particles), dtype))
    (end, log_z, log_weight), acceptance = jax.lax.scan(move, carry, inputs)
    shape = (islands, particles)
    return log_z, log_weight, end.position.reshape(*shape, -1), end.logdensity.reshape(shape), acceptance


def _resample(
    log_z: Float[Array, "islands"], log_weight: Float[Array, "islands particles"], key: Array
) -> tuple[Int[Array, "all"], Float[Array, "islands"], Float[Array, "islands particles"]]:
    """Islands whose weights have become uneven resample: who goes on everywhere, log Ẑ, and log w since."""
    islands, particles = log_weight.shape
    top = jnp.max(log_weight, axis=1)
    dead = ~jnp.isfinite(top)
    weight = jnp.where(dead[:, None], 1, jnp.exp(log_weight - jnp.where(dead, 0, top)[:, None]))
    total = jnp.sum(weight, axis=1)
    uneven = ~dead & (total**2 < _SIZE_TO_RESAMPLE * particles * jnp.sum(weight**2, axis=1))
    drawn = jax.vmap(systematic)(weight / total[:, None], jax.random.split(key, islands))
    chosen = jnp.where(uneven[:, None], drawn, jnp.arange(particles)[None, :])
    log_z = jnp.where(uneven, log_z + top + jnp.log(total / particles), log_z)
    log_weight = jnp.where(uneven[:, None], 0, log_weight)
    return (chosen + particles * jnp.arange(islands)[:, None]).reshape(-1), log_z, log_weight
