"""`ergodic bench sbc`: simulation-based calibration by one fit of a family, against a loop of NUTS over the same data.

The model is eight schools, not centred. NumPyro's NUTS runs as its users loop it: compiled once, data as arguments, one
chain of 1,000 warm-up transitions and 1,000 draws a data set. Some data sets are run, and their time is scaled up.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array

import ergodic as eg

from ..harness.study import Report, Run, Study
from ..harness.tables import Table

SIGMA = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0], np.float32)
NUTS_STEPS = 1_000


@dataclass(frozen=True)
class Size:
    """How much is run."""

    simulations: int = 200
    runs: int = 20
    """Of NUTS."""


PRESETS = {"smoke": Size(20, 1), "cpu": Size()}


class Calibrated(NamedTuple):
    """What one calibration found and took."""

    model: str
    verdict: str
    least_p: float
    seconds: float
    """Compiling included."""
    alone: int
    """Simulations that the family's schedule did not serve."""


def schools(y: Array | None, spread: float = 1.0) -> None:
    """Eight schools, not centred; the likelihood takes the data for more exact than they are where spread < 1."""
    import numpyro
    import numpyro.distributions as dist

    mu = numpyro.sample("mu", dist.Normal(0.0, 5.0))
    tau = numpyro.sample("tau", dist.HalfNormal(5.0))
    with numpyro.plate("school", len(SIGMA)):
        z = numpyro.sample("z", dist.Normal(0.0, 1.0))
        theta = numpyro.deterministic("theta", mu + tau * z)
        numpyro.sample("y", dist.Normal(theta, spread * SIGMA), obs=y)


def calibrate(simulations: int, spread: float) -> Calibrated:
    """`eg.sbc` on data of the right model, with a likelihood that may be wrong."""
    data = np.zeros(len(SIGMA), np.float32)
    target = eg.from_numpyro(schools, data, spread=spread)
    target.model = target.model._replace(predictive=eg.from_numpyro(schools, data).model.predictive)
    began = time.perf_counter()
    found = eg.sbc(target, jax.random.key(0), simulations)
    seconds = time.perf_counter() - began
    name = "right" if spread == 1 else f"noise taken for {spread:g} of what it is"
    return Calibrated(name, found.verdict, float(found.p_values.min()), seconds, found.alone)


def nuts_seconds(runs: int, simulations: int) -> float:
    """What so many simulations would take by NUTS: compiling once, and as many times the mean of some runs."""
    from numpyro.infer import MCMC, NUTS

    chain: Any = MCMC(NUTS(schools), num_warmup=NUTS_STEPS, num_samples=NUTS_STEPS, progress_bar=False)
    data = 10 * jax.random.normal(jax.random.key(1), (runs + 1, len(SIGMA)))
    spent = []
    for index, y in enumerate(data):
        began = time.perf_counter()
        chain.run(jax.random.key(index), y)
        np.asarray(chain.get_samples()["mu"])  # waits
        spent.append(time.perf_counter() - began)
    return spent[0] + (simulations - 1) * float(np.mean(spent[1:]))


def simulated(run: Run[Size]) -> Report:
    """Calibrate a right model and two wrong ones, and time NUTS on as many data sets."""
    size = run.size
    found = [calibrate(size.simulations, spread) for spread in (1.0, 0.5, 2.0)]
    nuts = nuts_seconds(size.runs, size.simulations)
    rows = []
    for model, verdict, least, seconds, alone in found:
        rows.append([model, verdict, f"{least:.2g}", str(alone), f"{seconds:.1f}", f"{nuts / seconds:.1f}"])
    columns = ["model", "verdict", "smallest p-value", "fitted alone", "seconds", "times as fast as NUTS"]
    note = f"NUTS: {nuts:.0f} s for {size.simulations} data sets, from {size.runs} runs."
    results = {"calibrated": [each._asdict() for each in found], "nuts_seconds": nuts}
    return Report(results, [Table.of("Simulation-based calibration of eight schools", columns, rows, note)])


STUDY = Study("sbc", "bench", PRESETS, simulated)
