"""A transposed convolution with stride 2 as one matrix product per tile: the decoder's cost, and its fastest form here.

`jax.lax.conv_transpose(x, w, strides=(2, 2), padding="SAME")` with a 5 by 5 kernel sends the input at i to the outputs
2 i + 3 - k with weight w[k], k = 0..4, in either axis. So 2 t outputs in a row depend on the t inputs below them and on
one more at each end, by a banded matrix that is the same for every such tile:

    y[2 i0 .. 2 i0 + 2 t - 1] = Σ_u B[u, :] x[i0 - 1 + u],    B[u, o] = w[2 u + 1 - o],    u = 0 .. t + 1

A tile of (t, s) inputs therefore takes one product of (t + 2)(s + 2) c values with a matrix made of the kernel. Small
tiles multiply fewer zeros, large ones move less data; a tile as large as the image needs no neighbours and is a dense
layer. `matrix` is built once for many applications, as in a chain of leapfrogs; gradients pass through to the kernel.
The convolution that mirrors it, for an encoder, is its transpose.
"""

from __future__ import annotations

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from ..runtime.errors import ConfigError

WIDTH = 5
"""Height and width of the kernel."""


class Deconvolution(eqx.Module):
    """A 5 by 5 transposed convolution with stride 2, images channels last, and a bias per channel.

    Attributes:
      size: height and width of the input.
      out: height and width of the output, 2 size or, by a crop at the end, 2 size - 1.
      tile: inputs per tile, down and across; each divides ``size``, and only a tile as wide as the image may be as
        tall.
    """

    kernel: Float[Array, "5 5 inputs outputs"]
    bias: Float[Array, "outputs"]
    size: int = eqx.field(static=True)
    out: int = eqx.field(static=True)
    tile: tuple[int, int] = eqx.field(static=True)

    def __check_init__(self) -> None:
        down, across = self.tile
        if self.size % down or self.size % across or (down == self.size and across < self.size):
            raise ConfigError(f"a tile of {down} by {across} does not cut an image of {self.size} by {self.size}")

    def matrix(self) -> Float[Array, "rows columns"]:
        """The kernel as the matrix that takes one tile of inputs to its outputs."""
        tall, wide = (jnp.asarray(_band(t, self.size, self.out), self.kernel.dtype) for t in self.tile)
        inputs, outputs = self.kernel.shape[2:]
        matrix = jnp.einsum("uok,vpl,klcd->uvcopd", tall, wide, self.kernel)
        return matrix.reshape(tall.shape[0] * wide.shape[0] * inputs, tall.shape[1] * wide.shape[1] * outputs)

    def apply(
        self, matrix: Float[Array, "rows columns"], x: Float[Array, "n size size inputs"]
    ) -> Float[Array, "n out out outputs"]:
        """The transposed convolution, given its matrix."""
        return spread(matrix, x, self.tile, self.out) + self.bias[None, None, None, :]


class Convolution(eqx.Module):
    """The 5 by 5 convolution with stride 2 that mirrors a `Deconvolution`: its transpose, with a bias of its own."""

    kernel: Float[Array, "5 5 outputs inputs"]
    bias: Float[Array, "outputs"]
    size: int = eqx.field(static=True)
    """Height and width of the output."""
    out: int = eqx.field(static=True)
    """Height and width of the input: what the mirrored layer gives out."""
    tile: tuple[int, int] = eqx.field(static=True)

    def __call__(self, y: Float[Array, "n out out inputs"]) -> Float[Array, "n size size outputs"]:
        """The convolution of a batch of images."""
        mirrored = Deconvolution(self.kernel, jnp.zeros(self.kernel.shape[3], y.dtype), self.size, self.out, self.tile)
        matrix = mirrored.matrix()
        like = jnp.zeros((y.shape[0], self.size, self.size, self.kernel.shape[2]), y.dtype)
        (x,) = jax.linear_transpose(lambda x: spread(matrix, x, self.tile, self.out), like)(y)
        return x + self.bias[None, None, None, :]


def spread(
    matrix: Float[Array, "rows columns"], x: Float[Array, "n size size inputs"], tile: tuple[int, int], out: int
) -> Float[Array, "n out out outputs"]:
    """Gather tiles with their neighbours, multiply, and lay the products out as an image."""
    n, size = x.shape[:2]
    down, across = (size // t for t in tile)
    tall, wide = (2 * t if t < size else out for t in tile)
    outputs = matrix.shape[1] // (tall * wide)
    product = _tiles(x, tile).reshape(n * down * across, -1) @ matrix
    y = product.reshape(n, down, across, tall, wide, outputs).transpose(0, 1, 3, 2, 4, 5)
    return y.reshape(n, down * tall, across * wide, outputs)[:, :out, :out]


def _tiles(x: Float[Array, "n size size inputs"], tile: tuple[int, int]) -> Float[Array, "n tiles values"]:
    """Every tile with its neighbours, laid out as the rows of the matrix are: by shifted copies side by side."""
    n, size, _, inputs = x.shape
    if tile == (size, size):
        return x.reshape(n, 1, -1)
    down, across = (size // t for t in tile)
    ring = int(tile[1] < size)
    x = jnp.pad(x, ((0, 0), (1, 1), (ring, ring), (0, 0)))

    def shifted(u: int, v: int) -> Array:
        """The value at (u, v) of every tile, or the row u of every tile that is as wide as the image."""
        last = (u + (down - 1) * tile[0] + 1, v + (across - 1) * tile[1] + 1 if ring else size)
        stride = (1, tile[0], tile[1] if ring else 1, 1)
        return jax.lax.slice(x, (0, u, v, 0), (n, *last, inputs), stride).reshape(n, down * across, -1)

    columns = range(tile[1] + 2) if ring else range(1)
    return jnp.concatenate([shifted(u, v) for u in range(tile[0] + 2) for v in columns], axis=-1)


def _band(tile: int, size: int, out: int) -> np.ndarray:
    """B as (inputs, outputs, kernel): which weight takes which input of a tile to which of its outputs."""
    whole = tile == size
    first, last = (0, tile) if whole else (-1, tile + 1)
    band = np.zeros((last - first, out if whole else 2 * tile, WIDTH))
    for i in range(first, last):
        for k in range(WIDTH):
            o = 2 * i + 3 - k
            if 0 <= o < band.shape[1]:
                band[i - first, o, k] = 1
    return band


def init_kernel(
    key: Array, inputs: int, outputs: int, dtype: DTypeLike = jnp.float32
) -> Float[Array, "5 5 inputs outputs"]:
    """A random kernel by He's initialisation: an output sees 25/4 taps of every input channel on average."""
    scale = math.sqrt(2 / (inputs * WIDTH**2 / 4))
    return scale * jax.random.normal(key, (WIDTH, WIDTH, inputs, outputs), dtype)
