"""Draws streamed to a Zarr store: bounded memory, and a run that was killed goes on with the draws it would have made.

Draw i depends on the sampler, the key and i alone (drawing.py), so the store of n draws is the same, byte for byte,
whether it was written at once, after a kill, or grown from fewer draws. Draws that are chosen from weighted runs are
chosen block by block (runtime/resampling.py, with the bias that this has), and a file has whole blocks. What is in it:

    posterior       an array per constrained variable, (1, n, ...); dimensions and labels as `Draws.to_arviz` gives them
    sample_stats    lp (log π*) and the draws' statistics: acceptance_rate, diverging, energy_error, copies, ...
    observed_data, constant_data    where the target's model has them; predictions and log-likelihoods are not streamed
    attributes      those of `Draws.to_arviz` but for what a run took; the store itself has `Sampler.attributes` and
                    sampler_sha256, chunk (draws simulated at a time), storage_chunk (draws per file), and of resampled
                    draws block (draws chosen at a time) and block_runs: what a run that goes on must share

Before a run goes on it draws the last chunk of the store again and compares: a log-density that has changed since, or
another machine's rounding, is an error and not a seam in the file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import jax
import numpy as np
from jaxtyping import Array as Key
from numpy.typing import ArrayLike

from ..diagnostics.summary import Part, Summary, constrained_shape, coordinate_names, summarise
from ..draws import Draws, WeightedDraws, constrained
from ..protocols import Independent
from ..runtime.drawing import Batch, Kind, default_chunk, doing, using
from ..runtime.errors import ConfigError, StorageError
from ..runtime.extras import require
from ..runtime.hosts import Share
from ..runtime.programs import Cost, Stopwatch
from ..runtime.progress import Progress
from ..runtime.resampling import Blocks
from ..runtime.validation import positive_int
from ..sampler import Devices, Sampler, require_key
from ..target import Target, leaf_name
from .arviz import plain
from .files import datasets, file_name, inference_data
from .zarr_store import COMMIT, Array, Attributes, Store, read_metadata, remove, sole_writer, sweep, work_folder

if TYPE_CHECKING:
    from xarray import Variable
else:
    Variable = object  # may not be installed

_ROWS = 1 << 17  # draws per file: millions of draws are few files,
_VALUES = 1 << 23  # and one file's draws fit in memory
_PASSING = ("created_at", "sampling_time", "gradients", "effective_size")  # attributes of one run, not of the draws
_LATER = ("certificate",)  # attributes that draws do not depend on


class Streamed(NamedTuple):
    """What a run of `stream` did."""

    before: int
    """How many draws the store had already."""
    some: Draws | None
    """The draws of the first file that was written, for a look at them; None when there was nothing to do."""
    cost: Cost
    after: int
    """How many it has now; fewer than were asked for, as long as other processes have not made theirs."""


class _Source(NamedTuple):
    """Batches of ``size`` draws, each made from ``runs`` runs: batch i depends on the key and i alone."""

    sampler: Sampler
    method: Independent
    key: Key
    kind: Kind
    size: int
    runs: int
    blocks: Blocks | None = None

    @classmethod
    def of(cls, sampler: Sampler, method: Independent, key: Key, kind: Kind) -> _Source:
        """Batches of such draws; where they are resampled, the first chunk of runs says how many it takes."""
        size, rows = chunks(sampler.target)
        if kind is not Kind.RESAMPLED:
            return cls(sampler, method, key, kind, size, size)
        (first,) = method.batches(sampler.target, sampler.params, key, 0, 1, size)
        blocks = Blocks.of(first, rows, whole=True)
        return cls(sampler, method, key, kind, blocks.draws, blocks.runs, blocks)

    def batches(self, start: int, count: int) -> Iterator[Batch]:
        """Batches start, ..., start + count - 1."""
        each, size = (1, self.size) if self.blocks is None else self.blocks[1:]
        made = self.method.batches(self.sampler.target, self.sampler.params, self.key, start * each, count * each, size)
        return made if self.blocks is None else self.blocks.batches(made, self.key, start)


def stream(
    sampler: Sampler,
    key: Key,
    n: int,
    path: str | Path,
    *,
    weighted: bool = False,
    overwrite: bool = False,
    progress: bool | None = None,
    share: Share | None = None,
    devices: Devices = None,
) -> Streamed:
    """Write n draws to the store at ``path``, going on from the draws that an earlier run left there.

    They are equally weighted; with ``weighted``, runs with their weights in ``sample_stats/log_weight``. With a share,
    that part of the store is drawn which is this process's; the store is complete when all processes are done.
    """
    with using(devices):
        return _streamed(sampler, key, n, path, weighted, overwrite, progress, share or Share())


def _streamed(
    sampler: Sampler,
    key: Key,
    n: int,
    path: str | Path,
    weighted: bool,
    overwrite: bool,
    progress: bool | None,
    share: Share,
) -> Streamed:
    n, key = positive_int(n, "n, the number of draws"), require_key(key)
    if not isinstance(sampler.method, Independent):
        raise ConfigError(f"each draw of {sampler.method.name} depends on the one before: it cannot be streamed")
    clock = Stopwatch()
    source = _Source.of(sampler, sampler.method, key, sampler.drawn(weighted))
    path, settings, rows = Path(path), _settings(source), chunks(sampler.target)[1]
    try:
        if share.count > 1 or (_staged(path) and not overwrite):
            if overwrite:
                raise ConfigError("several processes cannot agree who is to --overwrite the store: remove it first")
            before, after, some, made = _write_share(source, n, path, share, settings, progress)
        else:
            before, some = _write_alone(source, n, path, settings, overwrite, progress)
            after, made = n, n - before // rows * rows
    except OSError as error:
        there = read_metadata(path)[1] if (path / COMMIT).exists() else 0
        kept = f"; its first {there:,} draws are kept, and the same command goes on from there" if there else ""
        raise StorageError(f"{path} cannot be written: {error.strerror or error}{kept}") from error
    size, depth = source.size, sampler.depth
    drawn = -(-made // size) * source.runs if some is not None else 0
    drawn += 0 if source.blocks is None else source.blocks.size  # the first chunk, which said how many runs it takes
    return Streamed(before, some, clock.cost(drawn * depth, depth), after)


def chunks(target: Target) -> tuple[int, int]:
    """How many draws are simulated at a time, and how many, a multiple of that, go into one file."""
    width = sum(leaf.size for leaf in jax.tree_util.tree_leaves(constrained_shape(target)))
    most = max(1, min(_ROWS, _VALUES // max(width, target.dim)))
    size = min(default_chunk(target.dim), most)
    return size, most // size * size


def summarise_store(path: Path, target: Target, rows: int | None = 30) -> Summary:
    """The summary of the draws in a store, read one file at a time."""
    zarr = require("zarr", "results", "a Zarr store")
    _, n = read_metadata(path)
    data = zarr.open_group(str(path), mode="r")
    leaves = jax.tree_util.tree_flatten_with_path(constrained_shape(target))[0]
    arrays = [data[f"posterior/{file_name(leaf_name(path))}"] for path, _ in leaves] + [data["sample_stats/lp"]]
    stats = data["sample_stats"]
    weights, chosen, step = stats.get("log_weight"), stats.get("copies"), arrays[-1].chunks[1]
    copies = None if chosen is None else sum(float(np.sum(chosen[0, at : at + step])) for at in range(0, n, step)) / n

    def parts() -> Iterator[Part]:
        for at in range(0, n, step):
            chosen = (0, slice(at, min(at + step, n)))
            columns = [np.asarray(array[chosen]).reshape(min(step, n - at), -1) for array in arrays]
            yield Part(np.concatenate(columns, axis=1), None if weights is None else np.asarray(weights[chosen]))

    return summarise([*coordinate_names(target), "log π*"], parts(), n, rows, copies)


def _settings(source: _Source) -> Attributes:
    """What the draws depend on, as plain attributes: two runs that agree in these make the same draws."""
    sampler, (size, rows) = source.sampler, chunks(source.sampler.target)
    digest = hashlib.sha256(json.dumps([sampler.method.name, sampler.method.settings()], sort_keys=True).encode())
    for path, leaf in jax.tree_util.tree_flatten_with_path(sampler.params)[0]:
        array = np.asarray(leaf)
        digest.update(f"{leaf_name(path)}:{array.dtype}:{array.shape};".encode())
        digest.update(array.tobytes())
    attributes = {name: plain(value) for name, value in sampler.attributes(source.key, source.kind).items()}
    blocks = {} if source.blocks is None else {"block": source.size, "block_runs": source.runs}
    return {**attributes, "sampler_sha256": digest.hexdigest(), "chunk": size, "storage_chunk": rows, **blocks}


def _there_already(path: Path, settings: Attributes, n: int) -> int:
    """How many draws of this run are in the store; an error if it holds others, or more."""
    found, there = read_metadata(path)
    differ = [name for name in {**settings, **found} if name not in _LATER and settings.get(name) != found.get(name)]
    if differ:
        said = ", ".join(f"{name} {found.get(name)!s:.16} (here {settings.get(name)!s:.16})" for name in differ)
        raise StorageError(f"{path} holds draws of another run: {said}; name another file, or --overwrite it")
    if there > n:
        raise StorageError(f"{path} holds {there:,} draws already, more than {n:,}; name another file, or --overwrite")
    return there


def _write(source: _Source, n: int, path: Path, before: int, settings: Attributes, progress: bool | None) -> Draws:
    target, size, rows = source.sampler.target, source.size, chunks(source.sampler.target)[1]
    if before:
        last = (before - 1) // size
        (batch,) = source.batches(last, 1)
        _require_same(path, _columns(target, batch), last * size, before)
    first = before // rows
    made = source.batches(first * rows // size, -(-n // size) - first * rows // size)
    some: Draws | None = None
    with Progress(doing("sampling"), n, enabled=progress) as bar:
        bar.advance(by=first * rows)
        for part in range(first, -(-n // rows)):
            begin, end = part * rows, min((part + 1) * rows, n)
            draws, columns = _part(source, made, begin, end, bar)
            if some is None:
                some = draws
                store = _store(path, some, columns, settings)
            store.grow(part, columns, end)
    assert some is not None
    return some


def _part(
    source: _Source, made: Iterator[Batch], begin: int, end: int, bar: Progress
) -> tuple[Draws, dict[str, np.ndarray]]:
    """The draws of one file, out of batches, and as the store names them."""
    taken, named = [], []
    for batch in islice(made, -(-(end - begin) // source.size)):
        taken.append(batch)
        named.append(_columns(source.sampler.target, batch))
        bar.advance(by=source.size)
    columns = _joined(named, end - begin)
    columns["posterior/draw"] = columns["sample_stats/draw"] = np.arange(begin, end)
    return _draws(source, taken, end - begin), columns


def _write_share(
    source: _Source, n: int, path: Path, share: Share, settings: Attributes, progress: bool | None
) -> tuple[int, int, Draws | None, int]:
    """One of several writers (shared_store.py): the store's length before and after, some draws, how many were made."""
    from .shared_store import Members  # where a system has no locks of files, one writer is alone

    size, rows = source.size, chunks(source.sampler.target)[1]
    (first,) = source.batches(0, 1)  # alike on all machines that take part, and what the layout is made from
    columns = _columns(source.sampler.target, first)
    digest = hashlib.sha256(b"".join(column.tobytes() for column in columns.values())).hexdigest()
    columns["posterior/draw"] = columns["sample_stats/draw"] = np.arange(size)
    members, some, made = Members(path, share), None, 0

    def length() -> int:
        return _there_already(path, settings, n) if path.is_dir() and any(path.iterdir()) else 0

    before = length()
    if before:
        last = (before - 1) // size
        _require_same(path, _columns(source.sampler.target, *source.batches(last, 1)), last * size, before)
    with members.joined({**settings, "first_draws": digest}):
        store = _store(path, _draws(source, [first], size), columns, settings)
        ends = {part: min((part + 1) * rows, n) for part in range(before // rows, -(-n // rows)) if before < n}
        mine = [part for part, end in ends.items() if share.has(part) and members.staged(part, end) is None]
        with Progress(
            doing(f"sampling ({share})"), sum(ends[part] - part * rows for part in mine), enabled=progress
        ) as bar:
            for part in mine:
                begin, end = part * rows, ends[part]
                batches = source.batches(begin // size, -(-(end - begin) // size))
                some, columns = _part(source, batches, begin, end, bar)
                members.stage(part, end, store.encoded(part, columns))
                members.commit(store, length, n, rows)
                made += end - begin
        after = members.commit(store, length, n, rows)
    if after == n:
        members.leave()
    return before, after, some, made


def _write_alone(
    source: _Source, n: int, path: Path, settings: Attributes, overwrite: bool, progress: bool | None
) -> tuple[int, Draws | None]:
    with sole_writer(path):
        if overwrite or (path.is_dir() and not any(path.iterdir())):
            remove(path)
        before = _there_already(path, settings, n) if path.exists() else 0
        if before:
            sweep(path)
        return before, _write(source, n, path, before, settings, progress) if before < n else None


def _staged(path: Path) -> bool:
    """Whether processes that were stopped have left parts that are not in the store yet."""
    staged = work_folder(path) / "staged"
    return staged.is_dir() and any(staged.iterdir())


def _columns(target: Target, batch: Batch) -> dict[str, np.ndarray]:
    """A batch as the store names it: constrained variables and statistics, with one row per draw."""
    leaves = jax.tree_util.tree_flatten_with_path(constrained(target, np.asarray(batch.position)))[0]
    stats = {"lp": batch.logdensity, **batch.stats}
    return {f"posterior/{file_name(leaf_name(path))}": np.asarray(leaf) for path, leaf in leaves} | {
        f"sample_stats/{name}": np.asarray(column) for name, column in stats.items()
    }


def _joined(parts: Sequence[Mapping[str, ArrayLike]], count: int) -> dict[str, np.ndarray]:
    return {name: np.concatenate([part[name] for part in parts])[:count] for name in parts[0]}


def _draws(source: _Source, made: list[Batch], count: int) -> Draws:
    stats = _joined([batch.stats for batch in made], count)
    trace = {name: np.mean([batch.trace[name] for batch in made], axis=0) for name in made[0].trace}
    position, logdensity = (np.concatenate(parts)[:count] for parts in zip(*(batch[:2] for batch in made), strict=True))
    facts = source.sampler.attributes(source.key, source.kind)
    draws = WeightedDraws if source.kind is Kind.WEIGHTED else Draws
    return draws(source.sampler.target, position, logdensity, stats, trace, attributes=facts, kind=source.kind)


def _require_same(path: Path, columns: dict[str, np.ndarray], begin: int, end: int) -> None:
    zarr = require("zarr", "results", "a Zarr store")
    data = zarr.open_group(str(path), mode="r")
    for name, column in columns.items():
        stored = np.asarray(data[name][0, begin:end])
        if stored.dtype != column.dtype or stored.tobytes() != column[: end - begin].tobytes():
            raise StorageError(
                f"{path} cannot be gone on with: drawn again, its draws {begin:,} to {end - 1:,} are others "
                f"(the log-density or its data have changed, or the machine); name another file, or --overwrite"
            )


def _store(path: Path, draws: Draws, columns: dict[str, np.ndarray], settings: Attributes) -> Store:
    """The store's layout, taken from what ArviZ makes of a few draws."""
    stats = {name: column[:2] for name, column in draws.stats.items()}
    few = Draws(draws.target, draws.unconstrained[:2], draws.logdensity[:2], stats, attributes=draws.attributes)
    data = inference_data(few, predictive=False, log_likelihood=False)
    arrays: dict[str, Array] = {}
    attributes: dict[str, Attributes] = {"": settings}
    for group, dataset in datasets(data).items():
        attributes[group] = {str(name): plain(v) for name, v in dataset.attrs.items() if name not in _PASSING}
        for name, variable in dataset.variables.items():
            place = f"{group}/{name}"
            if place in columns:
                arrays[place] = Array(variable.dims, columns[place].dtype, columns[place].shape[1:])
            else:
                arrays[place] = _fixed(variable)
    return Store(path, chunks(draws.target)[1], arrays, attributes)


def _fixed(variable: Variable) -> Array:
    """Labels or data that do not grow, as files have them: text as text, dates as numbers."""
    encoded = require("xarray.conventions", "results", "a Zarr store").encode_cf_variable(variable)
    values = np.asarray(encoded.values)
    values = values.astype(str) if values.dtype.kind in "OS" else values
    attributes = {name: plain(value) for name, value in encoded.attrs.items() if name != "_FillValue"}
    return Array(tuple(encoded.dims), values.dtype, values=values, attributes=attributes)
