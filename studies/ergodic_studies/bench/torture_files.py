"""Files that were damaged, or crafted with a checksum that is right: every loader refuses them in a sentence.

A damaged file has bits flipped, bytes cut off, put in or repeated. A crafted one has another document in its header, or
other arrays, under the right checksum. What a loader gives for a damaged file must be what was written, if it gives
anything; for a crafted one it must not raise what is not an `ErgodicError`, nor take more than 30 seconds or 1 GB.
"""

from __future__ import annotations

import copy
import json
import random
import resource
import signal
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import ergodic as eg
from ergodic.adapters.damage import require_sound
from ergodic.adapters.streaming import stream
from ergodic.bnn.csv_table import read_csv
from ergodic.bnn.fitted import load as load_network
from ergodic.bnn.network import Data, RegressionNetwork
from ergodic.certificate import Certificate, Finding
from ergodic.generative.recipes import recipe
from ergodic.generative.training import read_mark, train
from ergodic.generative.training_settings import Budget
from ergodic.runtime.errors import ErgodicError
from ergodic.runtime.files import digest, read_arrays, write_arrays
from ergodic.runtime.programs import Cost

from ..harness.cells import Cell
from .torture_kills import Outcome

HANG, _MEMORY = 30, 1 << 20
"""Seconds, and kilobytes."""
HOSTILE: tuple[Any, ...] = (
    None, True, -1, 0, 10**9, 10**30, 1e308, float("nan"), float("inf"), "", "x" * 1000, "../../etc", [], {}, [[]],
    [10**9], {"": 0}, "é\x00", ["a", 3], -0.5,
)  # fmt: skip


class Format(NamedTuple):
    """One kind of file: a sound one, what reads it, and under which key its header is, where it has one."""

    path: Path
    read: Callable[[], object]
    mark: str = ""


class Hang(BaseException):
    """Something took too long."""


def bell(number: int, frame: FrameType | None) -> None:
    """What SIGALRM does here."""
    raise Hang


def formats(folder: Path) -> dict[str, Format]:
    """A sound file of every kind, and its loader, which returns what can be compared."""
    target, rng = eg.targets.get("gaussian"), np.random.default_rng(0)
    sampler = eg.HEI(steps=2, leapfrogs=1).untuned(target, jax.random.key(0))
    sampler.certificate = Certificate((Finding("health", "a", "passed", "b"),), 9, 0.02, Cost(1, 1), 1)
    sampler.save(folder / "s.ergodic")
    greedy = eg.fit(target, jax.random.key(0), eg.GEI(certify=False, particles=64), progress=False)
    greedy.save(folder / "gei.ergodic")
    stream(sampler, jax.random.key(1), 100, folder / "d.zarr", progress=False)
    data = Data(jnp.asarray(rng.normal(size=(20, 2)), jnp.float32), jnp.asarray(rng.normal(size=20), jnp.float32))
    network = eg.HEI(steps=1, leapfrogs=1).untuned(RegressionNetwork(2, (3,)).target(data), jax.random.key(0))
    network.source = {"network": {"features": ["a", "b"], "target": "y", "hidden": [3]}}
    drawn = np.zeros((4, network.target.dim), np.float32)
    network.extra = {"x": rng.normal(size=(20, 2)), "y": rng.normal(size=20), "networks": drawn}
    network.save(folder / "n.ergodic")
    images, vae = rng.uniform(size=(40, 64)).astype(np.float32), recipe("VAE", 2, 2, 16)
    train(images, vae, Budget(epochs=1), jax.random.key(0), folder / "run")
    cell = Cell(("a",), 1, lambda path: {"value": [1.5, "word"]})
    cell.result(folder)
    (folder / "t.csv").write_text("a,y\n" + "\n".join(f"{i},{i * i}" for i in range(12)) + "\n")
    chunk = folder / "d.zarr" / "posterior" / "x" / "0.0.0"

    def of_sampler(name: str) -> Callable[[], object]:
        def read() -> object:
            eg.load(folder / name, target)
            return _said(folder / name)

        return read

    def of_store() -> object:
        require_sound(folder / "d.zarr")
        return _chunk(folder)

    def of_networks() -> object:
        load_network(folder / "n.ergodic")
        return _said(folder / "n.ergodic")

    def of_checkpoint() -> object:
        read_mark(folder / "run", "checkpoint", vae, (40, 64))
        return _said(folder / "run" / "checkpoint")

    def of_chunk() -> str:
        of_store()
        return _chunk(folder)

    return {
        "sampler": Format(folder / "s.ergodic", of_sampler("s.ergodic"), "ergodic"),
        "sampler of GEI": Format(folder / "gei.ergodic", of_sampler("gei.ergodic"), "ergodic"),
        "networks": Format(folder / "n.ergodic", of_networks, "ergodic"),
        "checkpoint": Format(folder / "run" / "checkpoint", of_checkpoint, "training"),
        "store, a chunk": Format(chunk, of_chunk),
        "store, its list": Format(folder / "d.zarr" / ".zmetadata", of_store),
        "cell": Format(cell.file(folder), lambda: cell.kept(folder) or _refused()),
        "table": Format(folder / "t.csv", lambda: [list(map(str, part)) for part in read_csv(folder / "t.csv")]),
    }


