"""Commands that list what is built in: targets and methods."""

from __future__ import annotations

import json

from rich.table import Table

from .. import targets
from ..methods import METHODS
from ..runtime.data_files import ORIGINS, VARIABLE, available
from ..targets import registry
from ..targets.synthetic import Synthetic
from .console import console, say

_LEFT = ("paper", "name", "what")


def list_targets() -> None:
    """The built-in targets and what is known of them."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("paper", "name", "dim", "-E log π*", "log Z", "entropy", "mean", "sd", "what"):
        table.add_column(column, justify="left" if column in _LEFT else "right", no_wrap=column == "name")
    needing: dict[str, list[str]] = {}
    for name, entry in registry().items():
        letter = f"({entry.letter})" if isinstance(entry, Synthetic) and entry.letter else ""
        known = _known(name) if entry.collection is None else [name, str(entry.dim), *[""] * 5]
        table.add_row(letter, *known, entry.title)
        if entry.collection is not None:
            needing.setdefault(entry.collection, []).append(name)
    console.print(table)
    for collection, those in sorted(needing.items()):
        if not available(collection):
            say(f"\n{', '.join(those)}: set {VARIABLE} to a folder that has {collection}/ with {ORIGINS[collection]}.")


def _known(name: str) -> list[str]:
    """The cells of a target whose truth is known, from its name to its standard deviations."""
    target = targets.get(name)
    truth = target.require_truth()
    few = target.dim <= 2
    return [
        name,
        str(target.dim),
        f"{-truth.expected_logdensity:.4f}",
        f"{truth.log_z + 0.0:.4f}".replace("-0.0000", "0.0000"),
        f"{truth.entropy:.4f}",
        " ".join(f"{m + 0.0:.2f}".replace("-0.00", "0.00") for m in truth.mean) if few else "",
        " ".join(f"{s:.2f}" for s in truth.covariance.diagonal() ** 0.5) if few else "",
    ]


def list_methods() -> None:
    """The methods and their settings; change one with `ergodic fit --set name=value`."""
    for name, method in METHODS.items():
        console.print(f"[bold]{name}[/bold]  {method.title}")
        for setting, value in method().settings().items():
            say(f"    {setting} = {_shown(value)}")


def _shown(value: object) -> str:
    """A setting as JSON; of settings that are many themselves, how many there are."""
    if isinstance(value, dict):
        return f"{{...}}, {len(value)} numbers that tuning goes by; name as JSON those to change"
    return json.dumps(value)
