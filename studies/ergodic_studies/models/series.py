"""Time series: autoregressions, changing volatility, hidden states, levels that wander, a break."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from .model import Model, Problem, ordered


def hidden_markov(y: np.ndarray) -> None:
    """Two hidden states with normal emissions, 400 steps: the forward algorithm, by a scan."""
    means = ordered("means", np.array([-1.0, 0.5]), 1.0)
    scales = numpyro.sample("scales", dist.HalfNormal(2).expand([2]).to_event(1))
    stay = numpyro.sample("stay", dist.Beta(4, 2).expand([2]).to_event(1))
    move = jnp.log(jnp.stack([jnp.stack([stay[0], 1 - stay[0]]), jnp.stack([1 - stay[1], stay[1]])]))
    emission = dist.Normal(means, scales).log_prob(jnp.asarray(y)[:, None])

    def step(forward: jax.Array, here: jax.Array) -> tuple[jax.Array, None]:
        return jax.nn.logsumexp(forward[:, None] + move, axis=0) + here, None

    end, _ = jax.lax.scan(step, emission[0] - jnp.log(2.0), emission[1:])
    numpyro.factor("likelihood", jax.nn.logsumexp(end))


def _hidden_markov() -> Problem:
    rng, n, state = np.random.default_rng(41), 400, 0
    y = np.zeros(n)
    for t in range(n):
        state = state if rng.uniform() < (0.92, 0.85)[state] else 1 - state
        y[t] = rng.normal((-0.8, 1.3)[state], (0.7, 1.1)[state])
    return Problem(hidden_markov, (y,))


def stochastic_volatility(y: np.ndarray) -> None:
    """The log-variance is an AR(1), non-centred: h_t = μ + φ (h_{t-1} - μ) + σ z_t."""
    mu = numpyro.sample("mu", dist.Normal(-1, 2))
    phi = numpyro.sample("phi", dist.Uniform(-1, 1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1))
    z = numpyro.sample("z", dist.Normal(0, 1).expand([len(y)]).to_event(1))

    def step(h: jax.Array, noise: jax.Array) -> tuple[jax.Array, jax.Array]:
        h = phi * h + sigma * noise
        return h, h

    first = sigma * z[0] / jnp.sqrt(1 - phi**2)
    _, later = jax.lax.scan(step, first, z[1:])
    h = mu + jnp.concatenate([first[None], later])
    numpyro.sample("y", dist.Normal(0, jnp.exp(h / 2)), obs=y)


def _stochastic_volatility() -> Problem:
    rng, n = np.random.default_rng(42), 100
    h = np.zeros(n)
    for t in range(1, n):
        h[t] = 0.9 * h[t - 1] + 0.4 * rng.normal()
    return Problem(stochastic_volatility, (np.exp((h - 1) / 2) * rng.normal(size=n),))


def autoregression(y: np.ndarray) -> None:
    """AR(2) around a constant."""
    c = numpyro.sample("c", dist.Normal(0, 2))
    phi = numpyro.sample("phi", dist.Normal(0, 1).expand([2]).to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(2))
    numpyro.sample("y", dist.Normal(c + phi[0] * y[1:-1] + phi[1] * y[:-2], sigma), obs=y[2:])


def _autoregression() -> Problem:
    rng, n = np.random.default_rng(43), 200
    y = np.zeros(n)
    for t in range(2, n):
        y[t] = 0.5 + 0.6 * y[t - 1] + 0.25 * y[t - 2] + rng.normal()
    return Problem(autoregression, (y,))


def garch(y: np.ndarray) -> None:
    """GARCH(1, 1): σ²_t = ω + α (y_{t-1} - μ)² + β σ²_{t-1}, with α and β of a simplex's parts."""
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    omega = numpyro.sample("omega", dist.HalfNormal(1))
    persistence = numpyro.sample("persistence", dist.Beta(4, 1))
    share = numpyro.sample("share", dist.Beta(1, 3))
    alpha, beta = persistence * share, persistence * (1 - share)

    def step(variance: jax.Array, before: jax.Array) -> tuple[jax.Array, jax.Array]:
        variance = omega + alpha * before**2 + beta * variance
        return variance, variance

    first = omega / (1 - persistence)
    _, later = jax.lax.scan(step, first, jnp.asarray(y)[:-1] - mu)
    numpyro.sample("y", dist.Normal(mu, jnp.sqrt(jnp.concatenate([first[None], later]))), obs=y)


def _garch() -> Problem:
    rng, n, variance = np.random.default_rng(44), 500, 1.0
    y = np.zeros(n)
    for t in range(n):
        y[t] = 0.1 + np.sqrt(variance) * rng.normal()
        variance = 0.1 + 0.15 * (y[t] - 0.1) ** 2 + 0.75 * variance
    return Problem(garch, (y,))


def level_centred(y: np.ndarray) -> None:
    """A level that wanders, x_t ~ N(x_{t-1}, σ_x), and is seen with noise: states are written as they are."""
    wander = numpyro.sample("sigma_level", dist.HalfNormal(1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1))
    level = numpyro.sample("level", dist.GaussianRandomWalk(wander, num_steps=len(y)))
    numpyro.sample("y", dist.Normal(level, sigma), obs=y)


def level_steps(y: np.ndarray) -> None:
    """The same by its steps, x = σ_x Σ z."""
    wander = numpyro.sample("sigma_level", dist.HalfNormal(1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1))
    z = numpyro.sample("z", dist.Normal(0, 1).expand([len(y)]).to_event(1))
    level = numpyro.deterministic("level", wander * jnp.cumsum(z))
    numpyro.sample("y", dist.Normal(level, sigma), obs=y)


def _level() -> tuple[object, ...]:
    rng, n = np.random.default_rng(45), 80
    return (np.cumsum(rng.normal(0, 0.3, n)) + rng.normal(0, 0.5, n),)


def changepoint(y: np.ndarray) -> None:
    """Counts whose rate breaks once, at a time that is summed out."""
    before = numpyro.sample("before", dist.Exponential(1 / 3))
    after = numpyro.sample("after", dist.Exponential(1 / 3))
    early, late = (dist.Poisson(rate).log_prob(y) for rate in (before, after))
    head = jnp.concatenate([jnp.zeros(1, early.dtype), jnp.cumsum(early)])
    tail = jnp.sum(late) - jnp.concatenate([jnp.zeros(1, late.dtype), jnp.cumsum(late)])
    numpyro.factor("likelihood", jax.nn.logsumexp(head + tail))


def _changepoint() -> Problem:
    rng = np.random.default_rng(46)
    return Problem(changepoint, (np.concatenate([rng.poisson(3.0, 40), rng.poisson(1.6, 70)]),))


MODELS = {
    "hmm400": Model("hidden Markov model, 400 steps", 6, _hidden_markov),
    "volatility": Model("stochastic volatility, 100 steps", 103, _stochastic_volatility),
    "ar2": Model("autoregression AR(2)", 4, _autoregression),
    "garch": Model("GARCH(1, 1)", 4, _garch),
    "level": Model("local level, steps as parameters", 82, lambda: Problem(level_steps, _level())),
    "level-c": Model("local level, states as parameters", 82, lambda: Problem(level_centred, _level()), level_steps),
    "changepoint": Model("change point, summed out", 2, _changepoint),
}
