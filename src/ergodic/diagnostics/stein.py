"""Stein's identities: for draws of π, and for no other distribution with a smooth density on the same space,

    E[φ(x)·∂log π(x) + div φ(x)] = 0    for every field φ that grows slowly enough.

The normalising constant is not needed, only the force. Constant fields give E[∂log π] = 0, linear ones
E[(x_i - m_i) ∂_j log π] = -δ_ij; their sums over independent draws are tested one by one (`identities`). A whole ball
of fields in a kernel's space gives the kernel Stein discrepancy (`kernel_discrepancy`), whose p-value is bootstrapped.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .functions import Functions

_SURE = 9
"""How many times more flips there are where the first ones do not tell."""


class Identities(NamedTuple):
    """One column an identity; every one has mean 0 under π."""

    names: tuple[str, ...]
    values: np.ndarray
    """``(n, identities)``."""


def identities(functions: Functions, names: tuple[str, ...], x: np.ndarray, gradient: np.ndarray) -> Identities:
    """Constant and linear fields along every coordinate and along random directions of whitened space.

    For a pair of directions u, v: E[(u·z)(v·∂_z log π)] = -u·v, with ∂_z = A'∂_x. φ = z|z| along a coordinate weighs
    the tails: where they are cut off at c, E is c² p(c) from each side instead of 0. The last one is radial, φ = z.
    """
    frame, directions = functions.frame, functions.directions
    gradient = np.asarray(gradient, np.float64)
    z = frame.whiten(x)
    force = gradient @ frame.scale
    along_z, along_force = z @ directions.T, force @ directions.T
    shifted = np.roll(directions, 1, axis=0)
    k = range(1, len(directions) + 1)
    spread = np.sqrt(np.sum(frame.scale**2, axis=1))
    centred = (x - frame.centre) / spread
    blocks = {
        tuple(f"∂log π/∂{name}" for name in names): gradient,
        tuple(f"({name} - m) ∂log π/∂{name}" for name in names): centred * spread * gradient + 1,
        tuple(f"({name} - m)|{name} - m| ∂log π/∂{name}" for name in names): (
            np.abs(centred) * (centred * spread * gradient + 2)
        ),
        tuple(f"the force along projection {i}" for i in k): along_force,
        tuple(f"projection {i} times its force" for i in k): along_z * along_force + 1,
        tuple(f"projection {i} times the force along {i - 1 or len(directions)}" for i in k): (
            along_z * (force @ shifted.T) + np.sum(directions * shifted, axis=1)
        ),
        ("z·∂log π (radial)",): np.sum(z * force, axis=1, keepdims=True) + z.shape[1],
    }
    return Identities(tuple(name for block in blocks for name in block), np.concatenate([*blocks.values()], axis=1))


def kernel_discrepancy(
    z: np.ndarray, force: np.ndarray, rng: np.random.Generator, bootstraps: int = 999
) -> tuple[float, float]:
    """The kernel Stein discrepancy KSD² (U-statistic) of draws ``(n, dim)`` with their forces, and its p-value.

    Inverse multiquadric kernel k(r²) = (1 + r²/ℓ²)^(-1/2), ℓ² the median squared distance (Gorham & Mackey 2017; Liu,
    Lee & Jordan 2016). Under π the U-statistic is degenerate: sign flips w'Hw of its matrix give its distribution.
    Where none of them is as large, there are many more: a stage of a certificate asks for p-values below 1e-3.
    """
    matrix = stein_kernel(z, force)
    np.fill_diagonal(matrix, 0.0)
    n, statistic, larger, flipped = len(z), float(matrix.sum()), 0, 0
    for more in (bootstraps, _SURE * bootstraps):
        signs = rng.choice(np.array([-1.0, 1.0], np.float32), size=(more, n))
        replicates = np.einsum("bi,bi->b", signs @ matrix.astype(np.float32), signs)
        larger, flipped = larger + int(np.sum(replicates >= statistic)), flipped + more
        if larger:
            break
    return statistic / (n * (n - 1)), (1 + larger) / (flipped + 1)


def stein_kernel(z: np.ndarray, force: np.ndarray) -> np.ndarray:
    """h(x, y) = s(x)·s(y) k + s(x)·∂_y k + s(y)·∂_x k + ∂_x·∂_y k, ``(n, n)``; s = ∂log π."""
    z, force = np.asarray(z, np.float64), np.asarray(force, np.float64)
    dim = z.shape[1]
    norms = np.sum(z**2, axis=1)
    distance = np.maximum(norms[:, None] + norms[None, :] - 2 * z @ z.T, 0)
    length = np.median(distance) + 1e-12
    base = 1 + distance / length
    kernel = 1 / np.sqrt(base)
    steep = kernel / base
    slope = steep / -length  # ∂_x k = slope (x - y), ∂_y k = -slope (x - y)
    own = np.sum(force * z, axis=1)
    cross = force @ z.T  # s(x)·y
    inner = (own[:, None] - cross) + (own[None, :] - cross.T)  # s(x)·(x - y) - s(y)·(x - y)
    trace = -dim * slope - 3 * steep / base * distance / length**2
    return (force @ force.T) * kernel - slope * inner + trace
