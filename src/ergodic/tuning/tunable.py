"""What a kernel must offer for a chain of it to be tuned by gradients.

Every `Kernel` moves an ensemble. One that can be tuned also says how where a particle ends depends on its parameters:
by reverse mode (`DifferentiableKernel`), or by sensitivities with forces held (`FrozenForceKernel`). `HMC` does both.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from jaxtyping import Array, Float, PyTree

from ..kernels.ensemble import BatchedDensity, Ensemble, Info


@runtime_checkable
class DifferentiableKernel(Protocol):
    """A kernel that reverse mode can pass through; a frozen configuration."""

    def __hash__(self) -> int: ...

    @property
    def gradients(self) -> int:
        """Gradients of log π* that one transition costs per particle."""
        ...

    def step_size(self, params: PyTree) -> Float[Array, "*steps"]:
        """A typical step size of every transition, for the training record."""
        ...

    def differentiable_proposal(
        self, density: BatchedDensity, params: PyTree, ensemble: Ensemble, key: Array
    ) -> tuple[Ensemble, Float[Array, "particles"], Info]:
        """The proposal x', and the probability that it is accepted, both differentiable."""
        ...


@runtime_checkable
class TunableKernel(DifferentiableKernel, Protocol):
    """A kernel that chains can be made of whose steps all have parameters of their own."""

    def momentum_variance(self, params: PyTree) -> Float[Array, "*steps"]:
        """A typical momentum variance of every transition, for the training record."""
        ...

    def transition(
        self, density: BatchedDensity, params: PyTree, ensemble: Ensemble, key: Array
    ) -> tuple[Ensemble, Info]:
        """Move every particle once."""
        ...

    def differentiable_transition(
        self, density: BatchedDensity, params: PyTree, ensemble: Ensemble, key: Array
    ) -> tuple[Ensemble, Info]:
        """Move every particle once; differentiable, with the decisions to accept held."""
        ...


@runtime_checkable
class SensitiveKernel(Protocol):
    """A kernel with sensitivities along log s, s = φ2/√φ1, with forces held (the paper's stop-gradient)."""

    def frozen_transition(
        self, density: BatchedDensity, params: PyTree, ensemble: Ensemble, key: Array
    ) -> tuple[Ensemble, Info, Float[Array, "particles dim"]]:
        """Move every particle once; also ∂x_t/∂log s."""
        ...

    def frozen_gradient(self, log_speed: Float[Array, "*steps dim"]) -> PyTree:
        """The gradient along the parameters that belongs to one along log s."""
        ...


@runtime_checkable
class FrozenForceKernel(TunableKernel, SensitiveKernel, Protocol):
    """A kernel whose proposals have such sensitivities too, and whose steps can be shortened."""

    def frozen_proposal(
        self, density: BatchedDensity, params: PyTree, ensemble: Ensemble, key: Array
    ) -> tuple[Ensemble, Info, Float[Array, "particles dim"], Float[Array, "particles dim"]]:
        """The proposal x'; also ∂x'/∂log s and ∂log p/∂log s."""
        ...

    def slowed(self, params: PyTree, by: Float[Array, "*steps"]) -> PyTree:
        """The parameters with step sizes divided by exp(by)."""
        ...
