"""A run's results on disk: small JSON with the configuration, the versions and the commit that made it."""

from __future__ import annotations

import json
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from ergodic._version import __version__
from ergodic.runtime.files import write_atomically


def write_results(
    out: Path,
    name: str,
    command: str,
    config: dict[str, Any],
    results: Any,
    *,
    tables: list[dict[str, Any]] | None = None,
    figures: list[dict[str, str]] | None = None,
) -> Path:
    """Write ``out/results.json`` atomically.

    ``tables`` (title, note, columns, rows) and ``figures`` (file, title, caption) are what the report page shows.
    """
    shown = {key: value for key, value in (("tables", tables), ("figures", figures)) if value is not None}
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


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return [round(v, 6) if isinstance(v, float) else v for v in value.astype(float).tolist()]
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def commit() -> str | None:
    """The commit of the source tree this runs from, marked when it has uncommitted changes; None outside of one."""
    here = Path(__file__).resolve().parent.parent

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=here, capture_output=True, text=True, check=True).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--", ".")
        return git("rev-parse", "--short", "HEAD") + ("+changes" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return None
