"""A run's results on disk: small JSON with the configuration, the versions and the commit that made it."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np

from ergodic._version import __version__
from ergodic.runtime.files import write_atomically

from .processes import run
from .tables import Figure, Table


def write_results(
    out: Path,
    name: str,
    command: str,
    config: Mapping[str, object],
    results: object,
    *,
    tables: Sequence[Table] = (),
    figures: Sequence[Figure] | None = None,
) -> Path:
    """Write ``out/results.json`` atomically: what ran, with which settings and versions, and what came out.

    The page shows the tables and the figures; every picture of the folder where ``figures`` is None.
    """
    shown: dict[str, object] = {}
    if tables:
        shown["tables"] = [table.record() for table in tables]
    if figures is not None:
        shown["figures"] = [figure.record() for figure in figures]
    document = {
        "experiment": name,
        "command": command,
        "config": config,
        "versions": {
            "ergodic": __version__,
            "commit": commit(),
            "python": platform.python_version(),
            **{package: version(package) for package in ("jax", "jaxlib", "numpy")},
        },
        **shown,
        "results": results,
    }
    path = out / "results.json"
    write_atomically(path, (json.dumps(document, indent=1, default=_plain, ensure_ascii=False) + "\n").encode())
    return path


def _plain(value: object) -> object:
    if isinstance(value, np.ndarray):
        return [round(v, 6) if isinstance(v, float) else v for v in value.astype(float).tolist()]
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def commit() -> str | None:
    """The commit of the source tree this runs from, marked when it has uncommitted changes; None outside of one."""
    here = str(Path(__file__).resolve().parent.parent)
    try:
        changed, head = (
            run(["git", "-C", here, *words])
            for words in (("status", "--porcelain", "--", "."), ("rev-parse", "--short", "HEAD"))
        )
    except OSError:
        return None
    return None if changed.code or head.code else head.output.strip() + ("+changes" if changed.output.strip() else "")
