"""log Z and the entropy of a target: from draws of it and of P0, or by annealed importance sampling along a chain.

Where a sampler gives independent draws x of π and its P0 = q lies over them, as that of `GEI` does, log Z is what
makes both sides of an identity agree that holds for any function (bridge sampling; Meng & Wong 1996, the best of them):

    Z = E_q[h π*] / E_π[h q],      h = 1/(π* + Z q)

h π* and h q are bounded, so that no tail of π, nor of q, makes an estimate worthless. Its error is as small as n draws
of each allow. It rests on the draws: of a mode that these miss it knows nothing.

Otherwise a chain is annealed. A tuned chain has what that needs and otherwise has to find: a start P0, and step sizes.
`evidence` anneals from
the chain's P0 to π (`tuning/annealing.py`), one HMC move a temperature with the speeds s = φ2/√φ1 of the chain's T
transitions, one after the other and again from the first. E[w] = Z whatever the moves, and draws weighted by w are
draws of π, so that

    log Z ≈ log w̄,    E_π[log π*] ≈ Σ w log π*(x)/Σ w,    H(π) = log Z - E_π[log π*]

Standard errors are by the delta method over independent islands: with island g's share a_g = Z_g/Z̄ and mean m_g, log Z
has influence a_g - 1, the mean a_g (m_g - E), and H their difference. Like every estimate by annealing this one is too
low, and its error too small, where the moves cannot follow the temperatures: modes that P0's draws do not reach do not
count.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy import optimize, special

from ..certificate import Finding
from ..initial import DiagonalGaussian
from ..protocols import Annealable, Hamiltonian
from ..runtime.drawing import Kind
from ..runtime.errors import ConfigError
from ..runtime.noise import generator
from ..runtime.programs import Cost, Stopwatch, compiled
from ..runtime.validation import positive_int
from ..sampler import Sampler, require_key
from ..target import Density, Target
from ..tuning.annealing import Islands, find_path, weigh

ISLANDS = 20
_SPACING = 4  # temperatures for each that the search needed
_GRID = 100  # to which their number is rounded up: another number is another program to compile
_ROUGH, _WEIGHTS = 0.5, 50
"""The error of log Z in nats, and the number of effective weights, from which it is an estimate."""


class Evidence(NamedTuple):
    """What annealed importance sampling says of a target."""

    log_z: float
    """log Z, of the unnormalised density as the user wrote it."""
    error: float
    """Its standard error."""
    weight_ess: float
    """(Σw)²/Σw²: how many particles the estimates rest on, at most."""
    expected_logdensity: float
    """E_π[log π*]."""
    entropy: float
    """H(π), in nats."""
    entropy_error: float
    """Its standard error."""
    acceptance: float
    """Mean acceptance probability of the moves."""
    cost: Cost = Cost()
    """Gradients and seconds, the search for temperatures included."""


def evidence(sampler: Sampler, key: Array, particles: int = 1000, rounds: int | None = None) -> Evidence:
    """Anneal along a tuned chain of HMC transitions, each taken ``rounds`` times; by default as often as it needs.

    ``particles`` are spread evenly over 20 islands. `GEI` has as many independent draws instead, and as many starts;
    or, where its chain is annealed, the weights of as many runs.
    """
    if isinstance(sampler.method, Annealable):
        by = _by_weights if sampler.kind is Kind.WEIGHTED else _by_bridge
        return by(sampler, sampler.method, require_key(key), positive_int(particles, "particles"))
    params, method = sampler.params, sampler.method
    if not isinstance(method, Hamiltonian):
        raise ConfigError(
            f"annealing along a chain needs one of HMC transitions, such as HEI's; {sampler.method.name} has none"
        )
    temperatures = None if rounds is None else positive_int(rounds, "rounds") * method.transitions(params)
    return annealed_evidence(
        *(sampler.target, method.start(params), key, particles, method.leapfrogs),
        speeds=method.speeds(params),
        temperatures=temperatures,
    )[0]


def _by_bridge(sampler: Sampler, method: Annealable, key: Array, particles: int) -> Evidence:
    """From draws, and as many starts of P0; errors by the delta method, one influence per draw and start."""
    clock, start = Stopwatch(), method.start(sampler.params)
    assert start is not None
    draws = sampler.sample(jax.random.fold_in(key, 1), particles, progress=False)
    finite = np.isfinite(draws.logdensity)
    if finite.sum() < 2:
        raise ConfigError("log π* is finite at no draw: certify them first, and see what failed")
    position, value = jnp.asarray(draws.unconstrained[finite]), draws.logdensity[finite].astype(np.float64)
    begun = jnp.asarray(start.sample_on_host(generator(jax.random.fold_in(key, 2)), particles))
    ours = value - np.asarray(start.logdensity(position))
    there = np.asarray(compiled(_levels, (sampler.target.density,), begun)(begun)).astype(np.float64)
    theirs = np.where(np.isfinite(there), there - np.asarray(start.logdensity(begun)), -np.inf)
    log_z, of_draws, of_starts = bridged(ours, theirs)
    mean = float(value.mean())
    error, root = float(np.hypot(of_draws.std(ddof=1), of_starts.std(ddof=1))), np.sqrt(particles)
    influence = of_draws - (value - mean)
    return Evidence(
        log_z=log_z,
        error=error / root,
        weight_ess=particles / max(1.0, error**2),
        expected_logdensity=mean,
        entropy=log_z - mean,
        entropy_error=float(np.hypot(influence.std(ddof=1), of_starts.std(ddof=1))) / root,
        acceptance=float(np.mean(draws.trace["acceptance"])),
        cost=clock.cost(draws.cost.gradients + particles, draws.cost.depth),
    )


def _levels(density: Density, position: Float[Array, "n dim"]) -> Float[Array, "n"]:
    """log π* of every position."""
    return density.batched(position)[0]


def bridged(ours: np.ndarray, theirs: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """log Z from log π*/q at draws of π and of q, as many of each; and what every draw of either has added to it.

    The best h depends on Z: E[expit(log Z - l) | π] = E[expit(l - log Z) | q], l = log π*/q, whose left side rises with
    log Z while the right one falls.
    """
    if not np.isfinite(theirs).any():
        raise ConfigError("log π* is finite at no start of P0: nothing bridges it and the draws")
    low, high = (
        float(f([np.min(ours), np.min(theirs[np.isfinite(theirs)]), np.max(ours), np.max(theirs)])) for f in (min, max)
    )

    def apart(log_z: float) -> float:
        return float(special.expit(log_z - ours).mean() - special.expit(theirs - log_z).mean())

    log_z = float(optimize.brentq(apart, low - 1, high + 1, xtol=1e-9)) if high > low else low
    at_draws, at_starts = special.expit(log_z - ours), special.expit(theirs - log_z)
    return log_z, 1 - at_draws / at_draws.mean(), at_starts / at_starts.mean() - 1


def _by_weights(sampler: Sampler, method: Annealable, key: Array, particles: int) -> Evidence:
    """From the weights of an annealed chain's runs; errors by the delta method, one influence per run."""
    clock = Stopwatch()
    draws = sampler.sample(jax.random.fold_in(key, 1), particles, weighted=True, progress=False)
    log_z, error = draws.log_z()
    share = draws.weights * len(draws)
    value = np.where(share > 0, draws.logdensity, 0).astype(np.float64)
    mean = float(np.mean(share * value))
    influence = share - 1 - share * (value - mean)
    return Evidence(
        log_z=log_z,
        error=error,
        weight_ess=draws.effective_size(),
        expected_logdensity=mean,
        entropy=log_z - mean,
        entropy_error=float(np.std(influence, ddof=1) / np.sqrt(len(share))),
        acceptance=float(np.mean(draws.trace["acceptance"])),
        cost=clock.cost(draws.cost.gradients, draws.cost.depth),
    )


