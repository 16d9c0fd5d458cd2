"""Targets that several benchmarks share."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import ergodic as eg


def logistic_regression(rows: int = 1000, dim: int = 25, seed: int = 0) -> eg.Target:
    """Bayesian logistic regression on simulated data: w ~ N(0, I), y ~ Bernoulli(sigmoid(X w))."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, dim)).astype(np.float32)
    y = (rng.uniform(size=rows) < 1 / (1 + np.exp(-x @ rng.normal(size=dim)))).astype(np.float32)
    signed = jnp.asarray((2 * y - 1)[:, None] * x)

    def logdensity(w: Float[Array, " dim"]) -> Float[Array, ""]:
        return jnp.sum(jax.nn.log_sigmoid(signed @ w)) - 0.5 * jnp.sum(w**2)

    return eg.Target(logdensity, like=jnp.zeros(dim), name="logistic-regression")
