"""Stochastic-gradient HMC (Chen, Fox & Guestrin 2014) and its scale-adapted form (Springenberg et al. 2016).

With stochastic forces ∂Ũ from minibatches (the target's ``minibatch``; exact forces without), there is no Metropolis
step and the step size leaves a bias. Chen's update, with learning rate η, friction a and an estimate b of the noise:

    θ <- θ + v;    v <- v - η ∂Ũ(θ) - a v + N(0, 2 (a - b) η)

Scale-adapted, with step size ε, during burn-in running averages of the gradient and its square,

    τ <- τ - τ g²/V + 1;   g <- g - (g - ∂Ũ)/(τ' + 1);   V <- V - (V - ∂Ũ²)/(τ' + 1)        (τ' the old τ)

set a preconditioner, which is then held:

    v <- v - ε² V^(-1/2) ∂Ũ(θ) - a v + N(0, 2 ε² a V^(-1/2) - ε⁴)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from ..protocols import Correlated, Fact, FixedShapes
from ..runtime.drawing import Batch
from ..runtime.errors import ConfigError
from ..runtime.programs import Stopwatch, compiled
from ..runtime.validation import Rule, finite_float
from ..sampler import Sampler
from ..target import Density, Target
from ..tuning.checks import require_usable
from .from_gaussian import FromGaussian


class SGHMCState(NamedTuple):
    """The chains, and the scale-adapted form's running averages."""

    position: Float[Array, "chains dim"]
    velocity: Float[Array, "chains dim"]
    window: Float[Array, "chains dim"]
    """τ."""
    gradient: Float[Array, "chains dim"]
    """g, the running average of ∂Ũ."""
    square: Float[Array, "chains dim"]
    """V, the running average of ∂Ũ²."""


class SGHMCParams(NamedTuple):
    """Where burn-in left the chains: everything else is configuration."""

    state: SGHMCState


@dataclass(frozen=True)
class SGHMC(FromGaussian, FixedShapes, Correlated):
    """Settings of stochastic-gradient HMC.

    Attributes:
      step_size: η of Chen's update; ε of the scale-adapted one.
      friction: a.
      noise: b, the estimate of the gradient noise (Chen's update).
      scale_adapted: which of the two updates.
      chains: how many run side by side.
      burn_in: steps before the first draw; the scale-adapted form learns its scales in them.
      thin: steps per draw.
    """

    step_size: float = 0.01
    friction: float = 0.05
    noise: float = 0.0
    scale_adapted: bool = False
    chains: int = 100
    burn_in: int = 3000
    thin: int = 100

    name: ClassVar[str] = "SGHMC"
    title: ClassVar[str] = "stochastic-gradient HMC (Chen et al. 2014), also scale-adapted (Springenberg et al. 2016)"
    rules: ClassVar[Mapping[str, Rule]] = {"noise": finite_float}

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.noise < self.friction <= 1:
            raise ConfigError(f"0 <= noise < friction <= 1 must hold, not noise={self.noise}, friction={self.friction}")

    def begin(self, target: Target, key: Array) -> SGHMCParams:
        """Chains at their start, at rest."""
        initial = self.initial(target)
        position = initial.sample(key, self.chains)
        one, zero = jnp.ones_like(position), jnp.zeros_like(position)
        return SGHMCParams(SGHMCState(position, zero, one, zero, one))

    def fit(self, target: Target, key: Array, *, progress: bool | None = None) -> Sampler:
        """Run the chains through their burn-in."""
        clock = Stopwatch()
        begin_key, check_key, run_key = jax.random.split(key, 3)
        initial = self.initial(target)
        require_usable(target, check_key, initial)
        params = self.begin(target, begin_key)
        program = compiled(_burn_in, (self, target.density), params.state, run_key)
        state = program(params.state, run_key)
        state.position.block_until_ready()
        return Sampler(target, self, SGHMCParams(state), {}, clock.cost(self.burn_in * self.chains, self.burn_in))

    def update(self, density: Density, state: SGHMCState, key: Array, learning: bool) -> SGHMCState:
        """One step of every chain; ``learning`` also updates the running averages."""
        force_key, noise_key = jax.random.split(key)
        noise = jax.random.normal(noise_key, state.position.shape, state.position.dtype)
        position = state.position + state.velocity
        gradient = -density.stochastic_force(position, force_key)  # ∂Ũ
        if not self.scale_adapted:
            spread = (2 * (self.friction - self.noise) * self.step_size) ** 0.5
            velocity = (1 - self.friction) * state.velocity - self.step_size * gradient + spread * noise
            return state._replace(position=position, velocity=velocity)
        if learning:
            weight = 1 / (state.window + 1)
            state = state._replace(
                window=state.window - state.window * state.gradient**2 / state.square + 1,
                gradient=state.gradient - weight * (state.gradient - gradient),
                square=state.square - weight * (state.square - gradient**2),
            )
        scale = 1 / jnp.sqrt(state.square + 1e-16)
        variance = 2 * self.step_size**2 * self.friction * scale - self.step_size**4
        velocity = (
            (1 - self.friction) * state.velocity
            - self.step_size**2 * scale * gradient
            + jnp.sqrt(jnp.maximum(variance, 1e-16)) * noise
        )
        return state._replace(position=position, velocity=velocity)

    def state(self, params: SGHMCParams) -> PyTree:
        """Where tuning left the chains."""
        return params.state

    def advance(self, density: Density, params: SGHMCParams, state: SGHMCState, key: Array) -> tuple[SGHMCState, Batch]:
        """``thin`` steps, then one draw a chain."""

        def step(state: SGHMCState, key: Array) -> tuple[SGHMCState, None]:
            return self.update(density, state, key, learning=False), None

        state, _ = jax.lax.scan(step, state, jax.random.split(key, self.thin))
        logdensity = jax.vmap(density)(state.position)
        gradients = jnp.full(self.chains, self.thin, jnp.int32)
        return state, Batch(state.position, logdensity, {"gradients": gradients}, {})

    def facts(self, params: PyTree) -> dict[str, Fact]:
        """Plain facts for the draws' attributes."""
        return {"chains": self.chains, "adjusted": False, "scale_adapted": self.scale_adapted}


def _burn_in(method: SGHMC, density: Density, state: SGHMCState, key: Array) -> SGHMCState:
    def step(state: SGHMCState, key: Array) -> tuple[SGHMCState, None]:
        return method.update(density, state, key, learning=True), None

    return jax.lax.scan(step, state, jax.random.split(key, method.burn_in))[0]