def annealed_evidence(
    target: Target,
    initial: DiagonalGaussian,
    key: Array,
    particles: int,
    leapfrogs: int,
    *,
    speeds: Float[Array, "steps dim"] | None = None,
    temperatures: int | None = None,
) -> tuple[Evidence, Islands]:
    """Find a path, run fresh particles along it, and sum up; what the particles brought back comes along."""
    clock = Stopwatch()
    each = max(2, positive_int(particles, "particles") // ISLANDS)
    path_key, weigh_key = jax.random.split(require_key(key))
    scouts = max(100, each * ISLANDS // 4)
    path = find_path(target.density, initial, path_key, particles=scouts, leapfrogs=leapfrogs, speeds=speeds)
    found = path.temperatures
    path = path.stretched(temperatures or math.ceil(_SPACING * found / _GRID) * _GRID)
    if speeds is not None:
        path = path._replace(steps=speeds[jnp.arange(path.temperatures) % speeds.shape[0]])
    islands = weigh(target.density, initial, path, weigh_key, islands=ISLANDS, particles=each, leapfrogs=leapfrogs)
    depth = 1 + found * leapfrogs, 1 + path.temperatures * leapfrogs
    cost = clock.cost(scouts * depth[0] + each * ISLANDS * depth[1], sum(depth))
    return summarise(islands)._replace(cost=cost), islands


def summarise(islands: Islands) -> Evidence:
    """The estimates, and their errors from how the islands differ."""
    log_weight, value = islands.log_weight.astype(np.float64), islands.logdensity.astype(np.float64)
    top = log_weight.max(axis=1)
    alive = np.isfinite(top)
    if not alive.any():
        raise ConfigError("every annealed run has weight zero: P0 lies outside of the support; move or narrow it")
    weight = np.where(alive[:, None], np.exp(log_weight - np.where(alive, top, 0)[:, None]), 1)
    log_z = np.where(alive, islands.log_z + top + np.log(weight.mean(axis=1)), -np.inf)
    share = np.exp(log_z - log_z.max())
    total = float(log_z.max() + np.log(share.mean()))
    share /= share.mean()
    weight /= weight.sum(axis=1, keepdims=True)
    means = np.sum(weight * np.where(weight > 0, value, 0), axis=1)
    means = np.where(alive, means, 0)
    mean = float(np.mean(share * means))
    moved = share * (means - mean)
    root = np.sqrt(len(share))
    return Evidence(
        log_z=total,
        error=float(np.std(share, ddof=1) / root),
        weight_ess=float(len(share) ** 2 / np.sum((share[:, None] * weight) ** 2)),
        expected_logdensity=mean,
        entropy=total - mean,
        entropy_error=float(np.std(share - moved, ddof=1) / root),
        acceptance=float(islands.acceptance.mean()),
    )


def findings(sampler: Sampler, key: Array) -> tuple[list[Finding], int]:
    """log Z, and P0's entropy against the target's; and what they cost, in gradients."""
    found = evidence(sampler, key)
    words = f"{found.log_z:.4f} ± {found.error:.4f}; E[log π*] {found.expected_logdensity:.4f}"
    sure = found.error < _ROUGH and found.weight_ess >= _WEIGHTS
    advice = "weights are uneven, or P0 lies beside the draws: eg.HAIS with more temperatures"
    said = [
        Finding("evidence", "log Z", "passed" if sure else "noted", words, found.log_z, None, "" if sure else advice),
        Finding("evidence", "effective weights", "noted", "what 1,000 runs are worth for it", found.weight_ess),
    ]
    entropy = float(sampler.params.initial.entropy())
    wide = entropy >= found.entropy - 2 * found.entropy_error
    words = f"H(P0) = {entropy:.2f} nats, H(π) = {found.entropy:.2f} ± {found.entropy_error:.2f}"
    words += "" if wide else ": P0 is too narrow for the paper's objective"
    advice = "" if wide else 'a wider P0, or entropy_floor="auto"'
    verdict = "passed" if wide else "noted"
    said.append(Finding("evidence", "entropy of π", verdict, words, entropy - found.entropy, None, advice))
    return said, found.cost.gradients
