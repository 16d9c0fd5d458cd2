"""Many posteriors: one schedule for all, or groups of them on any executor, each kept as soon as it is fitted.

samplers = eg.fit_many(family, key)                                    # one schedule for all: a FamilySampler
samplers = eg.fit_many(family, key, executor=8, folder="fitted")       # groups of 16, by 8 processes: ManySamplers
draws = eg.sample_many(samplers, key, 1_000, executor="dask://host:8786")

What travels is arrays and the name of a function, ``module:name``; never a closure. Group g is tuned with the key
folded with g, so that what comes out depends on the key, the data and the size of groups, and not on who has done the
work, in which order, or how often it was lost.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import overload

import jax
import numpy as np
from jaxtyping import Array

from .adapters.executors import opened
from .api import require_precision
from .draws import Draws
from .family import Family
from .family_sampler import FamilySampler
from .methods import GEI
from .protocols import Familial
from .runtime.errors import ConfigError, ErgodicError, StorageError
from .runtime.files import write_atomically
from .runtime.programs import Cost
from .runtime.progress import Progress
from .runtime.tasks import finished
from .runtime.validation import positive_int
from .sampler import Sampler, require_key
from .shipping import Failed, Shipped, draw_there, fit_there, opened_file, packed
from .target import Target

_GROUP = 16
"""Members that share a schedule, where they are fitted in groups."""


@dataclass(eq=False)
class ManySamplers:
    """Samplers of many posteriors, which were fitted in groups: ``samplers[i]`` is an ordinary `Sampler`.

    Attributes:
      family: all members.
      groups: a sampler of each group; None for one that failed. The last is filled up with its last member.
      size: members of a group.
      failed: what went wrong, by the group's number.
    """

    family: Family
    groups: list[FamilySampler | None]
    size: int
    failed: dict[int, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.family)

    def __iter__(self) -> Iterator[Sampler]:
        return (self[index] for index in range(len(self)))

    def __getitem__(self, index: int) -> Sampler:
        """One member's sampler; an error where its group failed."""
        number, at = divmod(range(len(self))[index], self.size)
        return self.group(number)[at]

    def group(self, number: int) -> FamilySampler:
        """One group's sampler; an error where it failed."""
        found = self.groups[number]
        if found is None:
            raise ErgodicError(f"group {number} was not fitted ({self.failed[number]}); run fit_many again")
        return found

    @property
    def settled(self) -> np.ndarray:
        """Which members their group's schedule serves; none of a group that failed."""
        blank = np.zeros(self.size, bool)
        return np.concatenate([blank if group is None else group.settled for group in self.groups])[: len(self)]

    @property
    def cost(self) -> Cost:
        """What tuning all of them cost; seconds are those of all workers together."""
        return sum((group.cost for group in self.groups if group is not None), Cost())

    def sample(self, key: Array, n: int, *, executor: object = None) -> list[Draws]:
        """Draw n times from every member: `sample_many`."""
        return sample_many(self, key, n, executor=executor)

    def __repr__(self) -> str:
        failed = f", {len(self.failed)} groups failed" if self.failed else ""
        return f"ManySamplers({len(self)} members of '{self.family.name}', {self.settled.sum()} settled{failed})"


