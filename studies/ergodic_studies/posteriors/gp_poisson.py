"""A Gaussian process with Poisson counts (posteriordb's gp_pois_regr), in a form that float32 can evaluate.

    rho ~ Gamma(25, rate 4), alpha ~ N⁺(0, 2), z ~ N(0, I), f = L z, k_i ~ Poisson(exp f_i)
    L L' = K + 1e-10 I,    K_ij = alpha² exp(-(x_i - x_j)²/(2 rho²))

K is so nearly singular that a float32 Cholesky decomposition of it fails. But the x_i are equally spaced, h apart, and
then with q = exp(-h²/(2 rho²)) and p = q² the factor of K is known, a product of positive terms only:

    K = B B',    B_ij = alpha q^{(i-j)²} [i j]_p √Π_{k=1}^{j} (1 - p^k),    i, j = 0, 1, ...

with the Gaussian binomial coefficients [i j]_p = [i-1 j-1]_p + p^j [i-1 j]_p. So is its inverse up to signs,

    (B⁻¹)_ij = (-1)^{i-j} q^{i-j} [i j]_p / (alpha √Π_{k=1}^{i} (1 - p^k))

and L = B C, C C' = I + 1e-10 B⁻¹ B⁻ᵀ, whose pivots are at least 1.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ergodic.runtime.errors import DataError

from .bayesian import Columns, Data, Posterior, Values, half_normal

_JITTER = 1e-10
_ALPHA = half_normal(2.0)
# log of Gamma(25, rate 4): mean ψ(25) - log 4, variance ψ'(25).
_LOG_RHO = (3.198746 - math.log(4), math.sqrt(0.040811))


def gp_poisson(data: Data) -> Posterior:
    """Position: log rho, log alpha, z; constrained: rho, alpha, f."""
    grid, counts = np.asarray(data["x"], float), np.asarray(data["k"], float)
    spacing = np.diff(grid)
    if not np.allclose(spacing, spacing[0]):
        raise DataError("gp_pois_regr.data.json should have equally spaced x, as the published data have")

    def constrain(x: Values) -> dict[str, Array]:
        factor = cholesky_factor(x["log_rho"], x["log_alpha"], len(grid), float(spacing[0]))
        return {"rho": jnp.exp(x["log_rho"]), "alpha": jnp.exp(x["log_alpha"]), "f": factor @ x["z"]}

    def logdensity(x: Values) -> Array:
        values = constrain(x)
        f = values["f"]
        loglikelihood = jnp.sum(jnp.asarray(counts, f.dtype) * f - jnp.exp(f))
        rho_prior = 25 * x["log_rho"] - 4 * values["rho"]  # Gamma's 24 log rho, and the log-Jacobian
        return loglikelihood - 0.5 * jnp.sum(x["z"] ** 2) + rho_prior + _ALPHA.logdensity(x["log_alpha"])

    def unconstrain(values: Columns) -> dict[str, np.ndarray]:
        rho, alpha = (values[name][:, None, None] for name in ("rho", "alpha"))
        kernel = alpha**2 * np.exp(-((grid[:, None] - grid[None, :]) ** 2) / (2 * rho**2))
        factor = np.linalg.cholesky(kernel + _JITTER * np.eye(len(grid)))
        z = np.linalg.solve(factor, values["f"][:, :, None])[:, :, 0]
        return {"log_rho": np.log(values["rho"]), "log_alpha": np.log(values["alpha"]), "z": z}

    shapes: dict[str, tuple[int, ...]] = {"log_rho": (), "log_alpha": (), "z": (len(grid),)}
    start = {"log_rho": _LOG_RHO, "log_alpha": _ALPHA.start, "z": (0.0, 1.0)}
    return Posterior(logdensity, shapes, constrain, unconstrain, start)


def cholesky_factor(
    log_rho: Float[Array, ""], log_alpha: Float[Array, ""], n: int, spacing: float
) -> Float[Array, "n n"]:
    """L of K + 1e-10 I on n points ``spacing`` apart."""
    index = np.arange(n)
    lag = index[:, None] - index[None, :]
    below = jnp.asarray(np.maximum(lag, 0), log_rho.dtype)
    log_q = -0.5 * (spacing * jnp.exp(-log_rho)) ** 2
    binomials = _gaussian_binomials(jnp.exp(2 * log_q), n)
    pivots = jnp.cumsum(jnp.log(-jnp.expm1(2 * log_q * jnp.arange(1, n, dtype=log_rho.dtype))))
    root = jnp.exp(log_alpha + 0.5 * jnp.concatenate([jnp.zeros(1, log_rho.dtype), pivots]))
    b = jnp.exp(log_q * below**2) * binomials * root[None, :]
    inverse = jnp.asarray((-1.0) ** lag, log_rho.dtype) * jnp.exp(log_q * below) * binomials / root[:, None]
    correction = _JITTER * jnp.matmul(inverse, inverse.T, precision="highest")
    return jnp.matmul(b, _factor_of_identity_plus(correction), precision="highest")


def _gaussian_binomials(p: Float[Array, ""], n: int) -> Float[Array, "n n"]:
    """[i j]_p, zero above the diagonal."""
    powers = p ** jnp.arange(n, dtype=p.dtype)

    def next_row(row: Array, _: None) -> tuple[Array, Array]:
        return jnp.concatenate([jnp.zeros(1, p.dtype), row[:-1]]) + powers * row, row

    return jax.lax.scan(next_row, jnp.zeros(n, p.dtype).at[0].set(1.0), length=n)[1]


def _factor_of_identity_plus(m: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """C with C C' = I + M for M positive semi-definite, column by column; rounding cannot take a pivot below 1."""
    n = m.shape[0]

    def next_column(rest: Array, j: Array) -> tuple[Array, Array]:
        pivot = jnp.sqrt(jnp.maximum(rest[j, j], 1.0))
        column = jnp.where(jnp.arange(n) > j, rest[:, j] / pivot, 0.0).at[j].set(pivot)
        return rest - column[:, None] * column[None, :], column

    return jax.lax.scan(next_column, m + jnp.eye(n, dtype=m.dtype), jnp.arange(n))[1].T
