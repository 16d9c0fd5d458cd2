"""Generalised Hamiltonian Monte Carlo: the learned leapfrog of L2HMC (Levy, Hoffman & Sohl-Dickstein, ICLR 2018).

The leapfrog's updates become affine maps whose scales S, Q and shifts T are networks, so it need not preserve volume.
With U = -log π*, step size ε and complementary half masks m, m̄ = 1 - m of sub-step t, one sub-step forward is

    v ← v exp(ε/2 S_v) + ε/2 (-∂U exp(ε Q_v) + T_v)               S_v, Q_v, T_v of (x, ∂U, t)
    x ← m x + m̄ (x exp(ε S_x) + ε (v exp(ε Q_x) + T_x))           S_x, Q_x, T_x of (v, m x, t)
    x ← m̄ x + m (x exp(ε S_x) + ε (v exp(ε Q_x) + T_x))           S_x, Q_x, T_x of (v, m̄ x, t)
    v ← v exp(ε/2 S_v) + ε/2 (-∂U exp(ε Q_v) + T_v)               at the new x

    log|J| = Σ ε/2 S_v + ε m̄ S_x + ε m S_x + ε/2 S_v

and backward is its exact inverse, the same four updates undone in the opposite order. A transition draws v ~ N(0, I)
and a direction, forward or backward with probability 1/2 each, takes L sub-steps and accepts with

    A = min(1, exp(H - H' + log|J|)),    H(x, v) = U(x) + |v|²/2

Networks as in the authors' code: time as (cos, sin)(2π t/L), two hidden layers of relu, heads with weights of variance
2 · 0.001/hidden, and S and Q through tanh with a learned coefficient exp(c) a coordinate. Theirs runs both directions
for every particle and keeps one; here each particle runs its own only, so a transition costs L gradients, not 4 L.

Where log|J| enters. In the acceptance, and through it in the gradient. Section 3.2 of the ergodic paper says that for
a map f that does not preserve volume an "additional gradient term of the Jacobian" is required. Written over the base
noise (x_0, v, the direction, u), E_{p_T}[log π*] is an average of log π*(x_T) along the runs, and its derivative with
the accept decisions held, equations 8 and 9, has no Jacobian in it. What holding them leaves out of a transition is

    E[∂A (g(x') - g(x))],    ∂A = A ∂(-ΔH + log|J|) where A < 1

with g(x) the expectation of log π*(x_T) from there on. There the Jacobian's gradient belongs. For the plain leapfrog
ΔH is small, and so is the term. Here it is not: with the decisions held nothing keeps the networks from contracting
towards the mode, log|J| falls, and soon every move is rejected
(the slow test `test_tuning_needs_the_jacobians_gradient` shows it). g is not the kernel's to know, so
`differentiable_transition` takes the term to first order in the jump, through the run's own ∂g at x_t:

    x_t = x + (1[accepted] + A - stop(A)) (x' - x)

the straight-through estimator: the value is the Metropolis step's, the derivative has ∂A (x' - x) · ∂g(x_t) besides the
held one. It is exact where g is linear. ``acceptance_gradient=False`` holds the decisions as for HMC.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float, PyTree

from .ensemble import BatchedDensity, Ensemble, Info, select

_TRUNCATED_DEVIATION = 0.8796256610342398  # of a standard normal cut off at two deviations


class Network(NamedTuple):
    """(a, b, time) to (S, Q, T): two hidden layers of relu. A chain stacks every leaf: ``(steps, ...)``."""

    inputs: Float[Array, "*steps inputs hidden"]
    """Weights of the concatenated a, b, cos, sin: 2 d + 2 inputs."""
    inputs_bias: Float[Array, "*steps hidden"]
    hidden: Float[Array, "*steps hidden hidden"]
    hidden_bias: Float[Array, "*steps hidden"]
    heads: Float[Array, "*steps hidden 3 dim"]
    """Of S, Q and T."""
    heads_bias: Float[Array, "*steps 3 dim"]
    log_coefficient: Float[Array, "*steps 2 dim"]
    """c of S and Q = exp(c) tanh(head)."""


class L2HMCParams(NamedTuple):
    """What is trained of one transition. A chain stacks every leaf: ``(steps, ...)``."""

    log_step: Float[Array, "*steps"]
    """log ε, one for all coordinates."""
    momentum: Network
    """Of (x, ∂U, t), for the updates of v."""
    position: Network
    """Of (v, m x, t), for the updates of x."""


@dataclass(frozen=True)
class L2HMC:
    """The kernel's static configuration.

    Attributes:
      leapfrogs: L, sub-steps per transition.
      hidden: width of the networks' two hidden layers.
      head_factor: how small the heads start: their weights have variance 2 · head_factor/hidden.
      mask_seed: from which the half masks of the L sub-steps are drawn, once and for all.
      divergence_threshold: rise of H - log|J| from which a move counts as diverged.
      acceptance_gradient: whether `differentiable_transition` lets the gradient see the acceptance, and in it log|J|.
    """

    leapfrogs: int = 5
    hidden: int = 10
    head_factor: float = 0.001
    mask_seed: int = 0
    divergence_threshold: float = 1000.0
    acceptance_gradient: bool = True

    Params: ClassVar[type] = L2HMCParams

    @property
    def gradients(self) -> int:
        """Gradients one transition costs a particle."""
        return self.leapfrogs

    def init(self, key: Array, steps: int | None, dim: int, dtype: DTypeLike, step_size: float = 0.1) -> L2HMCParams:
        """Networks close to zero, so close to the plain leapfrog; ``steps`` of them, or one without that axis."""

        def one(key: Array) -> L2HMCParams:
            momentum_key, position_key = jax.random.split(key)
            # Half of m x is zero: its weights start with twice the variance, as in the authors' code.
            momentum = _network(momentum_key, dim, self.hidden, dtype, 1.0, self.head_factor)
            position = _network(position_key, dim, self.hidden, dtype, 2.0, self.head_factor)
            return L2HMCParams(jnp.log(jnp.asarray(step_size, dtype)), momentum, position)

        return one(key) if steps is None else jax.vmap(one)(jax.random.split(key, steps))

    def masks(self, dim: int) -> np.ndarray:
        """m of every sub-step, ``(leapfrogs, dim)``: half of the coordinates, rounded down."""
        generator = np.random.RandomState(self.mask_seed)  # its stream is the same in every version of NumPy
        order = np.argsort(generator.random_sample((self.leapfrogs, dim)), axis=1)
        return np.argsort(order, axis=1) < dim // 2

    def transition(
        self, density: BatchedDensity, params: L2HMCParams, ensemble: Ensemble, key: Array
    ) -> tuple[Ensemble, Info]:
        """Move the ensemble once."""
        proposal, info = _propose(self, density, params, ensemble, _noise(key, ensemble.position))
        return select(info.accepted, proposal, ensemble), info

    def differentiable_transition(
        self, density: BatchedDensity, params: L2HMCParams, ensemble: Ensemble, key: Array
    ) -> tuple[Ensemble, Info]:
        """Move once, differentiably: the decisions held, and to first order what the acceptance adds.

        Decided first without gradients; repeated with ε = 0 where the particle diverged (decisions held: where it stays
        at all), so that no derivative passes through a point where the density overflowed, and such a move has exactly
        zero gradient.
        """
        if not self.acceptance_gradient:
            noise = _noise(key, ensemble.position)
            info = _propose(self, density, *jax.lax.stop_gradient((params, ensemble)), noise)[1]
            return _propose(self, density, params, ensemble, noise, moving=info.accepted)[0], info
        proposal, acceptance, info = self.differentiable_proposal(density, params, ensemble, key)
        through = (acceptance - jax.lax.stop_gradient(acceptance))[:, None] * (proposal.position - ensemble.position)
        position = select(info.accepted, proposal, ensemble).position + through
        return Ensemble(position, *density(position)), info

    def differentiable_proposal(
        self, density: BatchedDensity, params: L2HMCParams, ensemble: Ensemble, key: Array
    ) -> tuple[Ensemble, Float[Array, "particles"], Info]:
        """The proposal x' and its acceptance A, accepted or not, both with their derivatives, log|J|'s included.

        A move that diverged is x' = x with A = 1 and no gradient. The same draws as `transition` of the same key.
        """
        noise = _noise(key, ensemble.position)
        info = _propose(self, density, *jax.lax.stop_gradient((params, ensemble)), noise)[1]
        proposal, again = _propose(self, density, params, ensemble, noise, moving=~info.diverged)
        return proposal, again.acceptance, info

    def step_size(self, params: L2HMCParams) -> Float[Array, "*steps"]:
        """ε, for the training record."""
        return jnp.exp(params.log_step)

    def momentum_variance(self, params: L2HMCParams) -> Float[Array, "*steps"]:
        """One: the momentum is standard normal; its scales are the networks' business. For the training record."""
        return jnp.ones_like(params.log_step)