@overload
def fit_many(targets: Family | Sequence[Target], key: Array, method: Familial | None = None) -> FamilySampler: ...
@overload
def fit_many(
    targets: Family | Sequence[Target],
    key: Array,
    method: Familial | None = None,
    *,
    group: int | None = None,
    executor: object = None,
    folder: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
) -> ManySamplers: ...
def fit_many(
    targets: Family | Sequence[Target],
    key: Array,
    method: Familial | None = None,
    *,
    group: int | None = None,
    executor: object = None,
    folder: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
) -> FamilySampler | ManySamplers:
    """Tune one schedule to a family of posteriors, each in coordinates of its own; or one to each of several groups.

    Args:
      targets: a `Family`, or a list of targets that differ in the arrays they have closed over, or in their data.
      key: a JAX random key.
      method: `GEI` with its settings; ``particles`` are a member's. None: 128, or as many as give the family 512, or
        4 dim, up to 1,024, whichever is most. Nothing is certified or annealed, whatever ``method`` says: certify the
        members you doubt.
      group: how many members share a schedule. None: all; 16, where there is an executor or a folder.
      executor: where groups are fitted: a number of processes of this machine, ``"dask://HOST:PORT"``, Dask's client,
        or any with `concurrent.futures`' ``submit``. None: here, one after the other, with the same result. Elsewhere
        the log-density must be a function of a module that can be imported there.
      folder: where every group is kept as soon as it is fitted. Called again, only those that are missing are fitted.
      progress: whether progress is shown; None: where there is a terminal or a notebook.

    Returns:
      A `FamilySampler`; with a group, an executor or a folder, `ManySamplers`. ``samplers.sample(key, n)`` gives n
      draws of every member, ``samplers[i]`` is one member's sampler, and ``samplers.settled`` says which members their
      schedule serves.
    """
    family, key = targets if isinstance(targets, Family) else Family.of(targets), require_key(key)
    require_precision(family[0].dtype)
    alone = group is None and executor is None and folder is None
    wanted = len(family) if alone else positive_int(_GROUP if group is None else group, "group")
    count = math.ceil(len(family) / wanted)
    size = math.ceil(len(family) / count)
    if method is None:
        method = GEI(particles=max(128, -(-512 // size), min(4 * family.dim, 1024)), certify=False)
    if not isinstance(method, Familial):
        raise ConfigError(f"fit_many needs a method that tunes a family, such as eg.GEI(), not {method!r}")
    if alone:
        return method.fit_family(family, key)
    groups = [_members(family, number, size) for number in range(count)]
    shipped = None if executor is None else Shipped.of(family, method)
    place = None if folder is None else _folder(Path(folder), family, method, key, size)
    found: list[FamilySampler | None] = [None] * count
    failed: dict[int, str] = {}
    if place is not None:
        found = [
            opened_file(file, each) if (file := _file(place, n)).exists() else None for n, each in enumerate(groups)
        ]
    missing = [number for number, each in enumerate(found) if each is None]
    keys = {number: jax.random.fold_in(key, number) for number in missing}
    with Progress("fitting", count, "groups", enabled=progress) as bar:
        bar.advance(by=count - len(missing))
        for number, made in _fitted(executor, shipped, method, groups, keys):
            if isinstance(made, Failed):
                failed[number] = made.why
            else:
                found[number] = made if isinstance(made, FamilySampler) else opened_file(made, groups[number])
                if place is not None:
                    write_atomically(_file(place, number), made if isinstance(made, bytes) else packed(made))
            bar.advance()
    return ManySamplers(family, found, size, failed)


def _fitted(
    executor: object, shipped: Shipped | None, method: Familial, groups: list[Family], keys: dict[int, Array]
) -> Iterator[tuple[int, FamilySampler | bytes | Failed]]:
    """The number of each group with its sampler, or its file from elsewhere, as they are made."""
    if shipped is None:
        for number, key in keys.items():
            try:
                yield number, method.fit_family(groups[number], key)
            except ErgodicError as error:
                yield number, Failed.of(error)
        return
    numbers = list(keys)
    with opened(executor) as there:
        tasks = [(shipped, *shipped.cargo(groups[number].data, keys[number])) for number in numbers]
        for place, made in finished(there, fit_there, tasks):
            yield numbers[place], made


def sample_many(
    samplers: ManySamplers | FamilySampler | Sequence[Sampler], key: Array, n: int, *, executor: object = None
) -> list[Draws]:
    """Draw n times from each of many samplers.

    Args:
      samplers: what `fit_many` gave, or a list of samplers.
      key: a JAX random key; member i draws with the key folded with i.
      n: how many draws of each.
      executor: where they are drawn, as in `fit_many`; None: here. The draws are the same.

    Returns:
      Every member's draws, in order.
    """
    n, key = positive_int(n, "n, the number of draws"), require_key(key)
    if executor is None:
        return [sampler.sample(jax.random.fold_in(key, at), n) for at, sampler in enumerate(samplers)]
    parts = _parts(samplers)
    tasks, firsts = [], np.cumsum([0, *(count for _, count in parts)]).tolist()
    for first, (part, count) in zip(firsts, parts, strict=False):
        what = part.family if isinstance(part, FamilySampler) else part.target
        shipped = Shipped.of(what, part.method)
        tasks.append((shipped, *shipped.cargo(what.data, key), packed(part), n, first, count))
    made: dict[int, Draws] = {}
    with opened(executor) as there:
        for number, columns in finished(there, draw_there, tasks):
            if isinstance(columns, Failed):
                raise ErgodicError(f"sampler {firsts[number]} could not draw: {columns.why}")
            for at, each in enumerate(columns, start=firsts[number]):
                made[at] = each.draws(samplers[at], jax.random.fold_in(key, at))
    return [made[at] for at in range(len(samplers))]


def _parts(
    samplers: ManySamplers | FamilySampler | Sequence[Sampler],
) -> list[tuple[FamilySampler | Sampler, int]]:
    """What is drawn from in one task, and how many members that has."""
    if isinstance(samplers, FamilySampler):
        return [(samplers, len(samplers))]
    if not isinstance(samplers, ManySamplers):
        return [(sampler, 1) for sampler in samplers]
    size, whole = samplers.size, len(samplers)
    return [(samplers.group(at), min(size, whole - at * size)) for at in range(len(samplers.groups))]


def _members(family: Family, number: int, size: int) -> Family:
    """A group; the last is filled up with the last member, so that all are compiled as one."""
    rows = np.minimum(np.arange(number * size, (number + 1) * size), len(family) - 1)
    return family.with_data(jax.tree_util.tree_map(lambda leaf: leaf[rows], family.data))


def _file(folder: Path, number: int) -> Path:
    return folder / f"group-{number:06d}.ergodic"


def _folder(folder: Path, family: Family, method: Familial, key: Array, size: int) -> Path:
    """The folder of these groups; an error where it has others."""
    digest = hashlib.sha256()
    for leaf in (*jax.tree_util.tree_leaves(family.data), jax.random.key_data(key)):
        digest.update(np.asarray(leaf).tobytes())
    settings = json.dumps([method.name, method.settings()], sort_keys=True)
    said = {"family": family.name, "members": len(family), "dim": family.dim, "group": size, "method": settings}
    document = json.dumps({**said, "data_and_key_sha256": digest.hexdigest()}, indent=1).encode()
    file = folder / "family.json"
    if file.exists() and file.read_bytes() != document:
        raise StorageError(f"{folder} holds the samplers of other data, of another key or method; name another folder")
    if not file.exists():
        write_atomically(file, document)
    return folder
