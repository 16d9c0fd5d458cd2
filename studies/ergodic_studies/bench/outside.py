"""Other people's NUTS, run from the same log-density for `ergodic bench posteriors`: NumPyro's and nutpie's.

They are peers in a benchmark, not methods of the library: they answer ``fit`` and ``sample`` with costs, and are not
saved. Settings are their authors': 4 chains, 1,000 warm-up transitions, acceptance 0.8, a diagonal metric (nutpie's is
made of gradients as well as draws). Chains start where every other method starts, at the target's prior or N(0, I), or
with a ``radius`` where NumPyro starts a user's chains, uniformly within it in every coordinate. They run one after the
other, which is their fastest way on one core.

nutpie calls a jitted ``value_and_grad`` through its `from_pyfunc`, as its own JAX backend does for PyMC's models. It
has no way to go on from a warm-up: ``sample`` makes it again, and counts the part of the time, by gradients, after it.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ergodic.draws import Draws
from ergodic.initial import starting
from ergodic.methods.peers import lenient
from ergodic.runtime.programs import Cost, Stopwatch
from ergodic.target import Density, Target

_BLOCK = 500
"""Transitions per chain that NumPyro's program makes in one call."""


class Run(NamedTuple):
    """Transitions of every chain."""

    position: np.ndarray
    """``(chains, steps, dim)``."""
    gradients: np.ndarray
    """``(chains, steps)``."""
    share: float = 1.0
    """The part of the time spent on these, and not on a warm-up."""


class Running(NamedTuple):
    """What a warm-up left: as much of a `Sampler` as the benchmark asks for."""

    target: Target
    method: NumPyroNUTS | NutpieNUTS
    cost: Cost
    go_on: Callable[[int], Run]
    """So many transitions of every chain from the end of warm-up, or a few more."""

    def sample(self, key: Array, n: int, *, chunk: int | None = None, progress: bool | None = None) -> Draws:
        """n correlated draws, step 1 of every chain, step 2 of every chain, ...; the randomness is the warm-up's."""
        clock = Stopwatch()
        run = self.go_on(math.ceil(n / self.method.chains))
        cost = clock.cost(int(run.gradients.sum()), int(run.gradients.sum(axis=1).max()))
        flat = np.swapaxes(run.position, 0, 1).reshape(-1, self.target.dim)[:n].astype(self.target.dtype)
        # Not timed: both samplers know the log-density, and hand it over in ways of their own.
        logdensity = np.asarray(jax.jit(jax.vmap(self.target.density.__call__))(flat))
        return Draws(
            self.target,
            flat,
            logdensity,
            {"gradients": run.gradients.T.reshape(-1)[:n]},
            cost=replace(cost, run_seconds=run.share * cost.run_seconds),
            attributes={"method": self.method.name},
            chains=self.method.chains,
        )


@dataclass(frozen=True)
class NumPyroNUTS:
    """NumPyro's NUTS through its functional interface."""

    chains: int = 4
    warmup: int = 1000
    target_acceptance: float = 0.8
    radius: float | None = None

    name: ClassVar[str] = "NumPyro NUTS"

    def fit(self, target: Target, key: Array, *, progress: bool | None = None) -> Running:
        """Warm up; the chains then go on from there."""
        clock = Stopwatch()
        start_key, chain_key = jax.random.split(key)
        if self.radius is None:
            positions = starting(target).sample(start_key, self.chains)
        else:
            shape = (self.chains, target.dim)
            positions = jax.random.uniform(start_key, shape, target.dtype, -self.radius, self.radius)
        starts = positions, jax.random.split(chain_key, self.chains)
        with lenient(target.dtype):
            begin, block = _numpyro_programs(target.density, self)
            begun = begin(*starts)

        def run(state: PyTree, steps: int) -> tuple[PyTree, Run]:
            blocks = []
            for _ in range(math.ceil(steps / _BLOCK)):
                with lenient(target.dtype):
                    state, made = block(state)
                blocks.append(jax.device_get(made))
            positions, gradients = zip(*blocks, strict=True)
            return state, Run(np.concatenate(positions, axis=1), np.concatenate(gradients, axis=1))

        tuned, warm = run(begun, self.warmup)
        cost = clock.cost(int(warm.gradients.sum()), int(warm.gradients.sum(axis=1).max()))
        return Running(target, self, cost, lambda steps: run(tuned, steps)[1])


