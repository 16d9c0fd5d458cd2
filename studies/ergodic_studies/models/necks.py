"""Models with necks that `ergodic bench charts` adds: centred hierarchies, and two of two hundred parameters.

A name that ends in `-c` is the centred form. The twin of a model is the same posterior without the neck.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.handlers import reparam
from numpyro.infer.reparam import LocScaleReparam

from . import multilevel
from .model import Model, Problem
from .regressions import horseshoe

_PLACES = 198


def offset_centred(group: np.ndarray, x: np.ndarray, exposure: np.ndarray, y: np.ndarray) -> None:
    """Counts in 40 areas with different exposures, areas written as they are: log rate_j ~ N(line, σ²)."""
    mean = numpyro.sample("mean", dist.Normal(0, 3))
    beta = numpyro.sample("beta", dist.Normal(0, 1).expand([x.shape[1]]).to_event(1))
    scale = numpyro.sample("sigma", dist.HalfNormal(1))
    with numpyro.plate("areas", 40):
        area = numpyro.sample("area", dist.Normal(mean, scale))
    numpyro.sample("y", dist.Poisson(jnp.exp(jnp.log(exposure) + x @ beta + area[group])), obs=y)


offset = reparam(offset_centred, config={"area": LocScaleReparam(0)})


def tumours_centred(n: np.ndarray, y: np.ndarray) -> None:
    """71 experiments with a rate each, whose logits are N(μ, σ²): they are written as they are."""
    mean = numpyro.sample("mean", dist.Normal(-2, 1))
    scale = numpyro.sample("sigma", dist.HalfNormal(1))
    with numpyro.plate("experiments", len(y)):
        logit = numpyro.sample("logit", dist.Normal(mean, scale))
        numpyro.sample("y", dist.Binomial(n, logits=logit), obs=y)


tumours = reparam(tumours_centred, config={"logit": LocScaleReparam(0)})


def _tumours() -> tuple[object, ...]:
    return multilevel.MODELS["rates"].make().args


def path_centred(gap: np.ndarray, y: np.ndarray) -> None:
    """Counts at 198 places whose log-intensity is a Gaussian process with an exponential kernel: values as they are.

    That process is Markov: f_{t+1} given f_t is N(ρ f_t, a² (1 - ρ²)) with ρ = exp(-gap/ℓ), so no matrix is factorised.
    """
    length, amplitude = _kernel()
    f = numpyro.sample("f", dist.ImproperUniform(dist.constraints.real_vector, (), (len(y),)))
    rho, spread = _steps(gap, length, amplitude)
    numpyro.factor("start", dist.Normal(0, amplitude).log_prob(f[0]))
    numpyro.factor("steps", dist.Normal(rho * f[:-1], spread).log_prob(f[1:]).sum())
    numpyro.sample("y", dist.Poisson(jnp.exp(f)), obs=y)


def path_steps(gap: np.ndarray, y: np.ndarray) -> None:
    """The same by its steps, in units of their spreads."""
    length, amplitude = _kernel()
    z = numpyro.sample("z", dist.Normal(0, 1).expand([len(y)]).to_event(1))

    def step(f: jax.Array, each: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        rho, spread, noise = each
        f = rho * f + spread * noise
        return f, f

    first = amplitude * z[0]
    _, later = jax.lax.scan(step, first, (*_steps(gap, length, amplitude), z[1:]))
    f = numpyro.deterministic("f", jnp.concatenate([first[None], later]))
    numpyro.sample("y", dist.Poisson(jnp.exp(f)), obs=y)


def _kernel() -> tuple[jax.Array, jax.Array]:
    """The length and the amplitude of the process."""
    return numpyro.sample("length", dist.InverseGamma(5, 5)), numpyro.sample("amplitude", dist.HalfNormal(1))


def _steps(gap: np.ndarray, length: jax.Array, amplitude: jax.Array) -> tuple[jax.Array, jax.Array]:
    """ρ and the spread of every step."""
    rho = jnp.exp(-gap / length)
    return rho, amplitude * jnp.sqrt(-jnp.expm1(-2 * gap / length))


def _path() -> tuple[object, ...]:
    rng = np.random.default_rng(61)
    gap = rng.gamma(4, 0.25 / 4, _PLACES - 1) + 0.02
    f = [0.5 * rng.normal()]
    for rho in np.exp(-gap):
        f.append(rho * f[-1] + 0.5 * np.sqrt(1 - rho**2) * rng.normal())
    return gap, rng.poisson(np.exp(f))


def _sparse() -> tuple[object, ...]:
    """150 rows, 99 columns, six slopes that are not zero."""
    rng, n = np.random.default_rng(62), 150
    x = rng.normal(size=(n, 99))
    return x, x[:, :6] @ np.array([2.0, -1.5, 1.0, 0.7, 0.5, -0.3]) + rng.normal(size=n)


MODELS = {
    "offset-c": Model(
        "multilevel Poisson with an offset, centred",
        45,
        lambda: Problem(offset_centred, multilevel.MODELS["offset"].make().args),
        offset,
    ),
    "tumours": Model("rates of 71 experiments, logit-normal, non-centred", 73, lambda: Problem(tumours, _tumours())),
    "tumours-c": Model(
        "rates of 71 experiments, logit-normal, centred", 73, lambda: Problem(tumours_centred, _tumours()), tumours
    ),
    "path": Model("latent Gaussian process, 198 places, by its steps", 200, lambda: Problem(path_steps, _path())),
    "path-c": Model(
        "latent Gaussian process, 198 places, as it is", 200, lambda: Problem(path_centred, _path()), path_steps
    ),
    "horseshoe200": Model("horseshoe regression, 99 columns", 200, lambda: Problem(horseshoe, _sparse())),
}
