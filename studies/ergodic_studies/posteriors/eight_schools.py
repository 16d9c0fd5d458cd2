"""Eight schools (Rubin 1981), in both forms.

    y_j ~ N(theta_j, sigma_j),    theta_j ~ N(mu, tau),    mu ~ N(0, 5),    tau ~ C(0, 5), tau > 0

Centred, the position holds theta: the funnel. Non-centred, it holds z with theta = mu + tau z, z_j ~ N(0, 1).
"""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .bayesian import Columns, Data, Posterior, Values, half_cauchy

_TAU = half_cauchy(5.0)
_MU = (0.0, 5.0)


def _hyperprior(x: Values) -> Array:
    return -0.5 * (x["mu"] / 5) ** 2 + _TAU.logdensity(x["log_tau"])


def _loglikelihood(data: Data, theta: Float[Array, "schools"]) -> Array:
    y, sigma = (jnp.asarray(np.asarray(data[name], float), theta.dtype) for name in ("y", "sigma"))
    return -0.5 * jnp.sum(((y - theta) / sigma) ** 2)


def centred(data: Data) -> Posterior:
    """Position: theta, mu, log tau. P0 gets theta's prior spread at tau = 5, the prior's median."""

    def logdensity(x: Values) -> Array:
        z = (x["theta"] - x["mu"]) * jnp.exp(-x["log_tau"])
        prior = -0.5 * jnp.sum(z**2) - z.shape[0] * x["log_tau"]
        return _loglikelihood(data, x["theta"]) + prior + _hyperprior(x)

    def constrain(x: Values) -> dict[str, Array]:
        return {"theta": x["theta"], "mu": x["mu"], "tau": jnp.exp(x["log_tau"])}

    def unconstrain(values: Columns) -> dict[str, np.ndarray]:
        return {"theta": values["theta"], "mu": values["mu"], "log_tau": np.log(values["tau"])}

    shapes = {"theta": (len(data["y"]),), "mu": (), "log_tau": ()}
    start = {"theta": (0.0, math.sqrt(50.0)), "mu": _MU, "log_tau": _TAU.start}
    return Posterior(logdensity, shapes, constrain, unconstrain, start)


def noncentred(data: Data) -> Posterior:
    """Position: z, mu, log tau."""

    def constrain(x: Values) -> dict[str, Array]:
        return {"theta": x["mu"] + jnp.exp(x["log_tau"]) * x["z"], "mu": x["mu"], "tau": jnp.exp(x["log_tau"])}

    def logdensity(x: Values) -> Array:
        return _loglikelihood(data, constrain(x)["theta"]) - 0.5 * jnp.sum(x["z"] ** 2) + _hyperprior(x)

    def unconstrain(values: Columns) -> dict[str, np.ndarray]:
        z = (values["theta"] - values["mu"][:, None]) / values["tau"][:, None]
        return {"z": z, "mu": values["mu"], "log_tau": np.log(values["tau"])}

    shapes = {"z": (len(data["y"]),), "mu": (), "log_tau": ()}
    start = {"z": (0.0, 1.0), "mu": _MU, "log_tau": _TAU.start}
    return Posterior(logdensity, shapes, constrain, unconstrain, start)