def nvp_leapfrog(
    density: BatchedDensity,
    params: L2HMCParams,
    ensemble: Ensemble,
    momentum: Float[Array, "particles dim"],
    step: Float[Array, "particles"],
    forward: Bool[Array, "particles"],
    masks: Bool[Array, "leapfrogs dim"],
) -> tuple[Ensemble, Float[Array, "particles dim"], Float[Array, "particles"]]:
    """L sub-steps of every particle in its own direction: the ensemble at x', v' and log|J|.

    Forward y ← y exp(s) + b is undone by y ← (y - b) exp(-s), and a sub-step's four updates run backward in the same
    pattern with m and m̄ exchanged: one program serves both directions. A coordinate that an update leaves alone has
    ε = 0 in it, so that the networks' unused outputs meet no gradient.
    """
    ahead = forward[:, None]
    sign = jnp.where(ahead, 1, -1).astype(momentum.dtype)
    steps = jnp.broadcast_to(step[:, None], momentum.shape)

    def update(
        y: Array, drive: Array, outputs: tuple[Array, Array, Array], step: Array, share: float
    ) -> tuple[Array, Array]:
        scale, drive_scale, shift = outputs
        log_scale = sign * (share * step * scale)
        shift = share * step * (drive * jnp.exp(step * drive_scale) + shift)
        y = (y - jnp.where(ahead, 0, shift)) * jnp.exp(log_scale) + jnp.where(ahead, shift, 0)
        return y, jnp.sum(log_scale, axis=-1)

    def kick(x: Array, v: Array, force: Array, time: Array) -> tuple[Array, Array]:
        return update(v, force, _apply(params.momentum, x, -force, time), steps, 0.5)

    def drift(x: Array, v: Array, moved: Array, time: Array) -> tuple[Array, Array]:
        outputs = _apply(params.position, v, jnp.where(moved, 0, x), time)
        return update(x, v, outputs, jnp.where(moved, steps, 0), 1.0)

    def sub_step(
        carry: tuple[Ensemble, Array, Array], at: tuple[PyTree, PyTree]
    ) -> tuple[tuple[Ensemble, Array, Array], None]:
        (x, _, force), v, log_jacobian = carry
        mask, time = (jnp.where(ahead, here[None, :], there[None, :]) for here, there in zip(*at, strict=True))
        first = mask ^ ahead  # m̄ forward, m backward
        v, j1 = kick(x, v, force, time)
        x, j2 = drift(x, v, first, time)
        x, j3 = drift(x, v, ~first, time)
        logdensity, force = density(x)
        v, j4 = kick(x, v, force, time)
        return (Ensemble(x, logdensity, force), v, log_jacobian + j1 + j2 + j3 + j4), None

    angle = 2 * np.pi * np.arange(masks.shape[0]) / masks.shape[0]
    times = jnp.asarray(np.stack([np.cos(angle), np.sin(angle)], axis=-1), momentum.dtype)
    begin = (ensemble, momentum, jnp.zeros_like(step))
    (end, v, log_jacobian), _ = jax.lax.scan(sub_step, begin, ((masks, times), (masks[::-1], times[::-1])))
    return end, v, log_jacobian


