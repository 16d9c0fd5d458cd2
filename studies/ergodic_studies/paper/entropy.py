"""Section 3.3: what the entropy of P0 does to a trained chain, on the correlated Gaussian, T = 9.

Two starts, P0 = N(0, 3 I) and P0' = N(0, I); each chain untrained, trained by the full gradient and trained with the
stop-gradient. For P0 the floor is its own entropy; for P0' there is none, as in the paper. A third part, ours, sets
P0's entropy (and with it the floor) at several margins above H(π), to see how much is enough.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, TypedDict

import jax
import numpy as np

from ergodic import targets
from ergodic.api import fit
from ergodic.initial import scale_for_entropy
from ergodic.methods import HEI
from ergodic.statistics.wasserstein import noise_floor, sliced_wasserstein
from ergodic.targets.synthetic import GAUSSIAN_COVARIANCE, SYNTHETIC

from ..harness.study import Report, Run, Study


@dataclass(frozen=True)
class Size:
    """How much is run."""

    draws: int
    seeds: int
    iterations: int = 50
    margins: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0)


PRESETS = {
    "smoke": Size(draws=1_000, seeds=1, iterations=20, margins=(0.0, 1.25)),
    "cpu": Size(draws=10_000, seeds=5),
    "paper": Size(draws=10_000, seeds=20),
}


class Outcome(NamedTuple):
    """One chain: its convergence and its draws."""

    curve: np.ndarray
    """E_{p_t}[log π*], t = 0..T."""
    distance: float
    """Sliced Wasserstein distance of P_T to exact draws."""
    entropy: float
    """H(P0), after training."""
    draws: np.ndarray


_VALID, _INVALID = "P0", "P0'"
_STARTS = {_VALID: math.sqrt(3.0), _INVALID: 1.0}
VALID = HEI(steps=9, initial_scale=_STARTS[_VALID], entropy_floor="initial")
INVALID = HEI(steps=9, initial_scale=_STARTS[_INVALID], entropy_floor=None)
VARIANTS = {
    "valid, untrained": (VALID, False),
    "valid, trained": (replace(VALID, gradient="full"), True),
    "valid, SG trained": (VALID, True),
    "invalid, untrained": (INVALID, False),
    "invalid, trained": (replace(INVALID, gradient="full"), True),
    "invalid, SG trained": (INVALID, True),
}


def entropy(run: Run[Size]) -> Report:
    """Section 3.3: the entropy constraint. Two figures of the paper, one of ours, and which claims hold."""
    size, say = run.size, run.say
    target = targets.get("gaussian")
    truth = target.require_truth()
    floor = noise_floor(target.draw_exact, jax.random.key(999), size.draws)

    outcomes: dict[str, list[Outcome]] = {}
    for name, (method, trained) in VARIANTS.items():
        outcomes[name] = [_outcome(method, trained, seed, size) for seed in range(size.seeds)]
        say(f"{name:22s} {_words(outcomes[name], truth.expected_logdensity)}")
    margins: dict[float, list[Outcome]] = {}
    for margin in size.margins:
        method = replace(VALID, initial_scale=scale_for_entropy(truth.entropy + margin, 2))
        margins[margin] = [_outcome(method, True, seed, size) for seed in range(size.seeds)]
        say(f"floor = H(π) + {margin:<7.2f} {_words(margins[margin], truth.expected_logdensity)}")

    claims = _claims(outcomes, margins, floor)
    for claim in claims:
        say(("holds:          " if claim["holds"] else "does not hold:  ") + claim["claim"] + ". " + claim["evidence"])
    _figures(outcomes, margins, truth.expected_logdensity, floor, run.out)
    return Report(_results(size, outcomes, margins, floor, claims))


def _outcome(method: HEI, trained: bool, seed: int, size: Size) -> Outcome:
    target = targets.get("gaussian")
    method = replace(method, iterations=size.iterations)
    fit_key, draw_key, exact_key = jax.random.split(jax.random.key(seed), 3)
    sampler = fit(target, fit_key, method, progress=False) if trained else method.untuned(target, fit_key)
    draws = sampler.sample(draw_key, size.draws, progress=False)
    distance = sliced_wasserstein(draws.unconstrained, target.draw_exact(exact_key, size.draws))
    entropy = float(sampler.params.initial.entropy())
    return Outcome(draws.trace["expected_logdensity"], distance, entropy, draws.unconstrained)


def _median(outcomes: list[Outcome]) -> tuple[float, float]:
    """Medians over seeds: E_{p_T}[log π*] and the distance."""
    return (
        float(np.median([outcome.curve[-1] for outcome in outcomes])),
        float(np.median([outcome.distance for outcome in outcomes])),
    )


def _words(outcomes: list[Outcome], truth: float) -> str:
    value, distance = _median(outcomes)
    return f"E[log π*] at T {value:8.3f} (truth {truth:.3f})   sliced W1 {distance:.3f}"


class Claim(TypedDict):
    """A claim of the paper, whether it holds here, and the figures that say so."""

    claim: str
    holds: bool
    evidence: str


def _start_entropies() -> dict[str, float]:
    gaussian = targets.get("gaussian")
    return {name: float(HEI(initial_scale=scale).initial(gaussian).entropy()) for name, scale in _STARTS.items()}


def _claims(outcomes: dict[str, list[Outcome]], margins: dict[float, list[Outcome]], floor: float) -> list[Claim]:
    """Every claim of section 3.3, held against what was measured."""
    truth = targets.get("gaussian").require_truth()
    value = truth.expected_logdensity
    median = {name: _median(group) for name, group in outcomes.items()}
    error = {name: abs(reached - value) for name, (reached, _) in median.items()}
    distance = {name: d for name, (_, d) in median.items()}
    start_entropy = _start_entropies()
    start_value = -0.5 * float(np.trace(np.linalg.inv(GAUSSIAN_COVARIANCE)))  # E[log π*] under N(0, I)
    shrunk = outcomes["invalid, SG trained"]
    trained_start = float(np.median([outcome.curve[0] for outcome in shrunk]))
    trained_entropy = float(np.median([outcome.entropy for outcome in shrunk]))

    spread = np.linalg.eigvalsh(GAUSSIAN_COVARIANCE)
    enough = 0.5 * float(np.sum(np.log(spread.max() / spread)))  # docs/equations.md

    def claim(text: str, holds: bool, evidence: str) -> Claim:
        return {"claim": text, "holds": bool(holds), "evidence": evidence}

    plain, full, stopped = (distance[f"valid, {kind}"] for kind in ("untrained", "trained", "SG trained"))
    bad_plain, bad_stopped = distance["invalid, untrained"], distance["invalid, SG trained"]
    bad_value = median["invalid, SG trained"][0]
    before, after = error["valid, untrained"], error["valid, SG trained"]
    return [
        claim(
            "With the valid P0, training speeds convergence",
            after < 0.5 * before and stopped < 0.5 * plain,
            f"|E[log π*] - truth| at T=9 falls from {before:.3f} to {after:.3f}, "
            f"sliced W1 from {plain:.3f} to {stopped:.3f} (noise {floor:.3f})",
        ),
        claim(
            "The stop-gradient converges as well as the full gradient",
            abs(stopped - full) < max(floor, 0.02),
            f"sliced W1 {stopped:.3f} against {full:.3f}, |error| {after:.3f} against {error['valid, trained']:.3f}",
        ),
        claim(
            "With P0' and no floor, training ends at a wrong distribution",
            bad_value > value + 0.05 and bad_stopped > 3 * stopped,
            f"E[log π*] ends at {bad_value:.3f}, above the truth {value:.3f}; "
            f"sliced W1 {bad_stopped:.3f}, against {stopped:.3f} with the valid P0",
        ),
        claim(
            "... and a worse one than without training",
            bad_stopped > 1.05 * bad_plain,
            f"sliced W1 at T=9: {bad_stopped:.3f} trained, {bad_plain:.3f} untrained",
        ),
        claim(
            f"With the floor at least {enough:.2f} nats above H(π), as wide as π in every direction, the harm is gone",
            all(abs(_median(g)[0] - value) < 0.05 for m, g in margins.items() if m >= enough),
            "By margin: "
            + ", ".join(f"+{m:g}: {_median(g)[0]:.3f} (W1 {_median(g)[1]:.3f})" for m, g in margins.items()),
        ),
        claim(
            "H(P0') < H(π), as section 3.3 says",
            start_entropy[_INVALID] < truth.entropy,
            f"H(N(0, I)) = {start_entropy[_INVALID]:.4f}, H(π) = {truth.entropy:.4f}; "
            f"training without a floor then takes it to {trained_entropy:.3f}",
        ),
        claim(
            "E_{p0'}[log π*] > E_π[log π*], as section 3.3 says",
            start_value > value,
            f"{start_value:.4f} against {value:.4f} at the start; {trained_start:.3f} once training has shrunk P0'",
        ),
    ]


def _results(
    size: Size,
    outcomes: dict[str, list[Outcome]],
    margins: dict[float, list[Outcome]],
    floor: float,
    claims: list[Claim],
) -> dict[str, object]:
    truth = targets.get("gaussian").require_truth()
    return {
        "truth": {"expected_logdensity": truth.expected_logdensity, "entropy": truth.entropy},
        "initial_entropy": _start_entropies(),
        "noise_floor": floor,
        "variants": {
            name: {**_medians(group), "curve": np.median([o.curve for o in group], axis=0)}
            for name, group in outcomes.items()
        },
        "margins": {str(margin): _medians(group) for margin, group in margins.items()},
        "seeds": size.seeds,
        "claims": claims,
    }


def _medians(outcomes: list[Outcome]) -> dict[str, float]:
    value, distance = _median(outcomes)
    return {"expected_logdensity": value, "distance": distance}


def _figures(
    outcomes: dict[str, list[Outcome]],
    margins: dict[float, list[Outcome]],
    truth_value: float,
    floor: float,
    out: Path,
) -> None:
    from ..report.curves import Curve, convergence, floor_study
    from ..report.histograms import Panel, histogram_grid
    from ..report.style import save_figure

    target, view = targets.get("gaussian"), SYNTHETIC["gaussian"].view
    size = len(outcomes["valid, untrained"][0].draws)
    shown = [("π", target.draw_exact(jax.random.key(7), size), "exact")]
    for title, name in (
        ("$P_9$ with $P_0$", "valid, untrained"),
        ("$P_9^*$ with $P_0$", "valid, SG trained"),
        ("$P_9$ with $P_0'$", "invalid, untrained"),
        ("$P_9^*$ with $P_0'$", "invalid, SG trained"),
    ):
        shown.append((title, outcomes[name][0].draws, f"sliced W1 {outcomes[name][0].distance:.3f}"))
    panels = [Panel(draws, view, title, note) for title, draws, note in shown]
    save_figure(histogram_grid([panels], [""], bins=60), out / "histograms.png")

    def curves(kind: str) -> list[Curve]:
        return [
            Curve(outcomes[f"{kind}, untrained"][0].curve, "untrained", "green"),
            Curve(outcomes[f"{kind}, trained"][0].curve, "trained (full gradient)", "blue"),
            Curve(outcomes[f"{kind}, SG trained"][0].curve, "trained (stop gradient)", "orange", dashed=True),
        ]

    panels_of_curves = [
        ("valid $P_0 = N(0, 3I)$, floor $H(P_0)$", curves("valid")),
        ("invalid $P_0' = N(0, I)$, no floor", curves("invalid")),
    ]
    save_figure(convergence(panels_of_curves, truth_value), out / "convergence.png")
    medians = [_median(group) for group in margins.values()]
    save_figure(
        floor_study(list(margins), [m[0] for m in medians], [m[1] for m in medians], truth_value, floor),
        out / "floor.png",
    )


STUDY = Study("entropy", "reproduce", PRESETS, entropy)
