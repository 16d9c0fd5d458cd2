"""`ergodic bench family`: one schedule for many posteriors against fitting each alone, in one process.

| family | members | what is known |
|---|---|---|
| `windows` | logistic regression on a window that rolls over 1,000 rows, d = 10 | moments, by importance sampling from Laplace's approximation widened to a t with 8 degrees of freedom |
| `folds` | linear regression with its noise's scale, a fold of its rows left out by weights, d = 7 | exact draws, from the normal-inverse-gamma |
| `simulated` | eight schools, data simulated from the prior, d = 10 | the parameters behind each data set: their ranks among the draws are uniform (simulation-based calibration) |

Seconds per posterior: those of the whole family over the number of members, compiling included; alone: the median over
some members, each fitted as a target of its own by the same method.
"""  # noqa: E501 (the table)

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ergodic.api import fit_many
from ergodic.family import Family
from ergodic.family_sampler import FamilyDraws
from ergodic.initial import DiagonalGaussian
from ergodic.methods import GEI

from ..harness.study import Report, Run, Study
from ..harness.tables import Table
from ..measures.bias import SecondMoments, squared_bias

_ROWS = 1000


@dataclass(frozen=True)
class Size:
    """How much is run."""

    members: int
    alone: int
    """Members that are also fitted alone."""
    draws: int


PRESETS = {"smoke": Size(4, 1, 200), "cpu": Size(50, 10, 10_000)}
Figures = dict[str, int | float]
"""What was measured of a family, by name."""


class Problem(NamedTuple):
    """A family, and what is known of it."""

    family: Family
    known: list[SecondMoments] | np.ndarray
    """Second moments, one set per member; or the parameters behind the data, ``(members, dim)``."""


def family(run: Run[Size]) -> Report:
    """One schedule for many posteriors (fit_many) against fitting each alone."""
    results: dict[str, Figures] = {}
    for make in (windows, folds, simulated):
        problem = make(run.size.members)
        row = results[str(problem.family.name)] = measure(problem, run.size)
        run.say(
            f"{problem.family.name:10s} {row['seconds a posterior']:.3f} s per posterior, alone "
            f"{row['alone, seconds a posterior']:.2f} s ({row['times faster']:.0f} times)"
        )
    return Report(results, [_table(results)])


def measure(problem: Problem, size: Size) -> Figures:
    """Fit a family, draw, and hold both against what is known."""
    family = problem.family
    samplers = fit_many(family, jax.random.key(0))
    draws = samplers.sample(jax.random.key(1), size.draws)
    count, cost = len(family), samplers.cost
    alone = [GEI(certify=False).fit(family[i], jax.random.key(2 + i), progress=False) for i in range(size.alone)]
    whole = (cost.run_seconds + cost.compile_seconds) / count
    each = float(np.median([one.cost.run_seconds + one.cost.compile_seconds for one in alone]))
    return {
        "members": count,
        "dim": family.dim,
        "settled": int(samplers.settled.sum()),
        "depth": samplers.depth,
        "tuning depth": cost.depth,
        "gradients a posterior": cost.gradients // count,
        "seconds a posterior": whole,
        "of it running": cost.run_seconds / count,
        "seconds for all draws": draws.cost.run_seconds,
        "alone, seconds a posterior": each,
        "alone, of it running": float(np.median([one.cost.run_seconds for one in alone])),
        "alone, depth": float(np.median([one.depth for one in alone])),
        "alone, gradients": float(np.median([one.cost.gradients for one in alone])),
        "times faster": each / whole,
        **_quality(problem, draws),
    }


def _quality(problem: Problem, draws: FamilyDraws) -> dict[str, int | float]:
    if isinstance(problem.known, np.ndarray):
        return {"ranks, smallest p": uniform_ranks(draws.unconstrained, problem.known)}
    each = zip(problem.family, draws.unconstrained, problem.known, strict=True)
    b2 = [squared_bias(target, rows, moments=moments).largest for target, rows, moments in each]
    return {"b2, median": float(np.median(b2)), "b2, largest": float(np.max(b2))}


