"""Where to put the entropy floor: estimates of H(π) against what is known, and the quality of draws by margin.

On the paper's six targets and five posteriors of `posteriors/registry.py`, HEI with its defaults is fitted with h

- at P0's own entropy (``"initial"``, the paper's),
- at an estimate Ĥ of H(π) from a pilot, plus a margin: a number of nats, half a nat a dimension, or as much as makes P0
  as wide as π in every direction (``"covering"``); P0 is widened by one factor where it has less,
- as ``entropy_floor="auto"`` chooses it: the smaller of covering and 1.5 nats.

Three posteriors start from their priors: eight-schools, hmm and german-credit. The regressions have coefficients of
very different sizes, to which N(0, 3 I), or a prior of sd 10, is no start from which ten transitions can arrive,
whatever the floor; so mesquite and ark start at their reference means with three times their reference sds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import jax
import numpy as np
from jaxtyping import Array

from ergodic import targets
from ergodic.api import fit
from ergodic.diagnostics.evidence import Evidence, annealed_evidence
from ergodic.draws import Draws
from ergodic.methods import HEI
from ergodic.runtime.data_files import VARIABLE, available
from ergodic.statistics.wasserstein import noise_floor, sliced_wasserstein
from ergodic.target import Target
from ergodic.targets.synthetic import PAPER_SIX
from ergodic.tuning.entropy import automatic_floor, widen

from ..harness.study import Report, Run, Say, Study
from ..posteriors.registry import POSTERIORS
from .floor_tables import Known, Outcome, Studied, estimate_table, quality_table

FROM_PRIOR = ("eight-schools", "hmm", "german-credit")
FROM_REFERENCE = ("mesquite", "ark")
_WIDER = 3.0


@dataclass(frozen=True)
class Size:
    """How much is run."""

    targets: tuple[str, ...] = (*PAPER_SIX, *FROM_PRIOR, *FROM_REFERENCE)
    margins: tuple[float, ...] = (0.0, 0.5, 1.0, 1.5, 2.0)
    seeds: int = 5
    posterior_seeds: int = 3
    draws: int = 10_000
    posterior_draws: int = 2_000
    iterations: int = 50
    pilots: int = 400
    best: tuple[int, int] = (1_000, 400)
    """Particles and temperatures of the run that best-known entropies come from."""
    first_seed: int = 0


PRESETS = {
    "smoke": Size(("gaussian", "mesquite"), (0.0, 1.5), 1, 1, 1_000, 500, 10, 100, (200, 100)),
    "cpu": Size(),
    "check": Size(first_seed=100),  # seeds that the margin was not chosen on
}


def available_of(names: tuple[str, ...], say: Say) -> list[str]:
    """Those of the targets whose data are at hand; says so where some are left out."""
    found = [name for name in names if name not in POSTERIORS or available(POSTERIORS[name].collection)]
    if len(found) < len(names):
        say(f"without {VARIABLE} the posteriors are left out (`ergodic targets` says what it should name)")
    return found


def floor(run: Run[Size]) -> Report:
    """How far above H(π) the entropy floor should be: estimates of H(π), and the quality of draws by margin."""
    size = run.size
    names = available_of(size.targets, run.say)
    results = {}
    for name in names:
        results[name] = _study(name, size)
        run.say(_words(name, results[name]))
    labels = ["initial", *(f"Ĥ + {margin:g}" for margin in size.margins), "Ĥ + d/2", "covering", "auto"]
    synthetic = [name for name in names if name in PAPER_SIX]
    tables = [
        estimate_table(results),
        quality_table(results, labels, synthetic, "distance"),
        quality_table(results, labels, synthetic, "logdensity_error"),
    ]
    return Report(results, tables, documents=True)


def _study(name: str, size: Size) -> Studied:
    target = targets.get(name)
    method = replace(started(target), iterations=size.iterations)
    known = _known(target, method, size)
    fits: dict[str, list[Outcome]] = {}
    pilots: list[Evidence] = []
    again: list[tuple[float, float]] = []
    for seed in range(size.posterior_seeds if name in POSTERIORS else size.seeds):
        keys = jax.random.split(jax.random.key(size.first_seed + seed), 4)
        start = method.initial(target)
        pilot, islands = annealed_evidence(target, start, keys[3], size.pilots, method.leapfrogs)
        pilots.append(pilot)
        chosen = {"initial": method}
        for margin in size.margins:
            chosen[f"Ĥ + {margin:g}"] = _with_floor(target, method, pilot.entropy + margin)
        chosen["Ĥ + d/2"] = _with_floor(target, method, pilot.entropy + target.dim / 2)
        covering = automatic_floor(start, pilot.entropy, *islands.weighted(), margin=float("inf"))
        chosen["covering"] = _with_floor(target, method, covering)
        chosen["auto"] = replace(method, entropy_floor="auto")
        for label, configured in chosen.items():
            sampler = fit(target, keys[0], configured, progress=False)
            draws = sampler.sample(keys[1], size.posterior_draws if name in POSTERIORS else size.draws, progress=False)
            floor = sampler.record.get("entropy_floor", [_floor_of(target, configured)])[0]
            error = _mean(draws, draws.logdensity) - known["expected_logdensity"]
            entropy = float(sampler.params.initial.entropy())
            distance = distance_to(target, draws, keys[2])
            outcome: Outcome = {
                "floor": float(floor),
                "entropy": entropy,
                "logdensity_error": float(error),
                "distance": distance,
            }
            fits.setdefault(label, []).append(outcome)
            if label == "auto":
                again.append((sampler.record["entropy_estimate"][1], sampler.record["entropy_error"][1]))
    return {
        "dim": target.dim,
        "start": float(method.initial(target).entropy()),
        "known": known,
        "estimates": [(pilot.entropy, pilot.entropy_error) for pilot in pilots],
        "again": again,
        "fits": fits,
    }


def started(target: Target) -> HEI:
    """HEI with its defaults, started where the study says."""
    if target.name not in FROM_REFERENCE:
        return HEI()
    draws = target.reference.unconstrained  # type: ignore[union-attr]
    assert draws is not None
    return HEI(initial_mean=tuple(draws.mean(axis=0)), initial_scale=tuple(_WIDER * draws.std(axis=0)))


def _with_floor(target: Target, method: HEI, floor: float) -> HEI:
    start = widen(method.initial(target), floor)
    return replace(
        method,
        initial_mean=tuple(np.asarray(start.mean, float)),
        initial_scale=tuple(np.exp(np.asarray(start.log_scale, float))),
        entropy_floor=min(floor, float(start.entropy())),
    )


def _floor_of(target: Target, method: HEI) -> float:
    if isinstance(method.entropy_floor, float):
        return method.entropy_floor
    return float(method.initial(target).entropy())


def _known(target: Target, method: HEI, size: Size) -> Known:
    if target.name in PAPER_SIX:
        truth = target.require_truth()
        noise = noise_floor(target.draw_exact, jax.random.key(999), size.draws)
        return {
            "entropy": truth.entropy,
            "entropy_error": 0.0,
            "expected_logdensity": truth.expected_logdensity,
            "noise": noise,
        }
    particles, temperatures = size.best
    key = jax.random.key(999)
    start, leapfrogs = method.initial(target), method.leapfrogs
    best = annealed_evidence(target, start, key, particles, leapfrogs, temperatures=temperatures)[0]
    reference = target.reference
    assert reference is not None
    value = best.expected_logdensity
    if reference.draws is not None:
        value = reference.expected_logdensity(target.density)[0]
    # the largest of D errors of means, each standard normal over √n
    noise = float(np.sqrt(2 * np.log(2 * len(reference.mean)) / size.posterior_draws))
    return {
        "entropy": best.entropy,
        "entropy_error": best.entropy_error,
        "expected_logdensity": value,
        "noise": noise,
    }


def _mean(draws: Draws, values: np.ndarray) -> np.ndarray:
    """The mean over draws where log π* is finite."""
    return np.asarray(np.mean(values[np.isfinite(draws.logdensity)], axis=0, dtype=np.float64))


def distance_to(target: Target, draws: Draws, key: Array) -> float:
    """Sliced Wasserstein distance to exact draws; for posteriors the largest error of a mean in reference sds."""
    if target.name in PAPER_SIX:
        return sliced_wasserstein(draws.unconstrained, target.draw_exact(key, len(draws)))
    reference = target.reference
    assert reference is not None
    mean = _mean(draws, reference.columns(draws.position))
    return float(np.max(np.abs(mean - reference.mean) / reference.sd))


def _words(name: str, result: Studied) -> str:
    known, (estimate, error) = result["known"], result["estimates"][0]
    distances = ", ".join(
        f"{label}: {np.median([outcome['distance'] for outcome in group]):.3g}"
        for label, group in result["fits"].items()
    )
    return f"{name:14s} H {known['entropy']:.2f}, estimate {estimate:.2f} ± {error:.2f}; distance by floor {distances}"


STUDY = Study("floor", "reproduce", PRESETS, floor)
