"""The random numbers of one transition, from one call: Gaussians and uniforms for every particle.

Gaussians are √2 erf⁻¹(u) of uniforms on (-1, 1), as `jax.random.normal` makes them. One call instead of three is one
random number generator to compile instead of three, which is a good part of what compiling a transition takes.
"""

from __future__ import annotations

import math

import jax
import numpy as np
from jaxtyping import Array, Float


def noise(
    key: Array, particles: int, dim: int, uniforms: int, dtype: np.dtype
) -> tuple[Float[Array, "particles dim"], Float[Array, "particles uniforms"]]:
    """Standard normals ``(particles, dim)`` and uniforms on [0, 1) ``(particles, uniforms)``, all independent."""
    lowest = np.nextafter(np.asarray(-1.0, dtype), np.asarray(0.0, dtype), dtype=dtype)
    u = jax.random.uniform(key, (particles, dim + uniforms), dtype, lowest, 1.0)
    return math.sqrt(2) * jax.lax.erf_inv(u[:, :dim]), 0.5 * (u[:, dim:] + 1)


def generator(key: Array) -> np.random.Generator:
    """A generator on the host that follows from a JAX key."""
    return np.random.default_rng(np.asarray(jax.random.key_data(key)).tolist())
