"""Commands for data sets: what there is and where it lies, fetch what is missing."""

from __future__ import annotations

from typing import Annotated

import typer

from ..datasets.fetch import fetch, require_collection
from ..runtime.data_files import ORIGINS, VARIABLE, find, folders
from ..runtime.data_registry import COLLECTIONS
from ..runtime.extras import installed
from .console import say


def list_data() -> None:
    """The data sets, whether they are at hand, and where they lie."""
    carried = (
        ("there", "scikit-learn") if installed("sklearn") else ("missing", "pip install 'ergodic-inference[data]'")
    )
    _line("digits", *carried, "8x8 digits, grey levels")
    _line("diabetes", *carried, "a regression table")
    for name, collection in COLLECTIONS.items():
        found = [path for file in collection.files if (path := find(name, file.name))]
        whole = len(found) == len(collection.files)
        where = list(dict.fromkeys(str(path.parent) for path in found)) + [f"run: ergodic data fetch {name}"] * (
            not whole
        )
        _line(name, "there" if whole else "in part" if found else "missing", ", ".join(where), collection.title)
    for name in sorted(set(ORIGINS) - set(COLLECTIONS)):
        found = [folder / name for folder in folders() if (folder / name).is_dir()]
        _line(name, "there" if found else "missing", str(found[0]) if found else f"set {VARIABLE}", ORIGINS[name])
    say(f"\nFiles are looked for in {', then '.join(map(str, folders()))}; what is fetched goes to the first.")


def _line(name: str, there: str, where: str, what: str) -> None:
    say(f"{name:14} {there:8} {where}")
    say(f"{'':14} {what}")


def fetch_data(names: Annotated[list[str], typer.Argument(metavar="NAME...", help="See `ergodic data list`.")]) -> None:
    """Download data sets from their public origins, or from ERGODIC_MIRROR; what is there and sound is left."""
    for name in names:
        require_collection(name)
    for name in names:
        for file in fetch(name, tell=say):
            say(f"{file.path}: {'fetched' if file.new else 'there already'} ({file.path.stat().st_size / 1e6:.1f} MB)")
