"""What speaks for weighted draws of an annealed chain: other annealings, whose weights must say the same.

Weights are right on average whatever the chain, and so are log Z and the weights of modes that they give. What can go
wrong is chance: a few runs may have nearly all of the weight, and a mode that hardly any run comes to may have too
little, or none. Then annealings that have nothing in common differ:

- from other P0s, wider and displaced, along the same temperatures;
- from the same P0 through other temperatures: as many, but more of them where π* hardly counts yet, fewer later. Here
  all weights of both are compared, by the delta method: with a = w/w̄, a run adds a (f - E f) to E f, and a - 1 to
  log Z. The f are coordinates and projections, and on which side of their middle a run is: of modes that a coordinate
  keeps apart that is a weight.
"""

from __future__ import annotations

import jax
import numpy as np
from jaxtyping import Array

from ..certificate import Finding
from ..draws import WeightedDraws
from ..protocols import Annealable
from ..sampler import Sampler
from ..statistics.hypotheses import smallest, two_averages, two_samples
from . import starts
from .functions import Functions
from .gathering import Gathered, separate

_OTHER = {"inflated": (0.0, 1.5), "displaced +": (0.5, 1.2), "displaced -": (-0.5, 1.2)}
ANNEALINGS = len(_OTHER) + 1
"""Beside that of the draws, each with as many runs."""
_WORTH = 200
"""Runs that those of an annealing must be worth, for averages of theirs to have errors."""
_REACH = 6.0
_TEMPERATURES = "more temperatures (eg.HAIS), or a P0 that covers the target: the weights are too uneven"


def other_initials(
    seen: Gathered, method: Annealable, functions: Functions, threshold: float, key: Array
) -> list[Finding]:
    """Weighted draws, annealed from other P0s: their weights must make up for it."""
    sampler, half, found = seen.sampler, len(seen.usable.position) // 2, list[Finding]()
    draws = starts.OwnDraws.of(functions, seen.usable.position[half:], seen.usable.logdensity[half:])
    for index, (name, (shift, factor)) in enumerate(_OTHER.items()):
        params = method.elsewhere(sampler.params, shift, factor)
        other = Sampler(sampler.target, method, params)
        run_key, pick_key = jax.random.split(jax.random.fold_in(key, index))
        fresh = other.sample(run_key, 2 * half, weighted=True, progress=False)
        positions, logdensity = separate(fresh, pick_key)
        seen.gradients += fresh.cost.gradients
        name, worth = f"start: {name}", fresh.effective_size() / len(fresh)
        if len(positions) < 10 * starts.MEMBERS or not np.isfinite(logdensity).all():
            words = f"its weights are worth {worth:.0%} of its draws: this start says nothing"
            found.append(Finding("start", name, "inconclusive", words, worth, None, _TEMPERATURES))
            continue
        theirs = draws.look(positions, logdensity)
        means, shapes = two_averages(draws.values, theirs), two_samples(draws.ordered, theirs)
        p_values = np.minimum(1, 2 * np.minimum(means.p_value, shapes.p_value))
        p_value, worst = smallest(p_values), int(np.argmin(p_values))
        verdict = "failed" if p_value < threshold else "passed"
        away = f"{functions.names[worst]} is {theirs.mean(axis=0)[worst] - draws.values.mean(axis=0)[worst]:+.2g}"
        words = "annealed from another P0, it is the same" if verdict == "passed" else f"{away} spreads away from it"
        found.append(Finding("start", name, verdict, words, worth, p_value, _TEMPERATURES))
    return found


def annealed_again(
    seen: Gathered, method: Annealable, functions: Functions, threshold: float, key: Array
) -> list[Finding]:
    """The same P0 through other temperatures: log Z, averages and shares must agree, by all of the weights."""
    sampler, draws, name = seen.sampler, seen.draws, "other temperatures"
    assert isinstance(draws, WeightedDraws)
    other = Sampler(sampler.target, method, method.otherwise(sampler.params))
    fresh = other.sample(jax.random.fold_in(key, len(_OTHER)), len(draws), weighted=True, progress=False)
    seen.gradients += fresh.cost.gradients
    worth = min(draws.effective_size(), fresh.effective_size())
    if worth < _WORTH:
        words = f"the weights of one annealing are worth {worth:.0f} of {len(draws):,} runs: too few to compare"
        return [Finding("start", name, "inconclusive", words, worth, None, _TEMPERATURES)]
    values, theirs = (_influences(some, seen, functions) for some in (draws, fresh))
    tested = two_averages(values, theirs)
    p_value, worst = smallest(tested.p_value), int(np.argmin(tested.p_value))
    verdict = "failed" if p_value < threshold else "passed"
    if verdict == "failed":
        linear = functions.names[1 : 1 + (values.shape[1] - 1) // 2]
        what = ["log Z", *(f"E[{each}]" for each in linear), *(f"the share of larger {each}" for each in linear)][worst]
        one, another = (some[:, worst].mean() for some in (values, theirs))
        words = f"{what} is {one:.3g} by one annealing, and {another:.3g} by another"
    else:
        both = " and ".join(f"{value:.3f} ± {error:.3f}" for value, error in (draws.log_z(), fresh.log_z()))
        words = f"weights of modes and averages are the same; log Z is {both}"
    return [Finding("start", name, verdict, words, float(tested.statistic[worst]), p_value, _TEMPERATURES)]


def _influences(draws: WeightedDraws, seen: Gathered, functions: Functions) -> np.ndarray:
    """Values ``(runs, functions)`` whose plain means and errors are those of log Z and of weighted averages."""
    share = draws.weights * len(draws)
    there = share > 0
    linear = functions.linear(seen.inside.inverse(draws.unconstrained[there]))
    spread = np.sqrt(np.maximum(np.average(linear**2, axis=0, weights=share[there]), 1e-300))
    inside = np.clip(linear / spread, -_REACH, _REACH)
    looked = np.zeros((len(draws), 2 * linear.shape[1]))
    looked[there] = np.concatenate([inside, linear > 0], axis=1)
    mean = np.average(looked, axis=0, weights=share)
    added = share[:, None] * (looked - mean)
    return np.concatenate([(draws.log_z()[0] + share - 1)[:, None], mean + added], axis=1)
