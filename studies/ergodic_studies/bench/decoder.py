"""`ergodic bench decoder`: how fast the decoder's gradient along latents is, by the form of its convolutions.

Gradients of log p(x, y) along x per second, of the paper's decoder: with `lax.conv_transpose`, and with other tiles of
`generative/deconvolution.py`. Forms take turns in one run; each turn is many gradients in one program. Then images per
second of training with a chain.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Annotated, NamedTuple

import equinox as eqx
import jax
import numpy as np
import typer
from jaxtyping import Array

from ergodic.generative.decoders import DeconvDecoder, deconv_decoder
from ergodic.generative.deconvolution import Deconvolution
from ergodic.generative.joint import joint

from ..harness.presets import changed
from ..harness.study import Report, Run, Study
from ..harness.tables import Table
from ..paper.generative_timing import epoch_seconds

GRADIENTS = 20
PLAIN = "lax.conv_transpose"
TILES = {
    "tiles 4x4, 1x1, 1x14 (used)": ((4, 4), (1, 1), (1, 14)),
    "tiles 1x1, 1x1, 1x14": ((1, 1), (1, 1), (1, 14)),
    "tiles 4x4, 1x1, 1x7": ((4, 4), (1, 1), (1, 7)),
    "tiles 4x4, 1x1, 2x2": ((4, 4), (1, 1), (2, 2)),
    "tiles 4x4, 1x7, 1x14": ((4, 4), (1, 7), (1, 14)),
    "tiles 1x1 everywhere": ((1, 1), (1, 1), (1, 1)),
}


@dataclass(frozen=True)
class Size:
    """How much is run."""

    batch: int = 128
    repeats: int = 8
    data: str = "mnist"
    steps: tuple[int, ...] = (10, 15, 30)
    """Lengths of chains, in transitions, that training is timed with."""


PRESETS = {"smoke": Size(8, 1, "digits", (2,)), "cpu": Size()}


class Form(NamedTuple):
    """One form of the convolutions."""

    form: str
    gradients_per_second: float
    ratio: float
    """How many times as fast as `lax.conv_transpose`."""
    largest_difference: float
    """Between latents after some steps along the gradient, from those by `lax.conv_transpose`."""


class Plain(Deconvolution):
    """The same layer by `lax.conv_transpose`."""

    def matrix(self) -> Array:
        """The kernel as it is: there is nothing to prepare."""
        return self.kernel

    def apply(self, matrix: Array, x: Array) -> Array:
        """The transposed convolution of a batch of pictures."""
        numbers = ("NHWC", "HWIO", "NHWC")
        y = jax.lax.conv_transpose(x, matrix, (2, 2), "SAME", dimension_numbers=numbers)
        return y[:, : self.out, : self.out] + self.bias[None, None, None, :]


def with_layers(decoder: DeconvDecoder, build: Callable[[int, Deconvolution], Deconvolution]) -> DeconvDecoder:
    """The decoder with its layers built anew from their number and themselves."""
    layers = tuple(build(index, layer) for index, layer in enumerate(decoder.deconvolutions))
    return eqx.tree_at(lambda d: d.deconvolutions, decoder, layers)


def forms() -> dict[str, DeconvDecoder]:
    """The same decoder in every form."""
    decoder = deconv_decoder(jax.random.key(0))
    found = {PLAIN: with_layers(decoder, lambda _, d: Plain(d.kernel, d.bias, d.size, d.out, d.tile))}
    for name, tiles in TILES.items():

        def tiled(index: int, d: Deconvolution, tiles: tuple[tuple[int, int], ...] = tiles) -> Deconvolution:
            return Deconvolution(d.kernel, d.bias, d.size, d.out, tiles[index])

        found[name] = with_layers(decoder, tiled)
    return found


def climb(decoder: DeconvDecoder, images: Array, x: Array) -> Array:
    """Latents after a number of small steps along the gradient."""
    density = joint(decoder, images)
    return jax.lax.fori_loop(0, GRADIENTS, lambda _, x: x + 1e-4 * density(x)[1], x)


def measure(batch: int, repeats: int) -> list[Form]:
    """Time every form, the forms in turns; the fastest turn of each counts."""
    decoders = forms()
    x = jax.random.normal(jax.random.key(1), (batch, 32))
    images = decoders[PLAIN].sample(jax.random.key(2), x)
    programs = {name: eqx.filter_jit(climb) for name in decoders}
    ends = {name: np.asarray(programs[name](decoder, images, x)) for name, decoder in decoders.items()}
    seconds: dict[str, list[float]] = {name: [] for name in decoders}
    for _ in range(repeats):
        for name, decoder in decoders.items():
            began = time.perf_counter()
            programs[name](decoder, images, x).block_until_ready()
            seconds[name].append(time.perf_counter() - began)
    plain = min(seconds[PLAIN])
    return [
        Form(
            name,
            GRADIENTS * batch / min(times),
            plain / min(times),
            float(np.abs(ends[name] - ends[PLAIN]).max()),
        )
        for name, times in seconds.items()
    ]


def decoder(
    run: Run[Size],
    *,
    batch: Annotated[int | None, typer.Option(help="Images at a time, instead of the preset's.")] = None,
    repeats: Annotated[int | None, typer.Option(help="Turns, instead of the preset's.")] = None,
) -> Report:
    """The decoder's gradients per second by the form of its convolutions, and images per second of training."""
    size = changed(run.size, batch=batch, repeats=repeats)
    found = measure(size.batch, size.repeats)
    for form in found:
        run.say(f"{form.form:30s} {form.gradients_per_second:10,.0f} gradients/s  x{form.ratio:.2f}")
    chains = epoch_seconds(size.data, size.steps, 5, size.batch, 2)
    tables = [
        Table.of(
            "Gradients per second by the form of the convolutions",
            ["form", "gradients per second", "ratio", "largest difference"],
            [
                [f.form, f"{f.gradients_per_second:,.0f}", f"{f.ratio:.2f}", f"{f.largest_difference:.1g}"]
                for f in found
            ],
        ),
        Table.of(
            "Training with a chain",
            ["T", "images per second", "full gradient ÷ frozen force"],
            [[c["steps"], f"{c['images_per_second']:,.0f}", f"{c['ratio']:.2f}"] for c in chains],
        ),
    ]
    results = {"forms": [form._asdict() for form in found], "chains": chains}
    config = {"preset": run.preset.name, **asdict(size), "gradients": GRADIENTS}
    return Report(results, tables, config=config)


STUDY = Study("decoder", "bench", PRESETS, decoder)
