"""German credit: logistic regression on 24 standardised predictors, a column of ones last; w ~ N(0, I)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .bayesian import Posterior, Values


def german_credit(predictors: np.ndarray, labels: np.ndarray) -> Posterior:
    """y_i ~ Bernoulli(sigmoid(x_i'w)): log π* = -½ |w|² - Σ_i log(1 + exp(-s_i x_i'w)) with s_i = 2 y_i - 1."""
    x = (predictors - predictors.mean(axis=0)) / predictors.std(axis=0)
    design = np.concatenate([x, np.ones((len(x), 1))], axis=1)
    signed = design * (2.0 * labels.astype(float) - 1)[:, None]

    def logdensity(position: Values) -> Array:
        w = position["w"]
        margins = jnp.asarray(signed, w.dtype) @ w
        return -0.5 * jnp.sum(w**2) - jnp.sum(jax.nn.softplus(-margins))

    return Posterior(
        logdensity,
        {"w": (design.shape[1],)},
        lambda position: {"w": position["w"]},
        lambda values: {"w": values["w"]},
        {"w": (0.0, 1.0)},
    )
