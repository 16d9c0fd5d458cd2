"""What the adapters of modelling languages share: P0 from draws of the prior, checks of labels, settings for tracing.

P0 = N(m, diag(s²)) on flat unconstrained positions, from n draws of the prior mapped there: m is the median and s half
the range between the 15.87 % and 84.13 % quantiles, coordinate by coordinate. Of a Gaussian these are the mean and the
standard deviation; of a Cauchy they are finite too.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree
from numpy.typing import ArrayLike

from ..initial import DiagonalGaussian
from ..runtime.errors import TargetError

PRIOR_DRAWS = 1000
_PRIOR_VALUES = 50_000_000
_HINTED = 2000  # coordinates, at most, of a model whose text is looked at
_LEVELS = (0.1587, 0.5, 0.8413)
_IMPROPER_SCALE = math.sqrt(3.0)  # as P0 starts where nothing is known: section 3.3


def prior_draws(dim: int) -> int:
    """How many draws of the prior to look at: 1,000, fewer where they would fill the memory."""
    return max(100, min(PRIOR_DRAWS, _PRIOR_VALUES // dim))


def prior_from_draws(draws: Mapping[str, ArrayLike], improper: Collection[str], dtype: np.dtype) -> DiagonalGaussian:
    """P0 from unconstrained prior draws, ``(n, *shape)`` by leaf; 0 and √3 for improper leaves and infinite spreads."""
    means, scales = [], []
    for name in sorted(draws):  # the order in which a dict's leaves lie in a flat vector
        values = np.asarray(draws[name], np.float64)
        columns = values.reshape(len(values), -1)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore", RuntimeWarning)  # a column of NaN alone
            low, middle, high = np.nanquantile(columns, _LEVELS, axis=0, method="nearest")
            scale = (high - low) / 2
        known = np.isfinite(middle) & np.isfinite(scale) & (scale > 0) & (name not in improper)
        means.append(np.where(known, middle, 0.0))
        scales.append(np.where(known, scale, _IMPROPER_SCALE))
    mean, scale = np.concatenate(means), np.concatenate(scales)
    return DiagonalGaussian(jnp.asarray(mean, dtype), jnp.asarray(np.log(scale), dtype))


def hinted(
    parameters: Callable[[PyTree], Mapping[str, Sequence[jax.Array]]], like: Mapping[str, jax.Array]
) -> list[tuple[int, int]]:
    """Pairs (j, i) of flat coordinates, where a parameter of i's prior changes with j: candidate drivers, by autodiff.

    Args:
      parameters: the parameters of every latent leaf's distribution, as arrays, at an unconstrained position; one whose
        shape is not the leaf's speaks for all of the leaf.
      like: an unconstrained position, by leaf.
    """
    start, at = dict[str, int](), 0
    for name in sorted(like):  # the order in which a dict's leaves lie in a flat vector
        start[name], at = at, at + like[name].size
    found: set[tuple[int, int]] = set()
    if at > _HINTED:
        return []
    for name, each in jax.jacfwd(parameters)(dict(like)).items():
        for other, jacobian in ((other, part[other]) for part in each for other in part):
            changes = np.asarray(jacobian).reshape(*jacobian.shape[: jacobian.ndim - like[other].ndim], -1) != 0
            try:
                changes = np.broadcast_to(changes, (*like[name].shape, changes.shape[-1]))
            except ValueError:
                changes = np.broadcast_to(
                    changes.reshape(-1, changes.shape[-1]).any(axis=0), (*like[name].shape, changes.shape[-1])
                )
            driven, driver = np.nonzero(changes.reshape(-1, changes.shape[-1]))
            found |= {(start[other] + int(j), start[name] + int(i)) for i, j in zip(driven, driver, strict=True)}
    return sorted((j, i) for j, i in found if i != j)


def default_dims(name: str, ndim: int) -> list[str]:
    """ArviZ's names for the dimensions of a variable that has none."""
    return [f"{name}_dim_{axis}" for axis in range(ndim)]


def check_labels(
    dims: Mapping[str, Sequence[str]], coords: Mapping[str, Sequence[object]], shapes: Mapping[str, tuple[int, ...]]
) -> None:
    """Refuse dimension names and coordinates that do not fit the variables' shapes."""
    known = {dim for names in dims.values() for dim in names}
    known |= {f"{name}_dim_{axis}" for name, shape in shapes.items() for axis in range(len(shape))}
    for dim in coords:
        if dim not in known:
            has = ", ".join(sorted(known)) or "none"
            raise TargetError(f"coords labels '{dim}', which is no dimension of the model (it has: {has})")
    for name, names in dims.items():
        if name not in shapes:
            raise TargetError(f"dims names '{name}', which the model does not have (it has: {', '.join(shapes)})")
        shape = shapes[name]
        if len(names) != len(shape):
            raise TargetError(
                f"dims gives '{name}' {len(names)} names, but its shape is {shape}; give one per dimension"
            )
        for dim, size in zip(names, shape, strict=True):
            if dim in shapes:
                raise TargetError(f"a dimension of '{name}' is called '{dim}', which is also a variable; rename one")
            if dim in coords and len(coords[dim]) != size:
                raise TargetError(
                    f"coords gives '{dim}' {len(coords[dim])} labels, but '{name}' has {size} values along it"
                )


@contextmanager
def tracing(dtype: np.dtype) -> Iterator[None]:
    """Trace a modelling language's code as it expects: mixed dtypes and ranks allowed, in the target's precision.

    Graphs that were written in double precision say so; in single precision JAX warns of each, and is not heard.
    """
    with (
        jax.numpy_dtype_promotion("standard"),
        jax.numpy_rank_promotion("allow"),
        jax.enable_x64(dtype == np.dtype(np.float64)),
        warnings.catch_warnings(),
    ):
        warnings.filterwarnings("ignore", "Explicitly requested dtype", UserWarning)
        yield


def traced(function: Callable, dtype: np.dtype) -> Callable:
    """The same function, which runs under the settings of `tracing`."""

    @functools.wraps(function)
    def run(*args: PyTree) -> PyTree:
        with tracing(dtype):
            return function(*args)

    return run


def reason(error: BaseException) -> str:
    """The kind of an error and the first line of its message, as one phrase."""
    lines = str(error).strip().splitlines() or ["no message"]
    return f"{type(error).__name__}: {lines[0].rstrip('.')}"