class _Noise(NamedTuple):
    """What is random in one transition."""

    forward: Bool[Array, "particles"]
    momentum: Float[Array, "particles dim"]
    log_u: Float[Array, "particles"]


def _noise(key: Array, x: Float[Array, "particles dim"]) -> _Noise:
    direction_key, momentum_key, accept_key = jax.random.split(key, 3)
    return _Noise(
        jax.random.bernoulli(direction_key, 0.5, x.shape[:1]),
        jax.random.normal(momentum_key, x.shape, x.dtype),
        jnp.log(jax.random.uniform(accept_key, x.shape[:1], x.dtype)),
    )


def _propose(
    kernel: L2HMC,
    density: BatchedDensity,
    params: L2HMCParams,
    ensemble: Ensemble,
    noise: _Noise,
    moving: Bool[Array, "particles"] | None = None,
) -> tuple[Ensemble, Info]:
    """Simulate (x', v') and decide; particles not ``moving`` get step size zero. The energy error is ΔH - log|J|."""
    x, v = ensemble.position, noise.momentum
    step = jnp.broadcast_to(jnp.exp(params.log_step), x.shape[:1])
    if moving is not None:
        step = jnp.where(moving, step, 0)
    masks = jnp.asarray(kernel.masks(x.shape[1]))
    proposal, end, log_jacobian = nvp_leapfrog(density, params, ensemble, v, step, noise.forward, masks)

    kinetic_change = 0.5 * jnp.sum(end**2 - v**2, axis=-1)
    energy_error = kinetic_change - (proposal.logdensity - ensemble.logdensity) - log_jacobian
    # A jump whose square overflows is not finite either; so is its reverse, and the target stays invariant.
    finite = proposal.usable() & jnp.isfinite(jnp.sum((proposal.position - x) ** 2, axis=-1))
    energy_error = jnp.where(finite & ~jnp.isnan(energy_error), energy_error, jnp.inf)
    diverged = energy_error > kernel.divergence_threshold
    probability = jnp.where(diverged, 0, jnp.exp(jnp.minimum(-energy_error, 0)))
    accepted = (noise.log_u < -energy_error) & ~diverged
    return proposal, Info(probability, accepted, energy_error, diverged)


