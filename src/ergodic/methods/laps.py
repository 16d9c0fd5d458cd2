"""LAPS, the late adjusted parallel sampler, from BlackJAX: thousands of chains, unadjusted first, adjusted late.

Phase one moves every chain by microcanonical Langevin steps without a Metropolis decision, one gradient each. The step
size follows the bias that equipartition shows, E[-x_i ∂_i log π*] = 1, and the phase ends when E[x_i²] over the
ensemble has stopped moving (relative fluctuation below 0.01) or the steps run out. Phase two moves by adjusted
microcanonical HMC, 15 steps of a minimal-norm integrator a transition, with a diagonal metric from phase one; bisection
finds the step size with acceptance 0.7 (0.9 above dimension 200). All constants are the authors' defaults; that x² is
watched, and not x, is the paper's.

Two things about `blackjax.adaptation.laps.laps` 1.7.1: it cannot be traced (`.item()` and `int(counter)` inside), so it
runs operation by operation and compiles anew in every call, and it returns neither the metric nor the step size. So
`warm_up` puts the same parts together as one program, and a test holds its ensemble against that of `laps` itself.

The authors take the final ensemble as the sample, one draw a chain. Here chains go on from it with the adjusted kernel
of phase two, so any number of draws can be had: draws of different chains are independent given the tuning, draws of
one chain are correlated, and up to ``chains`` draws there is one of each. They go on with the step size of phase two
whose acceptance was nearest to the wanted one, not with the last: the bisection of 1.7.1 takes one step more after it
has found what it wanted and stays there (seen: 0.93 at step size 22, then 0.06 at 44 for the rest).

Robnik & Seljak 2026, AISTATS, arXiv:2601.16696.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Array, Float, PyTree

from ..initial import DiagonalGaussian
from ..protocols import Fact
from ..runtime.drawing import Batch
from ..runtime.errors import ConfigError
from ..sampler import Sampler
from ..target import Density, Target
from .peers import AdaptationRow, Adapted, blackjax, lenient

_STEPS = 15
"""Integrator steps an adjusted transition."""
_SAVED = 0.2
"""Part of phase one over which fluctuations are measured."""
_PARTIAL_REFRESHMENT = 1.25
"""Within an adjusted trajectory momentum is refreshed on this many times its length."""
_HIGH_DIMENSION = 200


class LAPSParams(NamedTuple):
    """What the two phases leave behind."""

    state: PyTree
    """BlackJAX's `HMCState` of the final ensemble: position, log-density and its gradient."""
    step_size: Float[Array, ""]
    """The one of phase two whose acceptance came nearest to what was wanted."""
    inverse_mass: Float[Array, "dim"]
    """The ensemble's variances at the end of phase one."""


