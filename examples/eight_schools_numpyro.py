"""Eight schools (Rubin 1981) in NumPyro, centred and non-centred.

    python examples/eight_schools_numpyro.py
    ergodic fit examples/eight_schools_numpyro.py:noncentred -o eight.ergodic

A model whose arguments all have defaults can be named on the command line.
"""

import arviz as az
import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer.reparam import LocScaleReparam

import ergodic as eg

SCHOOLS = ["Choate", "Deerfield", "Andover", "Exeter", "Hotchkiss", "Lawrenceville", "St. Paul's", "Mt. Hermon"]
Y = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
SIGMA = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def centred(sigma=SIGMA, y=Y):
    """Effects theta ~ N(mu, tau²) around a common mean; a funnel where tau is small."""
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("school", len(sigma)):
        theta = numpyro.sample("theta", dist.Normal(mu, tau))
        numpyro.sample("y", dist.Normal(theta, sigma), obs=y)


noncentred = numpyro.handlers.reparam(centred, config={"theta": LocScaleReparam(0)})

if __name__ == "__main__":
    target = eg.from_numpyro(noncentred, SIGMA, Y, coords={"school": SCHOOLS})
    sampler = eg.fit(target, jax.random.key(0))
    draws = sampler.sample(jax.random.key(1), 4_000)
    print(az.summary(draws.to_arviz(), kind="stats"))
