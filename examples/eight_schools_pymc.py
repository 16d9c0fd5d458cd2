"""Eight schools (Rubin 1981) in PyMC, non-centred.

    python examples/eight_schools_pymc.py
    ergodic fit examples/eight_schools_pymc.py -o eight.ergodic

The command line takes the file's only PyMC model.
"""

import arviz as az
import jax
import pymc as pm

import ergodic as eg

SCHOOLS = ["Choate", "Deerfield", "Andover", "Exeter", "Hotchkiss", "Lawrenceville", "St. Paul's", "Mt. Hermon"]

with pm.Model(coords={"school": SCHOOLS}) as eight_schools:
    sigma = pm.Data("sigma", [15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0], dims="school")
    mu = pm.Normal("mu", 0, 5)
    tau = pm.HalfCauchy("tau", 5)
    z = pm.Normal("z", 0, 1, dims="school")
    theta = pm.Deterministic("theta", mu + tau * z, dims="school")
    pm.Normal("y", theta, sigma, observed=[28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0], dims="school")

if __name__ == "__main__":
    sampler = eg.fit(eg.from_pymc(eight_schools), jax.random.key(0))
    draws = sampler.sample(jax.random.key(1), 4_000)
    print(az.summary(draws.to_arviz(), kind="stats"))
