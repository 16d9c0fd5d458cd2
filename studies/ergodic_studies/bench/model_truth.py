"""`ergodic bench model-truth`: long runs of NumPyro's NUTS, which `ergodic bench models` holds draws against.

They are made in double precision, in a process of its own for each model. A model with a neck is run as its twin, which
has none, and the draws are mapped to the model's own unconstrained coordinates. A run whose R-hat is above 1.01 in any
coordinate is refused and no file is written. A model that has a file is not run again.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import jax
import numpy as np
import typer

import ergodic as eg
from ergodic.adapters.languages import tracing
from ergodic.draws import constrained
from ergodic.target import Target

from ..harness.options import checked, split
from ..harness.presets import changed
from ..harness.processes import ProcessError, call
from ..harness.study import Report, Run, Study
from ..harness.tables import Table
from ..measures.long_run import LongRun
from ..models.model import Problem
from ..models.registry import ALL, get
from .effective import draw_until
from .outside import NumPyroNUTS

FOLDER = Path(__file__).parents[2] / "results" / "models" / "truth"
"""Where the committed truths are."""
_HIGHEST = 1.01
"""An R-hat above this is refused."""
_PATIENCE = 4.0
"""A process is killed after so many times the seconds it was given for drawing, and a minute."""


@dataclass(frozen=True)
class Size:
    """How much is run: effective draws of every coordinate and of its square, and seconds of drawing."""

    wanted: int
    seconds: float
    warmup: int = 1000
    models: tuple[str, ...] = tuple(ALL)


PRESETS = {"smoke": Size(200, 5.0, 300, ("ar2",)), "cpu": Size(6_000, 90.0), "full": Size(40_000, 1_800.0, 2_000)}


def truth_of(name: str) -> LongRun | None:
    """The committed truth of a model; None where there is none."""
    file = FOLDER / f"{name}.json"
    return LongRun.read(file) if file.is_file() else None


def long_run(name: str, wanted: int, seconds: float, warmup: int, seed: int) -> dict[str, object]:
    """Run a model for long, here and now: what the new process calls."""
    jax.config.update("jax_enable_x64", True)  # type: ignore[no-untyped-call]
    model = get(name)
    target, problem = model.target(name), model.make()
    run = target if model.twin is None else eg.from_numpyro(model.twin, *problem.args, name=name)
    method = NumPyroNUTS(warmup=warmup, target_acceptance=0.9, radius=2.0)
    keys = jax.random.split(jax.random.key(seed))
    sampler = method.fit(run, keys[0])
    worth = draw_until(sampler, keys[1], wanted, seconds)
    x = worth.draws.unconstrained
    if model.twin is not None:
        x = np.asarray(in_coordinates_of(target, problem, constrained(run, x)))
    found = LongRun.of(target.names, worth.draws.by_chain(x))
    facts = {"draws": len(x), "warmup": warmup, "seed": seed, "seconds": round(worth.draws.cost.run_seconds, 1)}
    return {**facts, **found.record()}


def in_coordinates_of(
    target: Target, problem: Problem, values: dict[str, Any], *, host: bool = True
) -> np.ndarray | jax.Array:
    """Flat unconstrained positions of a model, ``(n, dim)``, from constrained draws of its sites, as a twin gives them.

    They are NumPy's, unless they are to be differentiated (``host`` is false).
    """
    from numpyro.infer.util import unconstrain_fn

    paths = target.layout.paths
    with tracing(target.dtype):
        sites = jax.vmap(lambda site: unconstrain_fn(problem.model, problem.args, {}, site))(
            {path: values[path] for path in paths}
        )
        flat = jax.vmap(target.layout.ravel)({path: sites[path] for path in paths})
    return np.asarray(flat) if host else flat


def model_truth(
    run: Run[Size],
    *,
    models: Annotated[list[str] | None, typer.Option(help="Models, instead of all; repeatable.")] = None,
    wanted: Annotated[int | None, typer.Option(help="Effective draws of every coordinate.")] = None,
    seconds: Annotated[float | None, typer.Option(help="Seconds of drawing, at most.")] = None,
    seed: Annotated[int, typer.Option(help="The seed.")] = 0,
    again: Annotated[bool, typer.Option("--again", help="Also run models that have a file.")] = False,
) -> Report:
    """Long runs of NumPyro's NUTS on the models, as files that `ergodic bench models` reads.

    With `--out studies/results/models/truth` they are written where they are committed.
    """
    size = changed(run.size, wanted=wanted, seconds=seconds)
    names = checked(split(models) or size.models, tuple(ALL), "model of the benchmark")
    rows: list[list[object]] = []
    for name in names:
        file = run.out / f"{name}.json"
        if again or not file.is_file():
            run.status(name)
            try:
                made = call(
                    f"{__name__}:long_run",
                    [name, size.wanted, size.seconds, size.warmup, seed],
                    patience=60 + _PATIENCE * size.seconds,
                    of_processor=True,
                )
            except ProcessError as error:
                rows.append([name, "no run", "", "", str(error)[:80]])
                run.say(f"{name:14s} {error}")
                continue
            assert isinstance(made, dict)
            found = LongRun.from_record(made)
            facts = {key: made[key] for key in ("draws", "warmup", "seed", "seconds")}
            if found.rhat.max() <= _HIGHEST:
                found.write(file, model=name, **facts)
        else:
            found = LongRun.read(file)
        verdict = "written" if found.rhat.max() <= _HIGHEST else "refused"
        rows.append([name, verdict, round(found.ess.min()), round(float(found.rhat.max()), 4), found.noisiest()])
        run.say(f"{name:14s} {verdict}  ESS {found.ess.min():,.0f}  R-hat {found.rhat.max():.4f}")
    table = Table.of("Long runs", ["model", "file", "smallest ESS", "largest R-hat", "noise of b2"], rows)
    config = {"preset": run.preset.name, **asdict(size), "models": list(names), "seed": seed}
    return Report({"rows": rows}, [table], config=config)


STUDY = Study("model-truth", "bench", PRESETS, model_truth)
