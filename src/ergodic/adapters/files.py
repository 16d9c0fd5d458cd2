"""Draws as files: netCDF or Zarr through ArviZ (``.nc``, ``.zarr``) or plain NumPy (``.npz``), written atomically.

Independent draws need not be in memory for a Zarr store: see streaming.py. These read the files:

    arviz.from_netcdf("draws.nc")
    arviz.InferenceData.from_datatree(xarray.open_datatree("draws.zarr", engine="zarr"))
    arviz.from_zarr("draws.zarr")       ArviZ 0.x has this for zarr 2 only, and says so with zarr 3
"""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from ..draws import Draws
from ..runtime.errors import ConfigError, MissingExtra, StorageError
from ..runtime.extras import installed
from ..runtime.files import require_writable, write_atomically
from ..runtime.writing import PATIENCE, real_path, replacing, sole_writer
from ..target import leaf_name
from .arviz import to_inference_data
from .zarr_store import remove

if TYPE_CHECKING:
    from arviz import InferenceData
    from xarray import Dataset
else:
    InferenceData = Dataset = object  # may not be installed

FORMATS = (".nc", ".zarr", ".npz")
_PACKAGES = {".nc": ("arviz", "h5netcdf"), ".zarr": ("arviz", "zarr"), ".npz": ()}


def check_format(path: Path) -> None:
    """Refuse a file name whose format is not known, before any work is done."""
    if path.suffix not in FORMATS:
        raise ConfigError(f"'{path}' must end in {', '.join(FORMATS[:-1])} or {FORMATS[-1]}: the format to write")


def require_place(path: Path) -> None:
    """Refuse a name that draws cannot be written to, before any work is done for it.

    A Zarr store is a directory; netCDF and Zarr need optional packages.
    """
    check_format(path)
    for package in _PACKAGES[path.suffix]:
        if not installed(package):
            raise MissingExtra(package, "results", f"writing {path}")
    if path.suffix != ".zarr" or not path.is_dir():
        require_writable(path)
    elif not os.access(path, os.W_OK | os.X_OK) or not os.access(path.absolute().parent, os.W_OK | os.X_OK):
        raise StorageError(f"{path} cannot be written: no permission")


def write_draws(draws: Draws, path: Path) -> None:
    """Write draws to ``path``; if the conversion to netCDF or Zarr fails, the raw draws stay behind as ``.npz``."""
    check_format(path)
    if path.suffix == ".npz":
        write_atomically(path, _raw(draws))
        return
    with sole_writer(path, PATIENCE) as folder:
        kept = folder / "raw.npz"
        try:
            kept.write_bytes(_raw(draws))
        except OSError as error:
            raise StorageError(f"{path} cannot be written: {error.strerror or error}") from error
        try:
            (_write_netcdf if path.suffix == ".nc" else _write_zarr)(draws, path)
        except Exception as error:
            spare = real_path(path).with_name(f"{path.stem}.{os.getpid()}.raw.npz")
            os.replace(kept, spare)
            raise ConfigError(f"could not write {path} ({error}); the raw draws are kept in {spare}") from error


def inference_data(
    draws: Draws, *, predictive: bool | None = None, log_likelihood: bool | None = None
) -> InferenceData:
    """What `Draws.to_arviz` gives, with names that files can have: a slash in a name would be a folder.

    Files can also have weighted runs, with their weights in ``sample_stats/log_weight``.
    """
    data = to_inference_data(draws, predictive=predictive, log_likelihood=log_likelihood)
    names = {str(name) for group in datasets(data).values() for name in (*group.variables, *group.dims)}
    slashed = {name: file_name(name) for name in names if "/" in name}
    return data.rename(slashed) if slashed else data


def datasets(data: InferenceData) -> dict[str, Dataset]:
    """The xarray data set of every group, by the group's name."""
    return {group: data[group] for group in data.groups()}


def file_name(name: str) -> str:
    """The name of a variable or a dimension as files have it, without slashes."""
    return name.replace("/", ".")


def _write_netcdf(draws: Draws, path: Path) -> None:
    with replacing(path) as temporary:
        inference_data(draws).to_netcdf(str(temporary))


def _write_zarr(draws: Draws, path: Path) -> None:
    with sole_writer(path, PATIENCE) as folder:
        temporary = folder / "new"
        inference_data(draws).to_datatree().to_zarr(temporary, zarr_format=2, consolidated=True)
        remove(path, folder / "old")
        os.rename(temporary, real_path(path))


def _raw(draws: Draws) -> bytes:
    buffer = io.BytesIO()
    arrays: dict[str, Any] = {  # arrays; the stubs of savez take keywords for its own switches
        "unconstrained": draws.unconstrained,
        "names": np.array(draws.target.names),
        "logdensity": draws.logdensity,
        **{f"stats/{name}": column for name, column in draws.stats.items()},
    }
    if draws.target.constrain is not None:
        leaves = jax.tree_util.tree_flatten_with_path(draws.runs)[0]
        arrays |= {f"position/{leaf_name(path)}": leaf for path, leaf in leaves}
    np.savez(buffer, **arrays)
    return buffer.getvalue()
