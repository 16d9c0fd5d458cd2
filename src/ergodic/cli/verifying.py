"""The command that says whether a store of draws is what was written."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..adapters.damage import require_sound
from ..adapters.streaming import mended
from ..adapters.zarr_store import read_metadata
from .console import Dim, say
from .sampling import open_sampler


def verify(
    store: Annotated[Path, typer.Argument(help="A Zarr store written by `ergodic sample -o STORE.zarr`.")],
    sampler: Annotated[
        Path | None, typer.Option(help="The sampler that drew it: what is damaged is drawn again, exactly.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="The sampler's target, when its file has moved.")] = None,
    dim: Dim = None,
) -> None:
    """Is a store what was written? Every file's checksum is compared; with --sampler damaged ones are drawn again."""
    if sampler is not None:
        for damage in mended(open_sampler(sampler, model, dim), store).mended:
            say(f"{damage}; it was drawn again")
    require_sound(store)
    say(f"{store} is sound: {read_metadata(store)[1]:,} draws, and no file is damaged")
