"""Densities that are labelled beforehand, proper, improper or broken, and what a fit and its certificate say of them.

A proper one should be sampled and passed; where its support ends at a wall it may be refused, with advice. Of the
others none may pass, and what is said of them must be a sentence.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

import ergodic as eg
from ergodic.runtime.errors import ErgodicError
from ergodic.target import LogDensity

from .torture_kills import Outcome


class Labelled(NamedTuple):
    """A log-density, and what is known of it."""

    label: str
    """``"proper"``, ``"walled"`` (proper, with a support that ends where the density does not), ``"improper"`` or
    ``"broken"``."""
    logdensity: LogDensity
    dim: int = 2


def _normal(x: jax.Array) -> jax.Array:
    return -0.5 * jnp.sum(x**2)


def _beside(extra: LogDensity) -> LogDensity:
    return lambda x: _normal(x) + extra(x)


def _where(condition: LogDensity, value: float, otherwise: LogDensity = _normal) -> LogDensity:
    return lambda x: jnp.where(condition(x), value, otherwise(x))


def _correlated(r: float) -> LogDensity:
    return lambda x: -0.5 * (x[0] ** 2 - 2 * r * x[0] * x[1] + x[1] ** 2) / (1 - r**2)


def _two(distance: float) -> LogDensity:
    return lambda x: jnp.logaddexp(_normal(x - distance / 2), _normal(x + distance / 2))


def densities() -> dict[str, Labelled]:
    """All of them, by name."""
    inf, nan = float("inf"), float("nan")
    found: dict[str, Labelled] = {}

    def put(label: str, name: str, make: Callable[..., LogDensity], *values: int | float, dim: int = 2) -> None:
        for value in values:
            found[f"{name} {value:g}"] = Labelled(label, make(float(value)), dim)

    put("proper", "normal of scale", lambda s: lambda x: _normal(x / s), 1e-12, 1e-6, 1e-3, 0.1, 1, 10, 1e3, 1e6, 1e12)
    put("proper", "normal at", lambda m: lambda x: _normal(x - m), -100, -3, 3, 100)
    put("proper", "normal plus", lambda c: lambda x: _normal(x) + c, -1e6, -1e3, 1e3, 1e5)
    put("proper", "normal, correlated", _correlated, -0.99, -0.5, 0.5, 0.9, 0.99, 0.999)
    put("proper", "scales apart by", lambda s: lambda x: -0.5 * (x[0] ** 2 + (x[1] / s) ** 2), 10, 100, 1000)
    put("proper", "Student's t of", lambda v: lambda x: -0.5 * (v + 1) * jnp.sum(jnp.log1p(x**2 / v)), 3, 5, 10, 30)
    put("proper", "logistic of", lambda s: lambda x: jnp.sum(x / s - 2 * jax.nn.softplus(x / s)), 0.1, 1, 10)
    put("proper", "Gumbel of", lambda s: lambda x: -jnp.sum(x / s + jnp.exp(-x / s)), 0.5, 1, 2)
    put("proper", "log-gamma of", lambda a: lambda x: jnp.sum(a * x - jnp.exp(x)), 0.5, 1, 2, 10)
    put("proper", "power", lambda p: lambda x: -jnp.sum(jnp.abs(x) ** p), 1.5, 4, 6)
    put("proper", "banana", lambda b: lambda x: -0.5 * (x[0] ** 2 + (x[1] - b * x[0] ** 2) ** 2), 0.1, 0.5, 1)
    put("proper", "two modes at", _two, 1, 2, 3)
    for dim in (1, 5, 20):
        put("proper", f"normal in {dim} of", lambda s: lambda x: _normal(x / s), 1, 3, dim=dim)
    put("walled", "half normal from", lambda a: _where(lambda x: x[0] < a, -inf), -1, 0, 0.5)
    put("walled", "exponential of", lambda s: lambda x: jnp.where(jnp.all(x > 0), -jnp.sum(x) / s, -inf), 0.5, 1)
    put("walled", "box of", lambda a: lambda x: jnp.where(jnp.all(jnp.abs(x) < a), 0.0 * x[0], -inf), 0.5, 1, 5)
    put("walled", "cliff of", lambda h: lambda x: _normal(x) - jnp.where(x[0] > 0, 0.0, h), 1e3, 1e8)
    put("improper", "flat along the second, of", lambda s: lambda x: -0.5 * (x[0] / s) ** 2, 0.1, 1, 10)
    put("improper", "rises with slope", lambda a: lambda x: a * x[0] - 0.5 * x[1] ** 2, -1, 0.1, 1, 10)
    put("improper", "log-linear of", lambda a: lambda x: a * jnp.sum(x), 0.1, 1)
    put("improper", "grows as", lambda a: lambda x: a * jnp.sum(x**2), 1e-3, 0.5)
    put("improper", "constant", lambda c: lambda x: c + 0.0 * x[0], -3, 0, 7)
    put("improper", "a ridge along the sum, of", lambda s: lambda x: -0.5 * ((x[0] + x[1]) / s) ** 2, 0.1, 1)
    put(
        "improper",
        "half of a normal, flat beyond",
        lambda a: lambda x: -0.5 * (jnp.minimum(x[0], a) ** 2 + x[1] ** 2),
        0,
        1,
    )
    put("improper", "a tail of power", lambda p: lambda x: -p * jnp.sum(jnp.log1p(jnp.abs(x))), 0.3, 0.6)
    put("broken", "+inf in a slab of", lambda w: _where(lambda x: (x[0] > 1) & (x[0] < 1 + w), inf), 0.05, 0.5)
    put("broken", "+inf beyond", lambda a: _where(lambda x: x[0] > a, inf), 1, 3, 5)
    put("broken", "+inf at", lambda a: _where(lambda x: jnp.sum((x - a) ** 2) < 0.2, inf), 0, 1)
    put("broken", "NaN beyond", lambda a: _where(lambda x: x[0] > a, nan), -1, 0, 1, 2)
    put("broken", "all", lambda v: lambda x: v + 0.0 * x[0], nan, inf, -inf)
    put(
        "broken",
        "NaN gradient beyond",
        lambda a: _beside(lambda x: jnp.where(x[0] > a, 0.0, jnp.sqrt(jnp.maximum(x[0] - a, 0)))),
        0,
        1,
    )
    put("broken", "an offset of", lambda c: lambda x: _normal(x) + c, -1e30, 1e12, 1e30)
    put("broken", "no gradient, of scale", lambda s: lambda x: jax.lax.stop_gradient(_normal(x / s)), 0.5, 1, 2)
    put("broken", "rounded to", lambda s: lambda x: _normal(jnp.round(x / s)), 0.5, 1)
    put("broken", "a gradient of the wrong sign, of", lambda s: _wrong(-s), 0.5, 1)
    return found  # fmt: skip


def _wrong(factor: float) -> LogDensity:
    """A normal whose gradient is another."""

    @jax.custom_vjp
    def density(x: jax.Array) -> jax.Array:
        return _normal(x)

    density.defvjp(lambda x: (_normal(x), x), lambda x, g: (-factor * g * x,))
    return density


def trial(name: str, method: str, seed: int) -> Outcome:
    """One fit, with its certificate."""
    label, logdensity, dim = densities()[name]
    chosen = {"GEI": eg.GEI(), "HEI": eg.HEI(iterations=20)}[method]
    outcome = {"trials": 1, "passed": 0, "refused": 0, "certified wrongly": 0, "raw": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            target = eg.Target(logdensity, like=jnp.zeros(dim), name=name)
            sampler = eg.fit(
                target, jax.random.key(seed), chosen, max_seconds=60 if method == "GEI" else None, progress=False
            )
            if sampler.certificate is None:
                sampler.certify(jax.random.key(seed + 1000), draws=2000)
            verdict = sampler.certificate.passed if sampler.certificate is not None else None
        except ErgodicError:
            verdict = False
        except Exception as error:
            return outcome | {"raw": 1, f"raw: {type(error).__name__}": 1}
    good = label in ("proper", "walled")
    return outcome | {
        "passed": int(verdict is True and good),
        "refused": int(verdict is not True),
        "certified wrongly": int(verdict is True and not good),
    }  # fmt: skip
