"""Two series of posteriordb: arma (an ARMA(1, 1) process) and hmm (a hidden Markov chain of two states)."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .bayesian import Columns, Data, Posterior, Values, half_cauchy


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
        errors = _decaying(-x["theta"], shock)
        loglikelihood = -len(observed) * x["log_sigma"] - 0.5 * jnp.sum((errors * jnp.exp(-x["log_sigma"])) ** 2)
        prior = -0.5 * ((x["mu"] / 10) ** 2 + (x["phi"] / 2) ** 2 + (x["theta"] / 2) ** 2)
        return loglikelihood + prior + sigma.logdensity(x["log_sigma"])

    def constrain(x: Values) -> dict[str, Array]:
        return {"mu": x["mu"], "phi": x["phi"], "theta": x["theta"], "sigma": jnp.exp(x["log_sigma"])}

    def unconstrain(values: Columns) -> dict[str, np.ndarray]:
        return {**{name: values[name] for name in ("mu", "phi", "theta")}, "log_sigma": np.log(values["sigma"])}

    shapes: dict[str, tuple[int, ...]] = {"mu": (), "phi": (), "theta": (), "log_sigma": ()}
    start = {"mu": (0.0, 10.0), "phi": (0.0, 2.0), "theta": (0.0, 2.0), "log_sigma": sigma.start}
    return Posterior(logdensity, shapes, constrain, unconstrain, start)


def _decaying(factor: Float[Array, ""], shocks: Float[Array, "t"]) -> Float[Array, "t"]:
    """e_t = factor e_{t-1} + shock_t from e_0 = 0."""

    def step(error: Array, shock: Array) -> tuple[Array, Array]:
        error = factor * error + shock
        return error, error

    return jax.lax.scan(step, jnp.zeros_like(factor), shocks)[1]


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
        prior = -0.5 * ((mu[0] - 3) ** 2 + (mu[1] - 10) ** 2)
        jacobian = x["log_mu1"] + x["log_gap"] + jnp.sum(transition)
        return _forward(transition, emission) + prior + jacobian

    def constrain(x: Values) -> dict[str, Array]:
        rows = {
            name: jnp.stack([jax.nn.sigmoid(x[f"logit_{name}"]), jax.nn.sigmoid(-x[f"logit_{name}"])])
            for name in ("theta1", "theta2")
        }
        return {**rows, "mu": means(x)}

    def unconstrain(values: Columns) -> dict[str, np.ndarray]:
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


def _forward(transition: Float[Array, "2 2"], emission: Float[Array, "t 2"]) -> Float[Array, ""]:
    """log of the sum over all paths of states, from logs, by the forward algorithm.

    With α_t(k) the sum over paths that end in state k, what is carried is log α_t(1) - log α_t(2) and log α_t(2).
    """

    def step(carry: tuple[Array, Array], here: Float[Array, "2"]) -> tuple[tuple[Array, Array], None]:
        odds, second = carry
        into = jnp.logaddexp(odds + transition[0], transition[1])
        return (into[0] - into[1] + here[0] - here[1], second + into[1] + here[1]), None

    begin = (emission[0, 0] - emission[0, 1], emission[0, 1])
    (odds, second), _ = jax.lax.scan(step, begin, emission[1:])
    return second + jax.nn.softplus(odds)
