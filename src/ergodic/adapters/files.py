"""Draws as files: netCDF through ArviZ (``.nc``) or plain NumPy (``.npz``), written atomically, raw draws first."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ..draws import Draws
from ..errors import ConfigError
from ..storage import write_atomically
from ..target import leaf_name

FORMATS = (".nc", ".npz")


def check_format(path: Path) -> None:
    """Refuse a file name whose format is not known, before any work is done."""
    if path.suffix not in FORMATS:
        raise ConfigError(f"'{path}' must end in {' or '.join(FORMATS)}, which say the format to write")


def write_draws(draws: Draws, path: Path) -> None:
    """Write draws to ``path``. If the conversion to netCDF fails, the raw draws stay behind as ``.npz``."""
    check_format(path)
    if path.suffix == ".npz":
        write_atomically(path, _raw(draws))
        return
    spare = path.with_name(f".{path.stem}.{os.getpid()}.raw.npz")
    write_atomically(spare, _raw(draws))
    temporary = path.with_name(f".{path.name}.part")
    try:
        draws.to_arviz().to_netcdf(str(temporary))
        os.replace(temporary, path)
    except Exception as error:
        temporary.unlink(missing_ok=True)
        raise ConfigError(f"could not write {path} ({error}); the raw draws are kept in {spare}") from error
    spare.unlink()


def _raw(draws: Draws) -> bytes:
    buffer = io.BytesIO()
    arrays: dict[str, Any] = {
        "unconstrained": draws.unconstrained,
        "names": np.array(draws.target.names),
        "logdensity": draws.logdensity,
        **{f"stats/{name}": column for name, column in draws.stats.items()},
    }
    if draws.target.constrain is not None:
        leaves = jax.tree_util.tree_flatten_with_path(draws.position)[0]
        arrays |= {f"position/{leaf_name(path)}": leaf for path, leaf in leaves}
    np.savez(buffer, **arrays)
    return buffer.getvalue()