@functools.lru_cache(maxsize=1)
def _numpyro_programs(density: Density, method: NumPyroNUTS) -> tuple[Callable, Callable]:
    """Chains' first states from positions and keys, and `_BLOCK` transitions of every chain, one chain after the other.

    The second serves warm-up and sampling. (This is NumPyro's functional interface: its `MCMC` compiles in every call.)
    """
    from numpyro.infer.hmc import hmc

    begin, step = hmc(potential_fn=lambda x: -density(x), algo="NUTS")

    def start(pair: tuple[Array, Array]) -> PyTree:
        position, key = pair
        return begin(position, method.warmup, target_accept_prob=method.target_acceptance, rng_key=key)

    def go(state: PyTree) -> tuple[PyTree, tuple[Array, Array]]:
        def one(state: PyTree, _: None) -> tuple[PyTree, tuple[Array, Array]]:
            state = step(state)
            return state, (state.z, state.num_steps)

        return jax.lax.scan(one, state, length=_BLOCK)

    return jax.jit(lambda *starts: jax.lax.map(start, starts)), jax.jit(lambda states: jax.lax.map(go, states))


@dataclass(frozen=True)
class NutpieNUTS:
    """nutpie's NUTS, written in Rust."""

    chains: int = 4
    warmup: int = 1000
    target_acceptance: float = 0.8
    radius: float | None = None

    name: ClassVar[str] = "nutpie"

    def fit(self, target: Target, key: Array, *, progress: bool | None = None) -> Running:
        """Compile the gradient, and run the warm-up to know what it costs."""
        import nutpie

        clock = Stopwatch()
        model = _nutpie_model(target, self.radius)
        seed = int(jax.random.bits(key, dtype=jnp.uint32)) >> 1

        def run(draws: int) -> tuple[np.ndarray, np.ndarray]:
            """Positions after warm-up, and the gradients of every transition, ``(chains, warmup + draws)``."""
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "More chains")  # ArviZ, when only the warm-up is wanted
                trace = nutpie.sample(
                    model,
                    draws=draws,
                    tune=self.warmup,
                    chains=self.chains,
                    cores=1,
                    seed=seed,
                    progress_bar=False,
                    target_accept=self.target_acceptance,
                )
            stats = (trace.warmup_sample_stats, trace.sample_stats)
            steps = np.concatenate([np.asarray(part["n_steps"].values, np.int64) for part in stats], axis=1)
            return np.asarray(trace.posterior["x"].values), steps

        def go_on(steps: int) -> Run:
            position, gradients = run(steps)
            after = gradients[:, self.warmup :]
            return Run(position, after, float(after.sum() / gradients.sum()))

        steps = run(1)[1]
        return Running(target, self, clock.cost(int(steps.sum()), int(steps.sum(axis=1).max())), go_on)


def _nutpie_model(target: Target, radius: float | None) -> object:
    """The target as nutpie has it: a function of a NumPy vector that gives log π* and its gradient."""
    from nutpie.compiled_pyfunc import from_pyfunc

    program = jax.jit(jax.value_and_grad(target.density.__call__)).lower(jnp.zeros(target.dim, target.dtype)).compile()
    mean, log_scale = (np.asarray(leaf, np.float64) for leaf in starting(target))

    def logp(x: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = program(x.astype(target.dtype))
        return float(value), np.asarray(gradient, np.float64)

    def start(seed: int) -> np.ndarray:
        rng = np.random.default_rng(seed)
        if radius is not None:
            return rng.uniform(-radius, radius, target.dim)
        return mean + np.exp(log_scale) * rng.normal(size=target.dim)

    return from_pyfunc(
        target.dim,
        lambda: logp,
        lambda *_: lambda x: {"x": x},
        [np.dtype(np.float64)],
        [(target.dim,)],
        ["x"],
        make_initial_point_fn=start,
    )
