"""Real posteriors with reference truths: ten of posteriordb, and German credit of the Inference Gym.

Their data and reference moments are files under ERGODIC_DATA (`runtime/data_files.py`), which are read when a target is
first asked for. Positions are unconstrained, with log-Jacobians in the density. ``target.constrain`` gives the values
that were published, and ``target.reference`` what the long runs of posteriordb (2,000 of their draws) or the Gym say.

`eight-schools` and `eight-schools-centred` are two parametrisations of one posterior and share a reference.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from ergodic.initial import DiagonalGaussian
from ergodic.runtime.data_files import data_file
from ergodic.target import Reference, Target
from ergodic.targets.classics import Classic

from . import brownian, eight_schools, linear_models, time_series
from .bayesian import Data, Posterior
from .german_credit import german_credit
from .gp_poisson import gp_poisson


class Entry(NamedTuple):
    """A posterior of the registry: what it is, where its data are, and how it is made of them."""

    title: str
    dim: int
    """The dimension of the unconstrained position, so that targets can be listed without their data."""
    data: str
    """posteriordb's name of the data, or empty for German credit."""
    posterior: str
    """The name of the posterior in posteriordb, or of the target in the Inference Gym."""
    build: Callable[[Data], Posterior]
    """Makes the posterior of its data."""

    @property
    def collection(self) -> str:
        """The name of the collection that its files belong to."""
        return "posteriordb" if self.data else "inference_gym"

    def target(self, name: str) -> Target:
        """The target, in JAX's default floating dtype; a `DataError` when its files are not at hand."""
        if self.data:
            document = json.loads(data_file("posteriordb", f"{self.data}.data.json", name).read_text())
            data = {part: np.asarray(value) for part, value in document.items()}
        else:
            data = _arrays(data_file("inference_gym", "german_credit_numeric.npz", name))
        posterior = self.build(data)
        target = Target(
            posterior.logdensity,
            like={variable: jnp.zeros(shape) for variable, shape in posterior.shapes.items()},
            constrain=posterior.constrain,
            name=name,
            prior=_prior(posterior),
            reference=lambda: _reference(name, self, posterior),
        )
        if target.dim != self.dim:
            raise AssertionError(f"'{name}' has dimension {target.dim}, but the registry says {self.dim}")
        return target


POSTERIORS = {
    "eight-schools": Entry(
        "non-centred eight schools",
        10,
        "eight_schools",
        "eight_schools-eight_schools_noncentered",
        eight_schools.noncentred,
    ),
    "eight-schools-centred": Entry(
        "centred: a funnel",
        10,
        "eight_schools",
        "eight_schools-eight_schools_noncentered",
        eight_schools.centred,
    ),
    "ark": Entry("AR(5) series", 7, "arK", "arK-arK", linear_models.ark),
    "arma": Entry("ARMA(1, 1) series", 4, "arma", "arma-arma11", time_series.arma),
    "gp-pois-regr": Entry("Poisson counts, GP", 13, "gp_pois_regr", "gp_pois_regr-gp_pois_regr", gp_poisson),
    "hmm": Entry("hidden Markov chain", 4, "hmm_example", "hmm_example-hmm_example", time_series.hmm),
    "kidiq": Entry("raw interaction", 5, "kidiq", "kidiq-kidscore_interaction", linear_models.kidiq),
    "earnings": Entry("raw interaction", 5, "earnings", "earnings-logearn_interaction", linear_models.earnings),
    "mesquite": Entry("regression on logs", 8, "mesquite", "mesquite-logmesquite", linear_models.mesquite),
    "sblrc": Entry("correlated design", 6, "sblrc", "sblrc-blr", linear_models.sblrc),
    "diamonds": Entry("regression, 5,000 rows", 26, "diamonds", "diamonds-diamonds", linear_models.diamonds),
    "german-credit": Entry(
        "logistic, 1,000 rows",
        25,
        "",
        "german_credit_numeric_logistic_regression",
        lambda data: german_credit(data["X"], data["y"]),
    ),
}


BENCHMARK = {
    "brownian": Classic(
        "Brownian path with a gap, unknown scales", 32, brownian.brownian, brownian.draw, brownian.truth
    ),
    **POSTERIORS,
}
"""What the entry point of ``ergodic.targets`` adds: with Brownian motion, whose truth is exact."""


def _arrays(path: Path) -> dict[str, np.ndarray]:
    with np.load(path, allow_pickle=False) as file:
        return dict(file)


def _flat(posterior: Posterior, by_variable: dict[str, np.ndarray]) -> np.ndarray:
    """Variables with a leading axis to flat positions ``(n, dim)``: JAX lays a dictionary out by its sorted keys."""
    parts = (by_variable[variable] for variable in sorted(posterior.shapes))
    return np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)


def _prior(posterior: Posterior) -> DiagonalGaussian | None:
    if posterior.prior is None:
        return None
    mean, scale = (
        jnp.asarray(
            _flat(posterior, {v: np.full((1, *s), posterior.prior[v][i]) for v, s in posterior.shapes.items()})[0],
            jnp.result_type(float),
        )
        for i in (0, 1)
    )
    return DiagonalGaussian(mean, jnp.log(scale))


def _reference(name: str, entry: Entry, posterior: Posterior) -> Reference:
    if not entry.data:
        moments = _arrays(data_file("inference_gym", "ground_truth_moments.npz", name))
        mean, error, sd = (
            moments[f"{entry.posterior}.identity_{what}"]
            for what in ("mean", "mean_standard_error", "standard_deviation")
        )
        return Reference(("w",), tuple(f"w[{i + 1}]" for i in range(len(mean))), mean, sd, error)
    stored = _arrays(data_file("posteriordb", f"{entry.posterior}.npz", name))
    names = tuple(str(column) for column in stored["param_names"])
    variables = tuple(dict.fromkeys(column.partition("[")[0] for column in names))
    draws = stored["draws"]
    constrained = {
        variable: draws[:, columns] if len(columns) > 1 else draws[:, columns[0]]
        for variable in variables
        if (columns := [i for i, column in enumerate(names) if column.partition("[")[0] == variable])
    }
    unconstrained = _flat(posterior, posterior.unconstrain(constrained))
    return Reference(variables, names, stored["mean"], stored["sd"], stored["mcse_mean"], draws, unconstrained)
