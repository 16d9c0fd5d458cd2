"""Which models the user has named on the command line of this machine: only their code runs when a file names them.

A sampler's file says where its target is defined. Were that enough, opening a file would run whatever Python it names.
So what the user named is remembered in the user's own cache, by a digest of the path, the text, the object and its
dimension; a file that comes from elsewhere cannot be there.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from pathlib import Path

from .data_files import cache_folder


def confirm(words: tuple[str, ...]) -> None:
    """Remember what the user has named; where the cache cannot be written, it has to be named again."""
    with suppress(OSError):
        place = _place(words)
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        place.touch()


def confirmed(words: tuple[str, ...]) -> bool:
    """Whether the user has named it before."""
    return _place(words).is_file()


def _place(words: tuple[str, ...]) -> Path:
    return cache_folder() / "models" / hashlib.sha256(json.dumps(words).encode()).hexdigest()
