"""`ergodic bench modes`: the weights that the default gives to separate modes, and log Z, against their truth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, NamedTuple

import jax
import numpy as np
import typer
from jaxtyping import Float, Int

import ergodic as eg
from ergodic.diagnostics.evidence import evidence
from ergodic.targets.classics import MODE_CENTRES

from ..harness.presets import Preset, changed
from ..harness.study import Report, Run, Study
from ..harness.tables import Table

KNOWN = (
    *("gaussian", "laplace", "dual-moon", "ring", "wave1", "wave2", "wave3", "rosenbrock", "banana", "unequal-modes"),
    *("student-t", "ill-conditioned", "ill-conditioned-rotated"),
)
MODES = {"unequal-modes": np.array([0.6, 0.3, 0.1]), "ring": np.full(7, 1 / 7)}
"""The true weights of each target's modes."""


@dataclass(frozen=True)
class Size:
    """How much is run."""

    seeds: int
    """Fits whose modes are weighed."""
    draws: int = 50_000
    known: tuple[str, ...] = KNOWN
    """Targets whose log Z is estimated, with two seeds each."""


PRESETS = {"smoke": Size(1, 5_000, ("gaussian",)), "cpu": Size(5)}


class Weighed(NamedTuple):
    """One fit to a target with several modes."""

    weights: list[float]
    error: float
    """The largest relative error of a weight."""
    kind: str
    verdict: str


class Constant(NamedTuple):
    """One estimate of log Z."""

    target: str
    seed: int
    log_z: float
    error: float
    truth: float
    errors_off: float
    """How many of its own errors it is away from the truth."""


def mode_of(name: str, x: Float[np.ndarray, "n 2"]) -> Int[np.ndarray, " n"]:
    """The number of the mode that each draw is nearest to."""
    if name == "ring":
        return np.round(np.arctan2(x[:, 1], x[:, 0]) / (2 * np.pi / 7)).astype(int) % 7
    return np.argmin(np.linalg.norm(x[:, None] - np.asarray(MODE_CENTRES)[None], axis=-1), axis=1)


def weigh(name: str, seed: int, draws: int) -> Weighed:
    """Fit the default to a target, draw, and add up the draws of each mode."""
    truth = MODES[name]
    sampler = eg.fit(eg.targets.get(name), jax.random.key(seed))
    weighted = sampler.kind == "weighted"  # the weights themselves say more than draws chosen by them
    drawn = sampler.sample(jax.random.key(100 + seed), draws, weighted=weighted, progress=False)
    mode = mode_of(name, drawn.unconstrained)
    found = np.sort([drawn.weights[mode == k].sum() for k in range(len(truth))])[::-1]
    error = float(np.max(np.abs(found / np.sort(truth)[::-1] - 1)))
    verdict = "none" if sampler.certificate is None else sampler.certificate.verdict
    return Weighed(np.round(found, 4).tolist(), error, str(drawn.kind), str(verdict))


def log_z(name: str, seed: int) -> Constant:
    """An estimate of log Z from 10,000 particles, with its error and the truth."""
    target = eg.targets.get(name)
    found = evidence(eg.GEI(certify=False).fit(target, jax.random.key(seed)), jax.random.key(50 + seed), 10_000)
    truth = target.require_truth().log_z
    return Constant(name, seed, found.log_z, found.error, truth, (found.log_z - truth) / found.error)


def modes(
    run: Run[Size], *, seeds: Annotated[int | None, typer.Option(help="Fits, instead of the preset's.")] = None
) -> Report:
    """Weigh the modes that the default finds, and estimate log Z where it is known."""
    size = changed(run.size, seeds=seeds)
    weighed: dict[str, list[Weighed]] = {name: [] for name in MODES}
    for name, fits in weighed.items():
        for seed in range(size.seeds):
            fits.append(weigh(name, seed, size.draws))
            run.say(f"{name}, seed {seed}: weights {fits[-1].weights}, largest error {fits[-1].error:.1%}")
    constants = []
    for name in size.known:
        for seed in range(2):
            constants.append(log_z(name, seed))
            run.say(f"{name}, seed {seed}: log Z {constants[-1].log_z:.4f}, {constants[-1].errors_off:+.2f} errors off")
    weights = [
        {"target": name, "largest_error": max(f.error for f in fits), "seeds": [f._asdict() for f in fits]}
        for name, fits in weighed.items()
    ]
    return Report(
        {"weights": weights, "log_z": [constant._asdict() for constant in constants]},
        [_weights_table(weighed), _constants_table(constants)],
        config=Preset(run.preset.name, size).config(),
    )


def _weights_table(weighed: dict[str, list[Weighed]]) -> Table:
    rows = [
        [name, seed, ", ".join(f"{weight:.4f}" for weight in fit.weights), f"{fit.error:.1%}", fit.kind, fit.verdict]
        for name, fits in weighed.items()
        for seed, fit in enumerate(fits)
    ]
    columns = ["target", "seed", "weights", "largest error", "draws", "certificate"]
    return Table.of("Weights of modes", columns, rows, "The largest relative error of a mode's weight.")


def _constants_table(constants: list[Constant]) -> Table:
    rows = [
        [c.target, c.seed, f"{c.log_z:.4f}", f"{c.error:.4f}", f"{c.truth:.4f}", f"{c.errors_off:+.2f}"]
        for c in constants
    ]
    return Table.of("log Z", ["target", "seed", "log Z", "error", "truth", "errors off"], rows)


STUDY = Study("modes", "bench", PRESETS, modes)
