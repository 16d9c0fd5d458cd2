"""Two series of posteriordb: arma (an ARMA(1, 1) process) and hmm (a hidden Markov chain of two states).

Both recursions are evaluated by an associative scan, in log₂ T stages instead of T: they are compositions of maps.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .bayesian import Posterior, Values, half_cauchy

Data = dict[str, Any]


def arma(data: Data) -> Posterior:
    """e_t = y_t - mu - phi y_{t-1} - theta e_{t-1} ~ N(0, σ); mu ~ N(0, 10), phi, theta ~ N(0, 2), σ ~ C(0, 2.5).

    The first error is e_1 = y_1 - mu - phi mu.
    """
    observed = np.asarray(data["y"], float)
    sigma = half_cauchy(2.5)

    def logdensity(x: Values) -> Array:
        y = jnp.asarray(observed, x["mu"].dtype)
        before = jnp.concatenate([x["mu"][None], y[:-1]])
        shock = y - x["mu"] - x["phi"] * before
        errors = _linear_recursion(jnp.full_like(y, -x["theta"]), shock)
        loglikelihood = -len(observed) * x["log_sigma"] - 0.5 * jnp.sum((errors * jnp.exp(-x["log_sigma"])) ** 2)
        prior = -0.5 * ((x["mu"] / 10) ** 2 + (x["phi"] / 2) ** 2 + (x["theta"] / 2) ** 2)
        return loglikelihood + prior + sigma.logdensity(x["log_sigma"])

    def constrain(x: Values) -> dict[str, Array]:
        return {"mu": x["mu"], "phi": x["phi"], "theta": x["theta"], "sigma": jnp.exp(x["log_sigma"])}

    def unconstrain(values: Values) -> dict[str, np.ndarray]:
        return {**{name: values[name] for name in ("mu", "phi", "theta")}, "log_sigma": np.log(values["sigma"])}

    shapes: dict[str, tuple[int, ...]] = {"mu": (), "phi": (), "theta": (), "log_sigma": ()}
    start = {"mu": (0.0, 10.0), "phi": (0.0, 2.0), "theta": (0.0, 2.0), "log_sigma": sigma.start}
    return Posterior(logdensity, shapes, constrain, unconstrain, start)


def _linear_recursion(factor: Float[Array, "t"], shock: Float[Array, "t"]) -> Float[Array, "t"]:
    """e_t = factor_t e_{t-1} + shock_t from e_0 = 0."""

    def compose(first: tuple[Array, Array], then: tuple[Array, Array]) -> tuple[Array, Array]:
        return then[0] * first[0], then[0] * first[1] + then[1]

    return jax.lax.associative_scan(compose, (factor, shock))[1]


def hmm(data: Data) -> Posterior:
    """y_t | state k ~ N(mu_k, 1), 0 < mu1 < mu2, mu1 ~ N(3, 1), mu2 ~ N(10, 1); rows of the transition matrix uniform.

    theta1, theta2 are the rows, each a simplex of two held as the logit of its first entry. mu1 = exp(log_mu1),
    mu2 = mu1 + exp(log_gap). The states are summed out; the first has no weight of its own.
    """
    observed = np.asarray(data["y"], float)

    def means(x: Values) -> Array:
        low = jnp.exp(x["log_mu1"])
        return jnp.stack([low, low + jnp.exp(x["log_gap"])])

    def logdensity(x: Values) -> Array:
        y, mu = jnp.asarray(observed, x["log_mu1"].dtype), means(x)
        emission = -0.5 * (y[:, None] - mu[None, :]) ** 2
        rows = [[_log_sigmoid(x[name]), _log_sigmoid(-x[name])] for name in ("logit_theta1", "logit_theta2")]
        transition = jnp.stack([jnp.stack(row) for row in rows])
        steps = transition[None, :, :] + emission[1:, None, :]
        paths = _log_matrix_product(steps)
        loglikelihood = jax.nn.logsumexp(emission[0][:, None] + paths)
        prior = -0.5 * ((mu[0] - 3) ** 2 + (mu[1] - 10) ** 2)
        return loglikelihood + prior + x["log_mu1"] + x["log_gap"] + sum(jnp.sum(jnp.stack(row)) for row in rows)

    def constrain(x: Values) -> dict[str, Array]:
        rows = {
            name: jnp.stack([jax.nn.sigmoid(x[f"logit_{name}"]), jax.nn.sigmoid(-x[f"logit_{name}"])])
            for name in ("theta1", "theta2")
        }
        return {**rows, "mu": means(x)}

    def unconstrain(values: Values) -> dict[str, np.ndarray]:
        logits = {f"logit_{n}": np.log(values[n][:, 0]) - np.log(values[n][:, 1]) for n in ("theta1", "theta2")}
        mu = values["mu"]
        return {**logits, "log_mu1": np.log(mu[:, 0]), "log_gap": np.log(mu[:, 1] - mu[:, 0])}

    shapes: dict[str, tuple[int, ...]] = {"logit_theta1": (), "logit_theta2": (), "log_mu1": (), "log_gap": ()}
    logistic = (0.0, math.pi / math.sqrt(3))  # the logit of a uniform
    # Of log N(3, 1) and log(N(10, 1) - N(3, 1)), to first order; the order mu1 < mu2 excludes next to nothing.
    start = {
        "logit_theta1": logistic,
        "logit_theta2": logistic,
        "log_mu1": (math.log(3), 1 / 3),
        "log_gap": (math.log(7), math.sqrt(2) / 7),
    }
    return Posterior(logdensity, shapes, constrain, unconstrain, start)


def _log_sigmoid(x: Array) -> Array:
    return -jax.nn.softplus(-x)


def _log_matrix_product(steps: Float[Array, "t k k"]) -> Float[Array, "k k"]:
    """log of the product of matrices given by the logs of their entries, halving their number at each stage."""

    def multiply(first: Array, then: Array) -> Array:
        return jax.nn.logsumexp(first[..., :, :, None] + then[..., None, :, :], axis=-2)

    while steps.shape[0] > 1:
        even = steps.shape[0] // 2 * 2
        steps = jnp.concatenate([multiply(steps[0:even:2], steps[1:even:2]), steps[even:]])
    return steps[0]