def _apply(
    network: Network,
    a: Float[Array, "particles dim"],
    b: Float[Array, "particles dim"],
    time: Float[Array, "particles 2"],
) -> tuple[Float[Array, "particles dim"], Float[Array, "particles dim"], Float[Array, "particles dim"]]:
    inputs = jnp.concatenate([a, b, time], axis=-1)
    hidden = jax.nn.relu(inputs @ network.inputs + network.inputs_bias[None, :])
    hidden = jax.nn.relu(hidden @ network.hidden + network.hidden_bias[None, :])
    heads = jnp.einsum("nh,hkd->knd", hidden, network.heads) + network.heads_bias[:, None, :]
    scale, drive_scale = jnp.exp(network.log_coefficient)[:, None, :] * jnp.tanh(heads[:2])
    return scale, drive_scale, heads[2]


def _network(key: Array, dim: int, hidden: int, dtype: DTypeLike, factor: float, head_factor: float) -> Network:
    """Weights as the authors start them, truncated normal with variance 2 · factor/rows; biases zero."""
    layers = (  # rows, columns, factor: three inputs whose sum goes on, a hidden layer, the heads
        (dim, hidden, 1 / 3),
        (dim, hidden, factor / 3),
        (2, hidden, 1 / 3),
        (hidden, hidden, 1.0),
        (hidden, 3 * dim, head_factor),
    )
    ends = np.cumsum([rows * columns for rows, columns, _ in layers])
    draws = jnp.split(jax.random.truncated_normal(key, -2, 2, (int(ends[-1]),), dtype), ends[:-1])
    weights = [
        draw.reshape(rows, columns) * ((2 * factor / rows) ** 0.5 / _TRUNCATED_DEVIATION)
        for draw, (rows, columns, factor) in zip(draws, layers, strict=True)
    ]
    return Network(
        inputs=jnp.concatenate(weights[:3]),
        inputs_bias=jnp.zeros(hidden, dtype),
        hidden=weights[3],
        hidden_bias=jnp.zeros(hidden, dtype),
        heads=weights[4].reshape(hidden, 3, dim),
        heads_bias=jnp.zeros((3, dim), dtype),
        log_coefficient=jnp.zeros((2, dim), dtype),
    )
