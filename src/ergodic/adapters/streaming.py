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
another machine's rounding, is an error and not a seam in the file. It decodes every file, and draws those once more
whose checksum is wrong (`damage.py`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array as Key
from numpy.typing import ArrayLike

from ..diagnostics.summary import Part, Summary, constrained_shape, coordinate_names, summarise
from ..draws import Draws, WeightedDraws, constrained
from ..protocols import Independent
from ..runtime.drawing import Batch, Kind, default_chunk, doing, using
from ..runtime.errors import ConfigError, StorageError
from ..runtime.extras import require
from ..runtime.files import write_atomically
from ..runtime.hosts import Share
from ..runtime.programs import Cost, Stopwatch
from ..runtime.progress import Progress
from ..runtime.resampling import Blocks
from ..runtime.validation import positive_int
from ..runtime.writing import sole_writer, work_folder
from ..sampler import Devices, Sampler, require_key
from ..target import Target, leaf_name
from .arviz import plain
from .damage import Damage, damages, require_sound
from .files import file_name
from .layout import layout
from .shared_store import Members
from .zarr_store import COMMIT, Attributes, Store, read_metadata, remove, sweep, unlisted

_ROWS = 1 << 17  # draws per file: millions of draws are few files,
_VALUES = 1 << 23  # and one file's draws fit in memory
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
    mended: tuple[Damage, ...] = ()
    """What was damaged in the store, and was written again."""


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
    path, settings = Path(path), _settings(source)
    try:
        if share.count > 1 or (_staged(path) and not overwrite):
            if overwrite:
                raise ConfigError("several processes cannot agree who is to --overwrite the store: remove it first")
            done = _write_share(source, n, path, share, settings, progress)
        else:
            with sole_writer(path):
                done = _write_alone(source, n, path, settings, overwrite, progress)
    except OSError as error:
        there = read_metadata(path)[1] if (path / COMMIT).exists() else 0
        kept = f"; its first {there:,} draws are kept, and the same command goes on from there" if there else ""
        raise StorageError(f"{path} cannot be written: {error.strerror or error}{kept}") from error
    size, depth = source.size, sampler.depth
    drawn = -(-done.made // size) * source.runs
    drawn += 0 if source.blocks is None else source.blocks.size  # the first chunk, which said how many runs it takes
    return Streamed(done.before, done.some, clock.cost(drawn * depth, depth), done.after, tuple(done.damaged))


def mended(sampler: Sampler, path: str | Path) -> Streamed:
    """Draw again what is damaged in a store, with the key and the number of draws that it says it was made with."""
    attributes, n = read_metadata(Path(path))
    try:
        seed, bits = int(attributes["seed"]), 32
        words = np.array([seed >> bits, seed & (1 << bits) - 1], np.uint32)
        key = jax.random.wrap_key_data(jnp.asarray(words))
    except (KeyError, ValueError, TypeError, OverflowError) as error:
        raise StorageError(f"{path} does not say which seed it was made with") from error
    return stream(sampler, key, n, path, weighted=attributes.get("weighted_draws") == 1, progress=False)


def chunks(target: Target) -> tuple[int, int]:
    """How many draws are simulated at a time, and how many, a multiple of that, go into one file."""
    width = sum(leaf.size for leaf in jax.tree_util.tree_leaves(constrained_shape(target)))
    most = max(1, min(_ROWS, _VALUES // max(width, target.dim)))
    size = min(default_chunk(target.dim), most)
    return size, most // size * size


def summarise_store(path: Path, target: Target, rows: int | None = 30) -> Summary:
    """The summary of the draws in a store, read one file at a time."""
    zarr = require("zarr", "results", "a Zarr store")
    require_sound(path)
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


class _Done(NamedTuple):
    """What was done to a store."""

    before: int
    after: int
    some: Draws | None
    made: int
    """Draws that were made."""
    damaged: Sequence[Damage]


def _write_alone(
    source: _Source, n: int, path: Path, settings: Attributes, overwrite: bool, progress: bool | None
) -> _Done:
    """The only writer: draw what is damaged again, then what is missing, one batch after the other."""
    if overwrite or (path.is_dir() and not any(path.iterdir())):
        remove(path)
    before, some, damaged = 0, None, list[Damage]()
    size, rows = source.size, chunks(source.sampler.target)[1]
    if path.exists():
        before = _there_already(path, settings, n)
        sweep(path)
        damaged = damages(path)
        some = _mend(source, path, before, damaged, settings) if damaged or before < n else None
    made = len(_parts(damaged)) * rows
    if before < n:
        first = before // rows
        batches = source.batches(first * rows // size, -(-n // size) - first * rows // size)
        store: Store | None = None
        with Progress(doing("sampling"), n, "draws", enabled=progress) as bar:
            bar.advance(by=first * rows)
            for part in range(first, -(-n // rows)):
                end = min((part + 1) * rows, n)
                columns, draws = _part(source, part, end, batches, bar)
                some, store = some or draws, store or layout(path, draws, columns, settings, rows)
                store.grow(part, columns, end)
        made += n - first * rows
    return _Done(before, n, some, made, damaged)


def _write_share(
    source: _Source, n: int, path: Path, share: Share, settings: Attributes, progress: bool | None
) -> _Done:
    """One of several writers (shared_store.py): draw what is damaged again, then what is missing of its share."""
    size, rows = source.size, chunks(source.sampler.target)[1]
    (first,) = source.batches(0, 1)  # alike on all machines that take part, and what the layout is made from
    columns = _columns(source.sampler.target, first)
    digest = hashlib.sha256(b"".join(column.tobytes() for column in columns.values())).hexdigest()
    columns["posterior/draw"] = columns["sample_stats/draw"] = np.arange(size)
    store = layout(path, _draws(source, [first], size), columns, settings, rows)
    members = Members(path, share)
    before, some, damaged = 0, None, list[Damage]()

    def length() -> int:
        return _there_already(path, settings, n) if path.is_dir() and any(path.iterdir()) else 0

    def look() -> None:
        nonlocal before, some, damaged
        before = length()
        damaged = damages(path) if before else []
        if damaged:  # or a store that another process was making longer meanwhile
            with members.committing():
                there, damaged = length(), damages(path)
                some = _mend(source, path, there, damaged, settings)
        elif 0 < before < n:
            _mend(source, path, before, [], settings)

    with members.joined({**settings, "first_draws": digest}, look):
        ends = {part: min((part + 1) * rows, n) for part in range(before // rows, -(-n // rows)) if before < n}
        mine = [part for part, end in ends.items() if share.has(part) and members.staged(part, end) is None]
        wanted = sum(ends[part] - part * rows for part in mine)
        with Progress(doing(f"sampling ({share})"), wanted, "draws", enabled=progress) as bar:
            for part in mine:
                columns, draws = _part(source, part, ends[part], bar=bar)
                some = some or draws
                members.stage(part, ends[part], store.encoded(part, columns))
                members.commit(store, length, n, rows)
        after = members.commit(store, length, n, rows)
    return _Done(before, after, some, wanted + len(_parts(damaged)) * rows, damaged)


def _staged(path: Path) -> bool:
    """Whether processes that were stopped have left parts that are not in the store yet."""
    staged = work_folder(path) / "staged"
    return staged.is_dir() and any(staged.iterdir())


def _mend(source: _Source, path: Path, there: int, damaged: Sequence[Damage], settings: Attributes) -> Draws | None:
    """Compare the last draws that are sound with what is drawn now, and draw again what is damaged."""
    size, rows = source.size, chunks(source.sampler.target)[1]
    for name, text in unlisted(path).items() if damaged else ():
        write_atomically(path / name, text)
    again = _parts(damaged)
    sound = [part for part in range(-(-there // rows)) if part not in again]
    if sound:
        until = min((sound[-1] + 1) * rows, there)
        last = (until - 1) // size
        (batch,) = source.batches(last, 1)
        _require_same(path, _columns(source.sampler.target, batch), last * size, until)
    some: Draws | None = None
    for part in again:
        columns, draws = _part(source, part, min((part + 1) * rows, there))
        layout(path, draws, columns, settings, rows).grow(part, columns, there, again=True)
        some = some or draws
    return some


def _parts(damaged: Sequence[Damage]) -> list[int]:
    """Which files along the draws are written again; with the first one, all that does not grow."""
    return sorted({damage.part or 0 for damage in damaged})


def _part(
    source: _Source, part: int, end: int, made: Iterator[Batch] | None = None, bar: Progress | None = None
) -> tuple[dict[str, np.ndarray], Draws]:
    """The draws of file number ``part`` up to draw ``end``, as columns and as they are; from batches in ``made``."""
    target, size = source.sampler.target, source.size
    begin = part * chunks(target)[1]
    count = -(-(end - begin) // size)
    taken, named = [], []
    for batch in islice(source.batches(begin // size, count) if made is None else made, count):
        taken.append(batch)
        named.append(_columns(target, batch))
        if bar is not None:
            bar.advance(by=size)
    columns = _joined(named, end - begin)
    columns["posterior/draw"] = columns["sample_stats/draw"] = np.arange(begin, end)
    return columns, _draws(source, taken, end - begin)


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
