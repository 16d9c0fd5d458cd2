"""Expected squared jumped distance: the objective that L2HMC is trained on (Levy, Hoffman & Sohl-Dickstein 2018).

For a proposal x → x' accepted with probability A, the jump it can be expected to make is

    δ = |x' - x|² A + 10⁻⁴

and what is *maximised* is, over the states that the chains are in and over z ~ P0 with the same weight,

    E[δ]/λ - λ E[1/δ]

The first term rewards long jumps; the second punishes states from which there are none. λ trades one for the other.
This is the form of the authors' code; their paper writes λ² where the code has λ, so that its λ is a length. The part
over z is their burn-in term: it keeps the kernel useful where chains start. The gradient passes through A, and with it
through log|J|.

The chains live on from one iteration to the next, moved by the very proposals that the objective looked at, their
Metropolis decisions taken as they fall and not differentiated.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float, PyTree

from ..initial import DiagonalGaussian, diagonal
from ..kernels.ensemble import Ensemble, Info, select, start
from ..target import Density
from .tunable import DifferentiableKernel

OFFSET = 1e-4


@dataclass(frozen=True)
class ExpectedJump:
    """The objective as `ascent.maximise` takes it; its carry is the chains' ensemble, every one at a usable point.

    Attributes:
      kernel: a kernel with `differentiable_proposal`.
      jump_scale: λ, the authors' code's: a squared length, the square of their paper's.
      initial_mean: mean of P0; one number, or one per flat coordinate.
      initial_scale: standard deviation of P0, likewise.
    """

    kernel: DifferentiableKernel
    jump_scale: float = 0.1
    initial_mean: float | tuple[float, ...] = 0.0
    initial_scale: float | tuple[float, ...] = 1.0

    def initial(self, dim: int, dtype: DTypeLike) -> DiagonalGaussian:
        """P0, from which z comes and in which the chains start."""
        return diagonal(self.initial_mean, self.initial_scale, dim, dtype)

    def estimate(
        self, density: Density, params: PyTree, carry: Ensemble, key: Array
    ) -> tuple[dict[str, Array], PyTree, Ensemble]:
        """One estimate from all chains and as many fresh z, its gradient, and the chains one Metropolis step on."""
        fresh_key, move_key = jax.random.split(key)
        chains, dim = carry.position.shape
        fresh = start(density.batched, self.initial(dim, carry.position.dtype).sample(fresh_key, chains))
        # A z outside the support counts as one more look at a chain's state: nothing is differentiated out there.
        fresh = select(fresh.usable(), fresh, carry)
        both = jax.tree_util.tree_map(lambda *leaves: jnp.concatenate(leaves), carry, fresh)

        def objective(params: PyTree) -> tuple[Array, tuple[Array, Ensemble, Info]]:
            proposal, acceptance, info = self.kernel.differentiable_proposal(density.batched, params, both, move_key)
            jump = jnp.sum((proposal.position - both.position) ** 2, axis=-1) * acceptance
            return self.value(jump), (jump, proposal, info)

        (value, (jump, proposal, info)), gradient = jax.value_and_grad(objective, has_aux=True)(params)
        after = jax.tree_util.tree_map(lambda leaf: leaf[:chains], select(info.accepted, proposal, both))
        row = {
            "objective": value,
            "jump": jnp.mean(jump[:chains]),
            "initial_jump": jnp.mean(jump[chains:]),
            "acceptance": jnp.mean(info.acceptance[:chains]),
            "divergence": jnp.mean(info.diverged[:chains].astype(jump.dtype)),
            "expected_logdensity": jnp.mean(after.logdensity),
            "step_size": self.kernel.step_size(params),
        }
        return row, gradient, after

    def value(self, jump: Float[Array, "chains_and_fresh"]) -> Float[Array, ""]:
        """The objective of expected jumps |x' - x|² A: chains and fresh z, equally many, each with its own average."""
        delta = jump + OFFSET
        return 2 * jnp.mean(delta / self.jump_scale - self.jump_scale / delta)

    def settle(self, current: PyTree, updated: PyTree) -> PyTree:
        """Every update is taken as it is: there is no constraint."""
        return updated

    @property
    def depth(self) -> int:
        """Gradients per particle and iteration: the move is decided, repeated and swept back through."""
        return 3 * self.kernel.gradients
