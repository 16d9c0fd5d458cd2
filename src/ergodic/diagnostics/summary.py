"""Draws in a table: mean, sd, quantiles, Monte Carlo error and effective sample size of every coordinate and of log π*.

The error of a mean is that of the draws' kind:

    independent    sd/√n exactly, and each draw counts as one
    resampled      sd/√n', of n' independent draws that they are worth
    weighted       √Σ w²(x - mean)² / Σ w, of self-normalised importance sampling; (Σw)²/Σw² draws (Kish)
    correlated     ArviZ's mcse of the mean and bulk effective sample size
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import PyTree

from ..draws import Draws, summarising, variables
from ..runtime import html
from ..runtime.arviz import available, ess, mcse
from ..runtime.drawing import Kind
from ..target import Target, leaf_name
from .health import worries

_LEVELS = (0.05, 0.5, 0.95)
_BLOCK = 1 << 21  # values in double precision at a time
_KEPT = 1 << 25  # values kept for quantiles
_MORE = "... {:,} more coordinates; summary(rows=None) shows all"


class Part(NamedTuple):
    """Some of the draws: one column per coordinate, log π* last; their log weights, where they have weights."""

    columns: np.ndarray
    log_weight: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class Summary:
    """The table, as text and as arrays with one entry per row (``names``; log π* last).

    Attributes:
      names: what each row is about.
      mean, sd, q5, q50, q95: of the (weighted) draws.
      mcse: standard error of ``mean``.
      ess: how many independent draws they are worth.
      n, lost: how many draws there are, and how many of them are not finite and left out.
      kind: what the draws are to one another.
      thinned: quantiles are of one draw in so many.
      rows: how many coordinates the text shows; None: all.
      worries: what speaks against the draws at first sight.
    """

    names: tuple[str, ...]
    mean: np.ndarray
    sd: np.ndarray
    q5: np.ndarray
    q50: np.ndarray
    q95: np.ndarray
    mcse: np.ndarray
    ess: np.ndarray
    n: int
    lost: int
    kind: Kind
    thinned: int = 1
    rows: int | None = 30
    worries: tuple[str, ...] = ()

    def __str__(self) -> str:
        cells = self._cells()
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = [
            "  ".join([name.ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row, widths[1:], strict=True))])
            for name, *row in cells
        ]
        if hidden := len(self.names) + 1 - len(cells):
            lines.insert(-1, _MORE.format(hidden))
        return "\n".join([*lines, *self._notes()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        header, *rows = self._cells()
        more = [_MORE.format(hidden)] if (hidden := len(self.names) - len(rows)) else []
        return html.panel("", html.table(header, rows), *(html.text(note) for note in [*more, *self._notes()]))

    def _cells(self) -> list[list[str]]:
        """The table as text: a header, then the coordinates that are shown, and log π*."""
        *coordinates, last = range(len(self.names))
        numbers = (self.mean, self.sd, self.q5, self.q50, self.q95, self.mcse)
        return [
            ["", "mean", "sd", "5%", "50%", "95%", "error", "ess"],
            *(
                [self.names[i], *(f"{column[i]:.4g}" for column in numbers), f"{self.ess[i]:,.0f}"]
                for i in (*coordinates[: self.rows], last)
            ),
        ]

    def _notes(self) -> Iterator[str]:
        errors = {
            Kind.INDEPENDENT: "the Monte Carlo error of a mean is sd/√n exactly; bias is what certify looks for",
            Kind.RESAMPLED: f"chosen from weighted runs, and worth {self.ess[-1]:,.0f} independent draws",
            Kind.WEIGHTED: "errors are of self-normalised importance sampling, ess by Kish",
            Kind.CORRELATED: "error and ess estimated by ArviZ along the chains",
        }
        if self.kind is Kind.CORRELATED and not available():
            errors[self.kind] = "for their error and ess install ArviZ: pip install 'ergodic-inference[results]'"
        yield f"{self.n:,} {self.kind} draws: {errors[self.kind]}"
        if self.lost:
            yield f"{self.lost:,} draws that are not finite are left out"
        if self.thinned > 1:
            yield f"quantiles are of one draw in {self.thinned}"
        yield from (f"warning: {worry}" for worry in self.worries)


def summarise(
    names: Sequence[str], parts: Iterable[Part], n: int, rows: int | None = 30, copies: float | None = None
) -> Summary:
    """The summary of n draws that come in parts, with weights or without.

    ``copies`` is for resampled draws: how often the run of a draw comes among them, on average over draws.
    """
    sums, kept = _Sums(), []
    thinned = max(1, -(-n * len(names) // _KEPT))
    for part in parts:
        sums.add(part)
        kept.append(_usable(_rows(part, slice(None, None, thinned))))
    mean, sd, mcse, ess = sums.results()
    low, middle, high = _quantiles(kept)
    kind = Kind.WEIGHTED if sums.weighted else Kind.INDEPENDENT
    if copies is not None:
        kind, mcse, ess = Kind.RESAMPLED, mcse * np.sqrt(copies), ess / copies
    return Summary(tuple(names), mean, sd, low, middle, high, mcse, ess, n, n - sums.count, kind, thinned, rows)


@summarising.provide
def summarise_draws(draws: Draws, rows: int | None, var_names: Sequence[str] | None = None) -> Summary:
    """The summary of draws in memory, with what should worry about them at first sight."""
    chosen, scalars = variables(draws.runs, var_names), scalar_names(draws.target)
    leaves = [leaf.reshape(len(draws), -1) for leaf in chosen.values()] + [draws.logdensity[:, None]]
    names = [*(name for variable in chosen for name in scalars[variable]), "log π*"]
    log_weight = draws.stats.get("log_weight")

    def parts() -> Iterator[Part]:
        step = max(1, _BLOCK // len(names))
        for at in range(0, len(draws), step):
            columns = np.concatenate([leaf[at : at + step] for leaf in leaves], axis=1)
            yield Part(columns, None if log_weight is None else log_weight[at : at + step])

    copies = float(np.mean(draws.stats["copies"])) if draws.kind is Kind.RESAMPLED else None
    summary = summarise(names, parts(), len(draws), rows, copies)
    summary = replace(summary, kind=draws.kind, worries=tuple(worries(draws)))
    if draws.kind is not Kind.CORRELATED:
        return summary
    pairs = [_along_chains(draws.by_chain(leaf[:, j])) for leaf in leaves for j in range(leaf.shape[1])]
    errors, sizes = np.array(pairs).T
    return replace(summary, mcse=errors, ess=sizes)


def coordinate_names(target: Target) -> list[str]:
    """One name a constrained scalar, variable after variable."""
    return [name for names in scalar_names(target).values() for name in names]


def scalar_names(target: Target) -> dict[str, list[str]]:
    """By variable, one name a scalar: ``theta[Choate]`` where the model labels a dimension, else ``theta[0]``."""
    dims, coords, layout = target.model.dims, target.model.coords, target.layout
    if target.constrain is None and not dims:
        ends = np.cumsum(layout.sizes).tolist()
        cuts = zip(layout.paths, layout.sizes, ends, strict=True)
        return {path: list(target.names[end - size : end]) for path, size, end in cuts}
    found = {}
    for path, leaf in jax.tree_util.tree_flatten_with_path(constrained_shape(target))[0]:
        name = leaf_name(path)
        labels = [coords.get(dim, ()) for dim in dims.get(name, ("",) * leaf.ndim)]
        labels = [known if len(known) == size else range(size) for known, size in zip(labels, leaf.shape, strict=True)]
        places = (
            ",".join(str(label[i]) for label, i in zip(labels, at, strict=True)) for at in np.ndindex(*leaf.shape)
        )
        found[name] = [f"{name}[{place}]" if place else name for place in places]
    return found


def constrained_shape(target: Target) -> PyTree:
    """The shapes of one constrained draw, found without making one."""
    flat: Any = jax.ShapeDtypeStruct((target.dim,), target.dtype)  # type: ignore[no-untyped-call]
    constrain = target.constrain or (lambda position: position)
    return jax.eval_shape(lambda x: constrain(target.layout.unravel(x)), flat)


class _Sums:
    """Σw·(1, d, d²) and Σw²·(1, d, d²): d from the first draws' mean, weights relative to the largest so far."""

    def __init__(self) -> None:
        self.count, self.weighted = 0, False
        self._top = -np.inf
        self._centre: Any = None
        self._sums: Any = None

    def add(self, part: Part) -> None:
        """Count some more draws, those that are not finite left out."""
        self.weighted |= part.log_weight is not None
        width = part.columns.shape[1]
        if self._sums is None:
            self._sums = np.zeros((2, 3, width))
        step = max(1, _BLOCK // width)
        for at in range(0, len(part.columns), step):
            columns, log_weight = _usable(_rows(part, slice(at, at + step)))
            if not len(columns):
                continue
            columns = columns.astype(np.float64)
            weight = np.ones(len(columns)) if log_weight is None else self._weight(log_weight.astype(np.float64))
            if self._centre is None:
                self._centre = columns.mean(axis=0)
            columns -= self._centre
            weights = np.stack([weight, weight**2])
            totals = np.broadcast_to(weights.sum(axis=1)[:, None], (2, width))
            self._sums += np.stack([totals, weights @ columns, weights @ columns**2], axis=1)
            self.count += len(columns)

    def _weight(self, log_weight: np.ndarray) -> np.ndarray:
        top = max(self._top, float(log_weight.max()))
        base = top if np.isfinite(top) else 0.0
        shrink = np.exp(self._top - base)
        self._sums *= np.array([shrink, shrink**2])[:, None, None]
        self._top = top
        return np.exp(log_weight - base)

    def results(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """mean, sd, mcse, ess; NaN where there are too few draws to say."""
        (s0, s1, s2), (q0, q1, q2) = self._sums
        with np.errstate(divide="ignore", invalid="ignore"):
            shift, n = s1 / s0, np.float64(self.count)
            sd = np.sqrt(np.maximum(s2 / s0 - shift**2, 0))
            if self.weighted:
                mcse = np.sqrt(np.maximum(q2 - 2 * shift * q1 + shift**2 * q0, 0)) / s0
                ess = s0**2 / q0
            else:
                sd = sd * np.sqrt(n / (n - 1))
                mcse, ess = sd / np.sqrt(n), s0.copy()
        centre = np.full_like(shift, np.nan) if self._centre is None else self._centre
        return centre + shift, sd, mcse, ess


def _rows(part: Part, chosen: np.ndarray | slice) -> Part:
    return Part(part.columns[chosen], None if part.log_weight is None else part.log_weight[chosen])


def _usable(part: Part) -> Part:
    """The draws that are finite; a weight may be zero."""
    fine = np.isfinite(part.columns).all(axis=1)
    if part.log_weight is not None:
        fine &= part.log_weight < np.inf
    return _rows(part, fine)


def _quantiles(parts: list[Part]) -> np.ndarray:
    """Rows 5 %, 50 %, 95 %: of weighted draws, the first value at which so much of the weight is reached."""
    columns = np.concatenate([part.columns for part in parts])
    if not len(columns):
        return np.full((len(_LEVELS), columns.shape[1]), np.nan)
    if parts[0].log_weight is None:
        return np.stack([np.quantile(column.astype(np.float64), _LEVELS) for column in columns.T], axis=1)
    log_weight = np.concatenate([part.log_weight for part in parts if part.log_weight is not None]).astype(np.float64)
    weight = np.exp(log_weight - log_weight.max())
    found = []
    for column in columns.T:
        order = np.argsort(column)
        reached = np.cumsum(weight[order])
        places = np.searchsorted(reached, np.array(_LEVELS) * reached[-1])
        found.append(column[order[np.minimum(places, len(column) - 1)]].astype(np.float64))
    return np.stack(found, axis=1)


def _along_chains(values: np.ndarray) -> tuple[float, float]:
    """ArviZ's standard error of the mean and bulk effective sample size, from chains that are finite throughout.

    Both are NaN without ArviZ; chains too short to tell of correlation count as one draw each.
    """
    chains = values[np.isfinite(values).all(axis=1)].astype(np.float64)
    if not chains.size:
        return np.nan, np.nan
    if chains.shape[1] < 4:
        return float(chains.std() / np.sqrt(len(chains))), float(len(chains))
    return (mcse(chains), ess(chains)) if available() else (np.nan, np.nan)
