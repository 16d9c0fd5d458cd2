"""Differential equations under noise: by Runge-Kutta with fixed steps, written by hand, and by diffrax."""

from __future__ import annotations

from collections.abc import Callable

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from .model import Model, Problem

Field = Callable[[jax.Array], jax.Array]
"""dx/dt as a function of x."""


def runge_kutta(field: Field, start: jax.Array, step: float, each: int, saved: int) -> jax.Array:
    """The solution after each ``each`` steps of the classical method, ``(saved, dim)``."""

    def one(x: jax.Array, _: None) -> tuple[jax.Array, None]:
        k1 = field(x)
        k2 = field(x + 0.5 * step * k1)
        k3 = field(x + 0.5 * step * k2)
        k4 = field(x + step * k3)
        return x + step / 6 * (k1 + 2 * k2 + 2 * k3 + k4), None

    def several(x: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
        x, _ = jax.lax.scan(one, x, length=each)
        return x, x

    return jax.lax.scan(several, start, length=saved)[1]


def pharmacokinetics(dose: float, y: np.ndarray) -> None:
    """One compartment with absorption: gut' = -k_a gut, blood' = k_a gut - k_e blood; y is log concentration."""
    absorb = numpyro.sample("ka", dist.LogNormal(0.5, 0.5))
    leave = numpyro.sample("ke", dist.LogNormal(-1, 0.5))
    volume = numpyro.sample("volume", dist.LogNormal(3, 0.5))
    sigma = numpyro.sample("sigma", dist.HalfNormal(0.5))

    def field(x: jax.Array) -> jax.Array:
        return jnp.stack([-absorb * x[0], absorb * x[0] - leave * x[1]])

    blood = runge_kutta(field, jnp.stack([dose, 0.0 * absorb]), 0.1, 5, len(y))[:, 1]
    numpyro.sample("y", dist.Normal(jnp.log(jnp.maximum(blood, 1e-6) / volume), sigma), obs=y)


def _pharmacokinetics() -> Problem:
    rng, t, (ka, ke, volume) = np.random.default_rng(61), 0.5 * np.arange(1, 25), (1.5, 0.3, 20.0)
    blood = 100 * ka / (ka - ke) * (np.exp(-ke * t) - np.exp(-ka * t))
    return Problem(pharmacokinetics, (100.0, np.log(blood / volume) + rng.normal(0, 0.15, len(t))))


def lotka_volterra(y: np.ndarray) -> None:
    """Hares and lynxes: two rates each, where they began, and log-normal noise."""
    rates = numpyro.sample("rates", dist.LogNormal(jnp.log(jnp.array([1.0, 0.05, 1.0, 0.05])), 0.5).to_event(1))
    start = numpyro.sample("start", dist.LogNormal(jnp.log(10.0), 1).expand([2]).to_event(1))
    sigma = numpyro.sample("sigma", dist.LogNormal(-1, 1).expand([2]).to_event(1))

    def field(log_x: jax.Array) -> jax.Array:
        """Of log x, which stays finite where a step is too coarse."""
        x = jnp.exp(jnp.clip(log_x, -20.0, 10.0))
        return jnp.stack([rates[0] - rates[1] * x[1], -rates[2] + rates[3] * x[0]])

    log_x = runge_kutta(field, jnp.log(start), 0.1, 10, len(y))
    numpyro.sample("y", dist.Normal(log_x, sigma).to_event(2), obs=y)


def _lotka_volterra() -> Problem:
    rng, steps = np.random.default_rng(62), 1_000
    x, y = np.array([30.0, 6.0]), []
    for step in range(20 * steps):
        x = x + np.array([x[0] * (0.55 - 0.028 * x[1]), x[1] * (-0.8 + 0.024 * x[0])]) / steps
        if (step + 1) % steps == 0:
            y.append(np.log(x) + rng.normal(0, 0.25, 2))
    return Problem(lotka_volterra, (np.array(y),))


def epidemic(population: float, y: np.ndarray) -> None:
    """New cases of an SIR epidemic by day, with diffrax's adaptive solver, and more spread than Poisson's."""
    beta = numpyro.sample("beta", dist.LogNormal(-0.5, 0.5))
    gamma = numpyro.sample("gamma", dist.LogNormal(-1.5, 0.5))
    first = numpyro.sample("first", dist.LogNormal(1, 1))
    inverse = numpyro.sample("inverse_root", dist.HalfNormal(0.5))

    def field(t: object, x: jax.Array, _: object) -> jax.Array:
        caught = beta * x[0] * x[1] / population
        return jnp.stack([-caught, caught - gamma * x[1]])

    times = jnp.arange(len(y) + 1, dtype=beta.dtype)
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(field),
        diffrax.Tsit5(),
        t0=0.0,
        t1=float(len(y)),
        dt0=0.5,
        y0=jnp.stack([population - first, first]),
        saveat=diffrax.SaveAt(ts=times),
        stepsize_controller=diffrax.PIDController(rtol=1e-4, atol=1e-2),
        max_steps=256,
        throw=False,
    )
    cases = jnp.maximum(-jnp.diff(solution.ys[:, 0]), 1e-3)
    numpyro.sample("y", dist.NegativeBinomial2(cases, inverse**-2.0), obs=y)


def _epidemic() -> Problem:
    rng, steps, population = np.random.default_rng(63), 1_000, 2_000.0
    susceptible, infected, y = population - 3, 3.0, []
    for _ in range(40):
        before = susceptible
        for _ in range(steps):
            caught = 0.55 * susceptible * infected / population / steps
            susceptible, infected = susceptible - caught, infected + caught - 0.2 * infected / steps
        y.append(rng.poisson((before - susceptible) * rng.gamma(10.0, 0.1)))
    return Problem(epidemic, (population, np.array(y)))


MODELS = {
    "pk": Model("one-compartment pharmacokinetics", 4, _pharmacokinetics),
    "lotka": Model("Lotka-Volterra, 20 years", 8, _lotka_volterra),
    "sir": Model("SIR epidemic, by diffrax", 4, _epidemic),
}
