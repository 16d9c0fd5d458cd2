"""Optional packages: imported where they are used, and named in a one-line error where they are missing.

The core of ergodic needs few packages. What else it can use is grouped in extras, as pyproject.toml lists them:
``results`` (ArviZ, xarray, pandas, Zarr), ``polars``, ``peers`` (BlackJAX), ``networks`` (Equinox), ``data`` (pooch,
scikit-learn), ``parallel`` (cloudpickle), ``cluster`` (Dask), ``plots`` (Matplotlib), ``numpyro`` and ``pymc``.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from .errors import ErgodicError, MissingExtra

EXTRA_OF = {
    "arviz": "results",
    "pandas": "results",
    "polars": "polars",
    "cloudpickle": "parallel",
    "matplotlib": "plots",
    "xarray": "results",
    "zarr": "results",
    "h5netcdf": "results",
    "blackjax": "peers",
    "equinox": "networks",
    "pooch": "data",
    "sklearn": "data",
    "numpyro": "numpyro",
    "funsor": "numpyro",
    "pymc": "pymc",
    "distributed": "cluster",
}
"""The extra that brings each optional package."""
OF_STUDIES = ("jinja2", "nutpie")
"""What figures, pages and rivals need: packages of the studies, which are in every checkout and not in the wheel."""


def require(package: str, extra: str, what: str = "this") -> ModuleType:
    """Import an optional package, or raise a `MissingExtra` that says how to install it.

    Args:
        package: The module to import, such as ``"arviz"`` or ``"xarray.conventions"``.
        extra: The extra of ``ergodic-inference`` that installs the package.
        what: The subject of the error's sentence: what the user asked for, such as ``"Draws.to_arviz"``.

    Returns:
        The imported module.
    """
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        raise MissingExtra(error.name or package, extra, what) from error


def installed(package: str) -> bool:
    """Whether a package can be found, without importing it."""
    try:
        return find_spec(package) is not None
    except (ImportError, ValueError):
        return False


def explained(error: ModuleNotFoundError) -> ErgodicError | None:
    """The one-line error for an import that failed, where the package is one of the optional ones; else None."""
    package = (error.name or "").partition(".")[0]
    if package in EXTRA_OF:
        return MissingExtra(package, EXTRA_OF[package])
    if package in OF_STUDIES:
        return ErgodicError(f"this needs {package}, which comes with the studies: run `make` in a checkout")
    return None
