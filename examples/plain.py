"""A log-density in plain JAX: the mean and scale of eight numbers, with the scale sampled as its logarithm.

python examples/plain.py
ergodic fit examples/plain.py -o plain.ergodic
"""

import arviz as az
import jax
import jax.numpy as jnp

import ergodic as eg

Y = jnp.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])


def logdensity(p):
    """y ~ N(mean, scale²), mean ~ N(0, 20²), scale ~ Exponential(1/10); + log scale is the map's log-determinant."""
    scale = jnp.exp(p["log_scale"])
    likelihood = jax.scipy.stats.norm.logpdf(Y, p["mean"], scale)
    return jnp.sum(likelihood) - 0.5 * (p["mean"] / 20) ** 2 - scale / 10 + p["log_scale"]


def constrain(p):
    """What to show of a position."""
    return {"mean": p["mean"], "scale": jnp.exp(p["log_scale"])}


target = eg.Target(logdensity, like={"mean": 0.0, "log_scale": 0.0}, constrain=constrain)

if __name__ == "__main__":
    sampler = eg.fit(target, jax.random.key(0))
    draws = sampler.sample(jax.random.key(1), 4_000)
    print(az.summary(draws.to_arviz(), kind="stats"))