def uniform_ranks(draws: np.ndarray, behind: np.ndarray) -> float:
    """The p-value that ranks of ``behind``, ``(members, dim)``, among draws, ``(members, n, dim)``, are uniform.

    The smallest of Kolmogorov and Smirnov's, one per coordinate, multiplied by their number (Bonferroni).
    """
    from scipy.stats import kstest

    ranks = np.mean(draws < behind[:, None, :], axis=1)
    p_values = [kstest(ranks[:, i], "uniform").pvalue for i in range(ranks.shape[1])]
    return float(min(1.0, min(p_values) * len(p_values)))


# The families ------------------------------------------------------------------------------------------------------


def windows(members: int) -> Problem:
    """Logistic regression on 300 rows at a time of 1,000; w ~ N(0, I)."""
    rng, dim, rows = np.random.default_rng(0), 10, 300
    x = rng.normal(size=(_ROWS, dim)) * np.geomspace(0.3, 3, dim)
    x[:, 1] += 2 * x[:, 0]
    y = rng.uniform(size=_ROWS) < 1 / (1 + np.exp(-x @ rng.normal(size=dim)))
    signed = np.where(y[:, None], x, -x)
    starts = np.linspace(0, _ROWS - rows, members).astype(int)
    data = np.stack([signed[at : at + rows] for at in starts])

    def logdensity(w: Array, rows: Array) -> Float[Array, ""]:
        return jnp.sum(jax.nn.log_sigmoid(rows @ w)) - 0.5 * jnp.sum(w**2)

    family = Family(logdensity, data.astype(np.float32), jnp.zeros(dim), name="windows")
    return Problem(family, [logistic_moments(member, np.random.default_rng(1)) for member in data])


def logistic_moments(signed: np.ndarray, rng: np.random.Generator, draws: int = 50_000) -> SecondMoments:
    """E[w²] and Var[w²] of a logistic regression with w ~ N(0, I), by importance sampling in float64."""
    dim, nu = signed.shape[1], 8
    mode = np.zeros(dim)
    for _ in range(30):
        p = 1 / (1 + np.exp(signed @ mode))
        hessian = (signed * (p * (1 - p))[:, None]).T @ signed + np.eye(dim)
        mode = mode + np.linalg.solve(hessian, signed.T @ p - mode)
    root = np.linalg.cholesky(np.linalg.inv(hessian))
    z = rng.normal(size=(draws, dim)) / np.sqrt(rng.chisquare(nu, size=(draws, 1)) / nu)
    w = mode + z @ root.T
    log_ratio = -np.logaddexp(0, -w @ signed.T).sum(axis=1) - 0.5 * (w**2).sum(axis=1)
    log_ratio += 0.5 * (nu + dim) * np.log1p((z**2).sum(axis=1) / nu)
    weight = np.exp(log_ratio - log_ratio.max())
    weight /= weight.sum()
    expected, fourth = weight @ w**2, weight @ w**4
    return SecondMoments(tuple(f"w[{i}]" for i in range(dim)), expected, fourth - expected**2, float((weight**2).sum()))


