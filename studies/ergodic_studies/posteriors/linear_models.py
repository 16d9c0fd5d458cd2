"""Linear regressions of posteriordb: arK, kidiq, earnings, mesquite, sblrc, diamonds.

y ~ N(X c, σ) with n rows. With the least-squares fit ĉ, its σ̂² = |y - Xĉ|²/n, X = QR and v = log σ - log σ̂,

    log N(y | Xc, σ) + const = -n v - n/2 (e^{-2v} - 1) - ½ e^{-2v} |R (c - ĉ)/σ̂|²

The same function as the sum over rows, at a cost that does not grow with n, and without its cancellations: it is 0 at
the best fit, so that float32 has its digits where they count. Positions are the published coefficients, however
correlated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .bayesian import Columns, Data, Posterior, ScalePrior, Values, half_cauchy, half_normal, half_t3


class LeastSquares(NamedTuple):
    """All that the likelihood needs of X (n, d) and y, in float64."""

    rows: int
    best: np.ndarray
    """ĉ, ``(d,)``."""
    log_scale: float
    """log σ̂."""
    factor: np.ndarray
    """R/σ̂, ``(d, d)``."""

    @staticmethod
    def of(design: np.ndarray, response: np.ndarray) -> LeastSquares:
        """Fit a response to a design by the QR decomposition."""
        q, r = np.linalg.qr(design)
        best = np.linalg.solve(r, q.T @ response)
        scale = np.sqrt(np.mean((response - design @ best) ** 2))
        return LeastSquares(len(response), best, float(np.log(scale)), r / scale)

    def loglikelihood(self, coefficients: Float[Array, "d"], log_sigma: Float[Array, ""]) -> Float[Array, ""]:
        """log N(y | Xc, σ) less its largest value."""
        dtype = coefficients.dtype
        v = log_sigma - self.log_scale
        away = jnp.matmul(
            jnp.asarray(self.factor, dtype), coefficients - jnp.asarray(self.best, dtype), precision="highest"
        )
        return -self.rows * (v + 0.5 * jnp.expm1(-2 * v)) - 0.5 * jnp.exp(-2 * v) * jnp.sum(away**2)


def _regression(
    design: np.ndarray,
    response: np.ndarray,
    shapes: dict[str, tuple[int, ...]],
    prior: Callable[[Values], Array],
    sigma: ScalePrior | None,
    start: dict[str, tuple[float, float]] | None = None,
) -> Posterior:
    """The posterior of coefficients of these shapes, in the order of the design's columns, and of log σ.

    Without a prior σ is uniform on σ > 0, so that log σ has the log-Jacobian alone.
    """
    fit = LeastSquares.of(design, response)
    of_scale = (lambda u: u) if sigma is None else sigma.logdensity

    def logdensity(x: Values) -> Array:
        coefficients = jnp.concatenate([x[name].reshape(-1) for name in shapes])
        return fit.loglikelihood(coefficients, x["log_sigma"]) + prior(x) + of_scale(x["log_sigma"])

    def constrain(x: Values) -> dict[str, Array]:
        return {**{name: x[name] for name in shapes}, "sigma": jnp.exp(x["log_sigma"])}

    def unconstrain(values: Columns) -> dict[str, np.ndarray]:
        return {**{name: values[name] for name in shapes}, "log_sigma": np.log(values["sigma"])}

    begin = None if start is None or sigma is None else {**start, "log_sigma": sigma.start}
    return Posterior(logdensity, {**shapes, "log_sigma": ()}, constrain, unconstrain, begin)


def _flat(x: Values) -> Array:
    return jnp.zeros_like(x["log_sigma"])


def ark(data: Data) -> Posterior:
    """AR(K): y_t ~ N(alpha + Σ_k beta_k y_{t-k}, σ), t = K+1..T; alpha, beta_k ~ N(0, 10), σ ~ C(0, 2.5)."""
    y, order = np.asarray(data["y"], float), int(data["K"])
    lags = [y[order - k : len(y) - k] for k in range(1, order + 1)]
    design = np.stack([np.ones(len(y) - order), *lags], axis=1)
    return _regression(
        design,
        y[order:],
        {"alpha": (), "beta": (order,)},
        lambda x: -0.5 * ((x["alpha"] / 10) ** 2 + jnp.sum((x["beta"] / 10) ** 2)),
        half_cauchy(2.5),
        {"alpha": (0.0, 10.0), "beta": (0.0, 10.0)},
    )


def kidiq(data: Data) -> Posterior:
    """kid_score ~ N(b1 + b2 mom_hs + b3 mom_iq + b4 mom_hs mom_iq, σ), b flat, σ ~ C(0, 2.5)."""
    school, iq = np.asarray(data["mom_hs"], float), np.asarray(data["mom_iq"], float)
    design = np.stack([np.ones_like(iq), school, iq, school * iq], axis=1)
    return _regression(design, np.asarray(data["kid_score"], float), {"beta": (4,)}, _flat, half_cauchy(2.5))


def earnings(data: Data) -> Posterior:
    """log earn ~ N(b1 + b2 height + b3 male + b4 height male, σ), all flat."""
    height, male = np.asarray(data["height"], float), np.asarray(data["male"], float)
    design = np.stack([np.ones_like(height), height, male, height * male], axis=1)
    return _regression(design, np.log(np.asarray(data["earn"], float)), {"beta": (4,)}, _flat, None)


def mesquite(data: Data) -> Posterior:
    """log weight ~ N(b1 + b2..b6 · log sizes + b7 group, σ), all flat."""
    sizes = [
        np.log(np.asarray(data[name], float)) for name in ("diam1", "diam2", "canopy_height", "total_height", "density")
    ]
    design = np.stack([np.ones_like(sizes[0]), *sizes, np.asarray(data["group"], float)], axis=1)
    return _regression(design, np.log(np.asarray(data["weight"], float)), {"beta": (7,)}, _flat, None)


def sblrc(data: Data) -> Posterior:
    """y ~ N(X beta, σ), beta_k ~ N(0, 10), σ ~ N(0, 10); a correlated design."""
    design = np.asarray(data["X"], float)
    return _regression(
        design,
        np.asarray(data["y"], float),
        {"beta": (design.shape[1],)},
        lambda x: -0.5 * jnp.sum((x["beta"] / 10) ** 2),
        half_normal(10.0),
        {"beta": (0.0, 10.0)},
    )


def diamonds(data: Data) -> Posterior:
    """Y ~ N(Intercept + (X - column means) b, σ); b_k ~ N(0, 1), Intercept ~ t_3(8, 10), σ ~ t_3(0, 10).

    The data's first column of X is the intercept's ones. t_3 has variance 3.
    """
    predictors = np.asarray(data["X"], float)[:, 1:]
    centred = predictors - predictors.mean(axis=0)
    design = np.concatenate([centred, np.ones((len(centred), 1))], axis=1)
    return _regression(
        design,
        np.asarray(data["Y"], float),
        {"b": (centred.shape[1],), "Intercept": ()},
        lambda x: -0.5 * jnp.sum(x["b"] ** 2) - 2 * jnp.log1p(((x["Intercept"] - 8) / 10) ** 2 / 3),
        half_t3(10.0),
        {"b": (0.0, 1.0), "Intercept": (8.0, 10 * 3**0.5)},
    )
