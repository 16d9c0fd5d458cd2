"""A regression with an intercept and a slope for each of eight groups, and an LKJ prior on their correlation (NumPyro).

python examples/hierarchical.py
"""

import arviz as az
import jax
import numpy as np
import numpyro
import numpyro.distributions as dist

import ergodic as eg

GROUPS, EACH = 8, 4


def simulate():
    """Group, x and response of 32 observations, from known slopes."""
    rng = np.random.default_rng(0)
    group, x = np.repeat(np.arange(GROUPS), EACH), rng.normal(size=GROUPS * EACH)
    beta = rng.multivariate_normal([1.0, -0.5], [[0.5, 0.2], [0.2, 0.3]], size=GROUPS)
    return group, x, beta[group, 0] + beta[group, 1] * x + rng.normal(size=len(x))


def regression(group, x, response=None):
    """response ~ N(beta[group] · (1, x), noise²), beta = mean + z · (diag(scale) L)ᵀ, L Lᵀ ~ LKJ(2)."""
    mean = numpyro.sample("mean", dist.Normal(0, 1).expand([2]).to_event(1))
    scale = numpyro.sample("scale", dist.HalfNormal(1).expand([2]).to_event(1))
    correlation = numpyro.sample("correlation", dist.LKJCholesky(2, 2.0))
    noise = numpyro.sample("noise", dist.HalfNormal(1))
    with numpyro.plate("group", GROUPS):
        z = numpyro.sample("z", dist.Normal(0, 1).expand([2]).to_event(1))
        beta = numpyro.deterministic("beta", mean + z @ (scale[:, None] * correlation).T)
    with numpyro.plate("observation", len(x)):
        numpyro.sample("response", dist.Normal(beta[group, 0] + beta[group, 1] * x, noise), obs=response)


names = {"mean": ["term"], "scale": ["term"], "beta": ["group", "term"]}
target = eg.from_numpyro(regression, *simulate(), dims=names, coords={"term": ["intercept", "slope"]})

if __name__ == "__main__":
    sampler = eg.fit(target, jax.random.key(0))
    data = sampler.sample(jax.random.key(1), 4_000).to_arviz()
    print(az.summary(data, var_names=["mean", "scale", "noise", "beta"], kind="stats"))
