"""What commands share: the console, functions that print on it, and the options that several commands take."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import jax
import typer
from jaxtyping import Array
from rich.console import Console

from ..runtime.errors import ConfigError


class _Patient(Console):
    """A console whose commands go on when nobody listens any more, as in ``ergodic sample ... | head``."""

    def on_broken_pipe(self) -> None:
        """What is still to be said goes nowhere."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


console = _Patient(width=None if sys.stdout.isatty() else 110)

Dim = Annotated[int | None, typer.Option(help="Length of the position, when MODEL is a plain function.")]
Model = Annotated[str, typer.Argument(help="A built-in target's name, or path/to/file.py:object.")]
Out = Annotated[Path, typer.Option(help="Directory for results and figures.")]
Seed = Annotated[int, typer.Option(help="Seed of all randomness.")]


def say(text: str = "") -> None:
    """Print text as it is: no markup (``E[log π*]`` is not a style), no colouring of numbers."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def warn(text: str) -> None:
    """Print a line on stderr that something is amiss."""
    print(f"warning: {text}", file=sys.stderr)


def key_of(seed: int) -> Array:
    """The random key of a seed that a user gave."""
    if not 0 <= seed < 2**63:
        raise ConfigError(f"--seed must be between 0 and 2^63, not {seed}")
    return jax.random.key(seed)