@dataclass(frozen=True)
class LAPS(Adapted):
    """Settings of LAPS; ``LAPS().fit(target, key)`` gives a `Sampler`.

    Attributes:
      chains: the ensemble. The paper has 4,096; all averages are over it.
      unadjusted: steps of phase one at most, one gradient each.
      adjusted: gradients per chain in phase two; a transition takes 30 (75 above dimension 200).
    """

    chains: int = 4096
    unadjusted: int = 500
    adjusted: int = 500

    name: ClassVar[str] = "LAPS"
    title: ClassVar[str] = "Late adjusted parallel sampler, thousands of chains (Robnik & Seljak; BlackJAX)"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.chains < 2:
            raise ConfigError("chains must be at least 2 for LAPS: it learns from their averages")
        if self.unadjusted < 10:
            raise ConfigError(f"unadjusted must be at least 10 steps, not {self.unadjusted}")

    def begin(self, target: Target, key: Array) -> LAPSParams:
        """The parameters before any tuning; also their shapes, for reading a file."""
        adjusted_mclmc = blackjax().mcmc.adjusted_mclmc
        position = self.initial(target).sample(key, self.chains)
        with lenient(target.dtype):
            state = jax.vmap(lambda x: adjusted_mclmc.init(x, target.density))(position)
        return LAPSParams(state, jnp.ones((), target.dtype), jnp.ones_like(position[0]))

    def fit(self, target: Target, key: Array, *, progress: bool | None = None) -> Sampler:
        """Run both phases. One compiled program, so there is no progress to show."""
        if target.dim < 2:
            raise ConfigError("LAPS needs a target of dimension 2 or more: its momentum is a unit vector")
        least = _Adjusted.of(target.dim).gradients
        if self.adjusted < least:
            raise ConfigError(f"adjusted must be at least {least} gradients, one transition, not {self.adjusted}")
        return super().fit(target, key)

    def warm_up(self, density: Density, initial: DiagonalGaussian, key: Array) -> tuple[LAPSParams, AdaptationRow]:
        """Both phases as `blackjax.adaptation.laps.laps` has them, key by key, on one device."""
        laps, laps_burn_in = blackjax().adaptation.laps, blackjax().adaptation.laps_burn_in
        dim = initial.mean.shape[0]
        mesh = Mesh(jax.devices()[:1], "chains")
        key_init, key_unadjusted, key_adjusted = jax.random.split(key, 3)

        def start(key: Array) -> Array:
            return initial.sample(key, 1)[0]

        logdensity = _on_one_device(density)
        state = laps_burn_in.initialize(key_init, logdensity, True, start, self.chains, mesh, 1)
        burn_in = laps_burn_in.Adaptation(
            dim,
            microcanonical=True,
            alpha=1.9,
            C=0.1,
            r_end=0.01,
            bias_type=3,
            save_num=round(_SAVED * self.unadjusted),
            observables_for_bias=jnp.square,
        )
        kernel = laps_burn_in.build_kernel(logdensity, dim)
        state, tuned, info, made = self._phase(
            mesh, kernel, burn_in, state, key_unadjusted, self.unadjusted, early_stop=True
        )
        cost = (jnp.arange(self.unadjusted) < made).astype(jnp.int32)
        unadjusted = AdaptationRow(jnp.full(self.unadjusted, jnp.nan), info["step_size"], self.chains * cost, cost)

        late = _Adjusted.of(dim)
        variance = tuned.inverse_mass_matrix
        samples = self.adjusted // late.gradients
        adaptation = laps.Adaptation(
            tuned._replace(step_size=tuned.step_size / jnp.sqrt(jnp.average(variance))),
            samples // 2,
            _STEPS,
            late.acceptance,
        )
        state = blackjax().mcmc.hmc.HMCState(state.position, state.logdensity, state.logdensity_grad)
        kernel = late.kernel(logdensity, variance)
        state, _, info, _ = self._phase(mesh, kernel, adaptation, state, key_adjusted, samples)
        cost = jnp.full(samples, late.gradients, jnp.int32)
        adjusted = AdaptationRow(info["acc_prob"], info["step_size"], self.chains * cost, cost)
        row = AdaptationRow(*(jnp.concatenate(pair) for pair in zip(unadjusted, adjusted, strict=True)))
        nearest = jnp.argmin(jnp.abs(adjusted.acceptance - late.acceptance))
        return LAPSParams(state, adjusted.step_size[nearest], variance), row

    def _phase(
        self,
        mesh: Mesh,
        kernel: Callable,
        adaptation: PyTree,
        state: PyTree,
        key: Array,
        steps: int,
        early_stop: bool = False,
    ) -> tuple[PyTree, PyTree, dict[str, Array], Array]:
        """`blackjax.eca.run_eca` without its last line, which needs a concrete number of steps."""
        eca = blackjax().eca
        step = eca.eca_step(kernel, adaptation.summary_statistics_fn, adaptation.update, self.chains, 1)

        def run(state: PyTree, keys: Array, adaptation_keys: Array) -> PyTree:
            start = (state, adaptation.initial_state)
            inputs = (jnp.arange(steps), jnp.swapaxes(keys, 0, 1), adaptation_keys)
            if early_stop:
                (state, tuned), info, made = eca.while_with_info(step, start, inputs, steps, adaptation.while_cond)
            else:
                ((state, tuned), info), made = jax.lax.scan(step, start, inputs), steps
            return state, tuned, info, made

        sampling_key, adaptation_key = jax.random.split(key)
        keys = jax.random.split(sampling_key, (self.chains, steps))
        split, whole = PartitionSpec("chains"), PartitionSpec()  # type: ignore[no-untyped-call]
        sharded = jax.shard_map(run, mesh=mesh, in_specs=(split, split, whole), out_specs=(split, whole, whole, whole))
        return sharded(state, keys, jax.random.split(adaptation_key, steps))

    def advance(self, density: Density, params: LAPSParams, state: PyTree, key: Array) -> tuple[PyTree, Batch]:
        """One adjusted transition of every chain, as at the end of phase two."""
        late = _Adjusted.of(state.position.shape[1])
        tuned = blackjax().adaptation.laps.AdaptationState(_STEPS, params.step_size, (), 0)
        with lenient(state.position.dtype):
            kernel = late.kernel(density, params.inverse_mass)
            keys = jax.random.split(key, self.chains)
            after, info = jax.vmap(kernel, (0, 0, None))(keys, state, tuned)
        stats = {
            "acceptance_rate": info.acceptance_rate,
            "diverging": info.is_divergent,
            "gradients": jnp.full(self.chains, late.gradients, jnp.int32),
        }
        return after, Batch(after.position, after.logdensity, stats, {})

    def facts(self, params: PyTree) -> dict[str, Fact]:
        """Plain facts for the draws' attributes."""
        return {"chains": self.chains, "unadjusted": self.unadjusted, "adjusted": self.adjusted}


class _Adjusted(NamedTuple):
    """Phase two in one dimension or another: its integrator, its acceptance, and a transition's gradients."""

    coefficients: PyTree
    acceptance: float
    gradients: int

    @staticmethod
    def of(dim: int) -> _Adjusted:
        integrators = blackjax().mcmc.integrators
        high = dim > _HIGH_DIMENSION
        coefficients = integrators.omelyan_coefficients if high else integrators.mclachlan_coefficients
        return _Adjusted(coefficients, 0.9 if high else 0.7, _STEPS * (len(coefficients) // 2))

    def kernel(self, density: Callable[[Array], Array], inverse_mass: Array) -> Callable:
        mcmc = blackjax().mcmc
        integrator = mcmc.integrators.generate_isokinetic_integrator(self.coefficients)
        kernel = mcmc.adjusted_mclmc.build_kernel(integrator=integrator)

        def step(key: Array, state: PyTree, tuned: PyTree) -> PyTree:
            return kernel(
                key,
                state,
                density,
                tuned.step_size,
                (tuned.steps_per_sample,),
                inverse_mass,
                _PARTIAL_REFRESHMENT,
            )

        return step


def _on_one_device(density: Density) -> Callable[[Array], Array]:
    """The log-density as BlackJAX's `shard_map` over chains may call it, whatever is inside.

    There a position "varies over chains" by its type, a constant does not, and a scan that begins at a constant is
    refused. The mesh has one device: the sum over it is the position itself, and does not vary.
    """

    def logdensity(position: Array) -> Array:
        the_same = jax.lax.psum(position, "chains")  # type: ignore[no-untyped-call]
        return jax.lax.pcast(density(the_same), "chains", to="varying")

    return logdensity
