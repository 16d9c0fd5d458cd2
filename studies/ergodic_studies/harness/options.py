"""Options that several studies' commands have, and how names on the command line are read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Annotated

import typer

from ergodic.runtime.errors import ConfigError, unknown

Seeds = Annotated[int | None, typer.Option(help="Seeds per cell, instead of the preset's.")]
Core = Annotated[int | None, typer.Option(help="The processor to run on; all when left out.")]
Collect = Annotated[bool, typer.Option("--collect", help="Run nothing; tables of what is there.")]


def split(words: Sequence[str] | None) -> list[str]:
    """Options may be repeated, or hold several names between commas."""
    return [name.strip() for word in words or () for name in word.split(",") if name.strip()]


def checked(wanted: Sequence[str], known: Sequence[str], what: str) -> tuple[str, ...]:
    """Names as they are known, whatever the case; an unknown one is an error that lists those there are."""
    found = {name.lower(): name for name in known}
    for name in wanted:
        if name.lower() not in found:
            raise ConfigError(unknown(what, name, known))
    return tuple(found[name.lower()] for name in wanted)


def pin(core: int | None) -> None:
    """Run on one processor from now on, unless that is left out; every process that is started inherits it."""
    if core is not None:
        os.sched_setaffinity(0, {core})