def _said(path: Path) -> object:
    """All that a file with arrays says, for one that its loader took."""
    metadata, arrays = read_arrays(path, "a file")
    return [sorted((name, text) for name, text in metadata.items()), digest(arrays)]


def _chunk(folder: Path) -> str:
    import zarr

    return digest({"x": np.asarray(zarr.open_group(str(folder / "d.zarr"), mode="r")["posterior/x"])})


def _refused() -> object:
    raise eg.StorageError("not this cell's")


def trials(seed: int, count: int) -> dict[str, Outcome]:
    """So many damaged, and as many crafted files of every kind."""
    found: dict[str, Outcome] = {}
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind, made in formats(Path(name)).items():
            rng = random.Random(f"{kind} {seed}")
            whole, sound = made.path.read_bytes(), made.read()
            total = {"trials": 0, "refused": 0, "changed": 0, "raw": 0, "hung": 0, "grew": 0}
            for _ in range(count):
                made.path.write_bytes(damaged(whole, rng))
                _count(total, made, None if kind == "table" else sound)
                if made.mark:
                    made.path.write_bytes(whole)
                    craft(made, rng)
                    _count(total, made, None)
                made.path.write_bytes(whole)
            found[kind] = total
    return found


def _count(total: Outcome, made: Format, sound: object) -> None:
    """Read once, and count what comes of it; ``sound`` is what may be read, where not anything may be."""
    total["trials"] += 1
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    signal.signal(signal.SIGALRM, bell)
    signal.alarm(HANG)
    try:
        total["changed"] += int(made.read() != sound and sound is not None)
    except ErgodicError:
        total["refused"] += 1
    except Hang:
        total["hung"] += 1
    except Exception as error:
        total["raw"] += 1
        total[f"raw: {type(error).__name__}"] = total.get(f"raw: {type(error).__name__}", 0) + 1
    finally:
        signal.alarm(0)
    total["grew"] += int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before > _MEMORY)


def damaged(data: bytes, rng: random.Random) -> bytes:
    """The bytes with one thing wrong: flipped bits, a cut, an insertion, zeros, a part twice, or another file."""
    at, other = rng.randrange(len(data)), rng.randrange(len(data))
    low, high = sorted((at, other))
    match rng.randrange(6):
        case 0:
            return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
        case 1:
            return data[:at]
        case 2:
            return data[:at] + rng.randbytes(rng.randrange(1, 64)) + data[at:]
        case 3:
            return data[:low] + bytes(high - low) + data[high:]
        case 4:
            return data[:high] + data[low:]
        case _:
            return rng.choice((b"", b"[]", b"{}", b"[" * 100_000, b"\x80\x04N.", rng.randbytes(200), data[::-1]))


def craft(made: Format, rng: random.Random) -> None:
    """Write the file anew with something else in its header or its arrays, and the right checksum."""
    metadata, arrays = read_arrays(made.path, "a file")
    document: Any = json.loads(metadata[made.mark])
    name = rng.choice(sorted(arrays))
    match rng.randrange(4):
        case 0:
            arrays.pop(name)
        case 1:
            shape = tuple(rng.randrange(4) for _ in range(rng.randrange(4)))
            arrays[name] = np.full(shape, rng.choice((0, 1e30, np.nan)), rng.choice((np.float32, np.float64)))
        case _:
            document = spoilt(document, rng)
    write_arrays(made.path, made.mark, document, arrays)


def spoilt(document: Any, rng: random.Random) -> Any:
    """A document in which one value, anywhere, is another, is missing, or has company."""
    document = copy.deepcopy(document)
    places: list[tuple[Any, Any]] = []

    def walk(node: Any) -> None:
        for key in list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ():
            places.append((node, key))
            walk(node[key])

    walk(document)
    if not places or rng.random() < 0.05:
        return rng.choice(HOSTILE)
    node, key = rng.choice(places)
    match rng.randrange(3):
        case 0 if isinstance(node, dict):
            del node[key]
        case 1 if isinstance(node, dict):
            node["wings"] = rng.choice(HOSTILE)
        case _:
            node[key] = rng.choice(HOSTILE)
    return document