def folds(members: int) -> Problem:
    """y ~ N(X c, σ), c ~ N(0, 10² σ²), σ² ~ InverseGamma(2, 2), with a weight of 0 for the rows of one fold."""
    rng, dim = np.random.default_rng(2), 6
    x = rng.normal(size=(_ROWS // 5, dim)) * np.geomspace(0.1, 10, dim)
    y = x @ rng.normal(size=dim) + 0.5 * rng.normal(size=len(x))
    weights = np.stack([np.arange(len(x)) % members != fold for fold in range(members)]).astype(float)
    design, response = jnp.asarray(x, float), jnp.asarray(y, float)

    def logdensity(position: dict[str, Array], weight: Array) -> Float[Array, ""]:
        c, u = position["c"], position["log_sigma"]
        error = jnp.sum(weight * (response - design @ c) ** 2) + jnp.sum((c / 10) ** 2) + 4.0
        return -(jnp.sum(weight) + dim + 4.0) * u - 0.5 * jnp.exp(-2 * u) * error

    like = {"c": jnp.zeros(dim), "log_sigma": jnp.zeros(())}
    family = Family(logdensity, weights.astype(np.float32), like, name="folds")
    return Problem(family, [_linear_moments(x, y, weight, np.random.default_rng(3)) for weight in weights])


def _linear_moments(x: np.ndarray, y: np.ndarray, weight: np.ndarray, rng: np.random.Generator) -> SecondMoments:
    """From 200,000 exact draws of the normal-inverse-gamma: σ² first, then c given σ²."""
    n, dim = 200_000, x.shape[1]
    precision = (x * weight[:, None]).T @ x + np.eye(dim) / 100
    mean = np.linalg.solve(precision, (x * weight[:, None]).T @ y)
    scale = 2 + 0.5 * ((weight * y**2).sum() - mean @ precision @ mean)
    variance = scale / rng.gamma(2 + 0.5 * weight.sum(), size=n)
    root = np.linalg.cholesky(np.linalg.inv(precision))
    c = mean + np.sqrt(variance)[:, None] * (rng.normal(size=(n, dim)) @ root.T)
    squares = np.concatenate([c, 0.5 * np.log(variance)[:, None]], axis=1) ** 2
    names = (*(f"c[{i}]" for i in range(dim)), "log_sigma")
    return SecondMoments(names, squares.mean(axis=0), squares.var(axis=0), 1 / n)


def simulated(members: int) -> Problem:
    """Eight schools, not centred: z_j ~ N(0, 1), mu ~ N(0, 5²), log tau ~ N(log 5, 1), y_j ~ N(mu + tau z_j, σ_j)."""
    rng = np.random.default_rng(4)
    sigma = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])
    z, mu = rng.normal(size=(members, 8)), 5 * rng.normal(size=members)
    log_tau = np.log(5) + rng.normal(size=members)
    y = mu[:, None] + np.exp(log_tau)[:, None] * z + sigma * rng.normal(size=z.shape)

    def logdensity(position: dict[str, Array], schools: Array) -> Float[Array, ""]:
        theta = position["mu"] + jnp.exp(position["log_tau"]) * position["z"]
        prior = jnp.sum(position["z"] ** 2) + (position["mu"] / 5) ** 2 + (position["log_tau"] - np.log(5)) ** 2
        return -0.5 * (jnp.sum(((schools - theta) / jnp.asarray(sigma, theta.dtype)) ** 2) + prior)

    like = {"log_tau": jnp.zeros(()), "mu": jnp.zeros(()), "z": jnp.zeros(8)}
    mean, scale = np.zeros(10, np.float32), np.ones(10, np.float32)
    mean[0], scale[1] = np.log(5), 5
    prior = DiagonalGaussian(jnp.asarray(mean), jnp.log(jnp.asarray(scale)))
    family = Family(logdensity, y.astype(np.float32), like, name="simulated", prior=prior)
    return Problem(family, np.column_stack([log_tau, mu, z]))


def _table(results: dict[str, Figures]) -> Table:
    def quality(row: Figures) -> str:
        if "b2, largest" in row:
            return f"b2 {row['b2, median']:.1g}, largest {row['b2, largest']:.1g}"
        return f"ranks uniform: p = {row['ranks, smallest p']:.2f}"

    rows = [
        [
            name,
            row["members"],
            row["dim"],
            row["settled"],
            row["depth"],
            f"{row['seconds a posterior']:.3f} ({row['of it running']:.3f})",
            f"{row['alone, seconds a posterior']:.2f} ({row['alone, of it running']:.2f})",
            f"{row['times faster']:.0f}",
            f"{row['seconds for all draws']:.1f}",
            quality(row),
        ]
        for name, row in results.items()
    ]
    columns = ["family", "members", "d", "settled", "depth", "s a posterior", "alone", "times", "s for all draws"]
    return Table.of(
        "One schedule for a family of posteriors",
        [*columns, "quality"],
        rows,
        "Seconds per posterior to fit, compiling included, and without it in brackets; alone: eg.GEI on a member by "
        "itself in the same process, median. b2_max per member, median and largest over members.",
    )


STUDY = Study("family", "bench", PRESETS, family)
