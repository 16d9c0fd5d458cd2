"""How fast the decoder's gradient along latents is, by the form of its convolutions.

    python -m ergodic_studies.bench.decoder

Gradients of log p(x, y) along x a second, of the paper's decoder: with `lax.conv_transpose`, and with other tiles of
`models/deconvolution.py`. Forms take turns in one run; each turn is many gradients in one program. Then images a second
of training with a chain, T = 10 and 30.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array

from ergodic.generative.decoders import DeconvDecoder, deconv_decoder
from ergodic.generative.deconvolution import Deconvolution
from ergodic.generative.joint import joint

from ..harness.results import write_results
from ..paper.generative_timing import epoch_seconds

GRADIENTS = 20
TILES = {
    "tiles 4x4, 1x1, 1x14 (used)": ((4, 4), (1, 1), (1, 14)),
    "tiles 1x1, 1x1, 1x14": ((1, 1), (1, 1), (1, 14)),
    "tiles 4x4, 1x1, 1x7": ((4, 4), (1, 1), (1, 7)),
    "tiles 4x4, 1x1, 2x2": ((4, 4), (1, 1), (2, 2)),
    "tiles 4x4, 1x7, 1x14": ((4, 4), (1, 7), (1, 14)),
    "tiles 1x1 everywhere": ((1, 1), (1, 1), (1, 1)),
}


class Plain(Deconvolution):
    """The same layer by `lax.conv_transpose`."""

    def matrix(self) -> Array:
        return self.kernel

    def apply(self, matrix: Array, x: Array) -> Array:
        numbers = ("NHWC", "HWIO", "NHWC")
        y = jax.lax.conv_transpose(x, matrix, (2, 2), "SAME", dimension_numbers=numbers)
        return y[:, : self.out, : self.out] + self.bias[None, None, None, :]


def with_layers(decoder: DeconvDecoder, build: Callable[[int, Deconvolution], Deconvolution]) -> DeconvDecoder:
    layers = tuple(build(index, layer) for index, layer in enumerate(decoder.deconvolutions))
    return eqx.tree_at(lambda d: d.deconvolutions, decoder, layers)


def forms() -> dict[str, DeconvDecoder]:
    decoder = deconv_decoder(jax.random.key(0))
    found = {"lax.conv_transpose": with_layers(decoder, lambda _, d: Plain(d.kernel, d.bias, d.size, d.out, d.tile))}
    for name, tiles in TILES.items():
        found[name] = with_layers(
            decoder, lambda i, d, tiles=tiles: Deconvolution(d.kernel, d.bias, d.size, d.out, tiles[i])
        )
    return found


def climb(decoder: DeconvDecoder, images: Array, x: Array) -> Array:
    density = joint(decoder, images)
    return jax.lax.fori_loop(0, GRADIENTS, lambda _, x: x + 1e-4 * density(x)[1], x)


def measure(batch: int, repeats: int) -> list[dict[str, Any]]:
    decoders = forms()
    x = jax.random.normal(jax.random.key(1), (batch, 32))
    images = decoders["lax.conv_transpose"].sample(jax.random.key(2), x)
    programs = {name: eqx.filter_jit(climb) for name in decoders}
    ends = {name: np.asarray(programs[name](decoder, images, x)) for name, decoder in decoders.items()}
    seconds: dict[str, list[float]] = {name: [] for name in decoders}
    for _ in range(repeats):
        for name, decoder in decoders.items():
            began = time.perf_counter()
            programs[name](decoder, images, x).block_until_ready()
            seconds[name].append(time.perf_counter() - began)
    plain = min(seconds["lax.conv_transpose"])
    return [
        {
            "form": name,
            "gradients_per_second": GRADIENTS * batch / min(times),
            "ratio": plain / min(times),
            "largest_difference": float(np.abs(ends[name] - ends["lax.conv_transpose"]).max()),
        }
        for name, times in seconds.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/decoder"))
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=8)
    options = parser.parse_args()
    rows = measure(options.batch, options.repeats)
    for row in rows:
        print(f"{row['form']:30s} {row['gradients_per_second']:10,.0f} gradients/s  x{row['ratio']:.2f}", flush=True)
    chains = epoch_seconds("mnist", (10, 15, 30), 5, options.batch, 2)
    for row in chains:
        print(
            f"T = {row['steps']}: {row['images_per_second']:,.0f} images/s, "
            f"full gradient {row['ratio']:.2f} times the frozen force",
            flush=True,
        )
    config = {"batch": options.batch, "repeats": options.repeats, "gradients": GRADIENTS}
    write_results(
        options.out, "decoder", "python -m ergodic_studies.bench.decoder", config, {"forms": rows, "chains": chains}
    )


if __name__ == "__main__":
    main()
