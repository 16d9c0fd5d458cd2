"""Gaussian processes: a curve under noise, and the intensity of points on a grid."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from .model import Model, Problem

_JITTER = 1e-4
"""Added to the diagonal of a correlation matrix, so that single precision can factorise it."""


def _squares(points: np.ndarray) -> np.ndarray:
    """Squared distances between points, ``(n, n)``."""
    return np.sum((points[:, None] - points[None]) ** 2, axis=-1)


def latent_gp(squares: np.ndarray, y: np.ndarray) -> None:
    """A smooth curve at 60 places under normal noise: f = a chol(K(ℓ)) z."""
    length = numpyro.sample("length", dist.InverseGamma(5, 5))
    amplitude = numpyro.sample("amplitude", dist.HalfNormal(2))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1))
    z = numpyro.sample("z", dist.Normal(0, 1).expand([len(y)]).to_event(1))
    correlation = jnp.exp(-0.5 * squares / length**2) + _JITTER * jnp.eye(len(y))
    numpyro.sample("y", dist.Normal(amplitude * (jnp.linalg.cholesky(correlation) @ z), sigma), obs=y)


def _latent_gp() -> Problem:
    rng = np.random.default_rng(51)
    x = np.sort(rng.uniform(0, 10, 60))
    return Problem(latent_gp, (_squares(x[:, None]), np.sin(x) + 0.3 * x + rng.normal(0, 0.3, 60) - 1.5))


def cox_process(squares: np.ndarray, y: np.ndarray) -> None:
    """Counts in the 64 cells of a grid, whose log-intensity is a Gaussian process with an exponential kernel."""
    length = numpyro.sample("length", dist.InverseGamma(4, 6))
    amplitude = numpyro.sample("amplitude", dist.HalfNormal(1))
    z = numpyro.sample("z", dist.Normal(0, 1).expand([len(y)]).to_event(1))
    correlation = jnp.exp(-jnp.sqrt(squares) / length) + _JITTER * jnp.eye(len(y))
    log_rate = np.log(np.mean(y)) + amplitude * (jnp.linalg.cholesky(correlation) @ z)
    numpyro.sample("y", dist.Poisson(jnp.exp(log_rate)), obs=y)


def _cox_process() -> Problem:
    rng = np.random.default_rng(52)
    cells = np.stack(np.meshgrid(np.arange(8.0), np.arange(8.0)), axis=-1).reshape(-1, 2)
    squares = _squares(cells)
    field = np.linalg.cholesky(np.exp(-np.sqrt(squares) / 2.5)) @ rng.normal(size=64)
    return Problem(cox_process, (squares, rng.poisson(4 * np.exp(0.8 * field))))


MODELS = {
    "gp": Model("latent Gaussian process, 60 places", 63, _latent_gp),
    "cox": Model("Cox process on an 8 by 8 grid", 66, _cox_process),
}
