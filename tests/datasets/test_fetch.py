"""Fetching, against a mirror on this machine."""

import gzip
import os
import signal
import socket
import stat
import threading
from pathlib import Path

import numpy as np
import pytest

from data_ergodic import data_folder
from ergodic.datasets import content, conversion, fetch
from ergodic.runtime import data_registry as registry
from ergodic.runtime.errors import ConfigError, DataError
from mirror_ergodic import at_home, toy


@pytest.fixture(scope="module")
def real():
    """The folder of the true files, as it is before a test names another."""
    return Path(data_folder())


@pytest.fixture
def mirror(monkeypatch, tmp_path):
    with at_home(monkeypatch, tmp_path) as mirror:
        yield mirror


@pytest.fixture(params=[True, False], ids=["digest of the file", "digest of its contents"])
def toys(request, mirror, monkeypatch, tmp_path):
    """The mirror, with a collection of one file, checked on arrival or when it is read."""
    collection = toy(tmp_path / "origin", checked_on_arrival=request.param)
    monkeypatch.setitem(registry.COLLECTIONS, "toy", collection)
    return mirror


def everything(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_mnist_comes_whole_and_is_not_downloaded_again(real, mirror, tmp_path):
    source, origin = real / "mnist", tmp_path / "origin" / "mnist"
    origin.mkdir()
    for file in source.glob("*.gz"):
        (origin / file.name).symlink_to(file.resolve())
    with np.load(source / "binarized_mnist_larochelle_packed.npz") as packed:
        for split in ("train", "valid", "test"):
            bits = np.unpackbits(packed[split], axis=1)
            text = np.full((len(bits), 784, 2), ord(" "), np.uint8)
            text[:, :, 0] = bits + ord("0")
            text[:, -1, 1] = ord("\n")
            (origin / f"binarized_mnist_{split}.amat").write_bytes(text.tobytes())
        lines = []
        files = fetch.fetch("mnist", lines.append)
        assert all(file.new and file.path.is_relative_to(tmp_path / "data" / "mnist") for file in files)
        assert len(mirror.asked) == 7 and lines[0] == f"fetching {mirror.url}/mnist/train-images-idx3-ubyte.gz"
        for name, array in content.read_arrays(files[-1].path, ("train", "valid", "test")).items():
            np.testing.assert_array_equal(array, packed[name])
    assert [file.new for file in fetch.fetch("mnist")] == [False] * 5 and len(mirror.asked) == 7


def test_tables_come_with_their_splits(real, mirror, tmp_path):
    source = real / "uci"
    for name, folder in (
        ("boston", "bostonHousing"),
        ("concrete", "concrete"),
        ("wine_red", "wine-quality-red"),
        ("yacht", "yacht"),
    ):
        with np.load(source / f"{name}.npz") as table:
            X, y = table["X"], table["y"]
        origin = tmp_path / "origin" / "uci" / folder / "data"
        origin.mkdir(parents=True)
        rows = np.column_stack([X, y]).tolist()
        (origin / "data.txt").write_text("".join(" ".join(map(repr, row)) + " \n" for row in rows))
        (origin / "index_features.txt").write_text("".join(f"{i:.18e}\n" for i in range(X.shape[1])))
        (origin / "index_target.txt").write_text(f"{X.shape[1]}\n")
    for file in fetch.fetch("uci"):
        with np.load(file.path) as made, np.load(source / file.path.name) as known:
            assert file.new and set(made.files) == set(known.files)
            for name in known.files:
                np.testing.assert_array_equal(made[name], known[name], strict=True)


def test_a_file_is_fetched_once_and_readable_by_others(toys, tmp_path):
    (file,) = fetch.fetch("toy")
    assert file == (tmp_path / "data" / "toy" / "a.gz", True)
    assert everything(tmp_path / "data") == ["toy", "toy/a.gz"]
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o666 & ~mask
    assert fetch.fetch("toy") == [(file.path, False)]
    assert toys.asked == ["/toy/a.gz"]


def test_a_file_zipped_anew_is_the_same_file(toys, tmp_path):
    place = tmp_path / "data" / "toy" / "a.gz"
    place.parent.mkdir()
    place.write_bytes(gzip.compress(b"some bytes" * 1000, 1, mtime=1))
    assert fetch.fetch("toy") == [(place, False)]


def test_what_is_in_the_cache_is_not_downloaded_into_the_named_folder(toys, monkeypatch, tmp_path):
    monkeypatch.delenv("ERGODIC_DATA")
    assert fetch.fetch("toy") == [(tmp_path / "cache" / "toy" / "a.gz", True)]
    monkeypatch.setenv("ERGODIC_DATA", str(tmp_path / "data"))
    assert fetch.fetch("toy") == [(tmp_path / "cache" / "toy" / "a.gz", False)]


@pytest.mark.parametrize("left", [b"", b"other bytes", gzip.compress(b"other bytes", mtime=0)])
def test_a_damaged_file_is_fetched_anew(toys, tmp_path, left):
    place = tmp_path / "data" / "toy" / "a.gz"
    place.parent.mkdir()
    place.write_bytes(left)
    assert fetch.fetch("toy") == [(place, True)]
    assert content.unzipped(place) == b"some bytes" * 1000


@pytest.mark.parametrize("served", [b"", b"<html>log in first</html>", gzip.compress(b"other bytes", mtime=0)])
def test_what_is_not_as_known_is_refused_and_not_kept(toys, tmp_path, served):
    (tmp_path / "origin" / "toy" / "a.gz").write_bytes(served)
    with pytest.raises(
        DataError, match=rf"{toys.url}/toy/a\.gz: not the data of 'toy' .* nothing was kept\. Try again"
    ):
        fetch.fetch("toy")
    assert everything(tmp_path / "data") == []


def test_a_failure_leaves_what_was_there(toys, tmp_path):
    (tmp_path / "origin" / "toy" / "a.gz").write_bytes(b"other")
    place = tmp_path / "data" / "toy" / "a.gz"
    place.parent.mkdir()
    place.write_bytes(b"mine")
    with pytest.raises(DataError, match="not the data"):
        fetch.fetch("toy")
    assert place.read_bytes() == b"mine" and everything(tmp_path / "data") == ["toy", "toy/a.gz"]


@pytest.mark.parametrize(
    ("data", "features", "why"),
    [
        ("<html>log in</html>", "0\n1\n", "could not convert"),
        ("", "0\n1\n", "not rows of numbers"),
        ("1 2 3\n4 5\n", "0\n1\n", "inhomogeneous"),
        ("1 2 3\n4 5 6\n", "0\n3\n", "only 3 columns"),
        ("1 2 3\n4 5 6\n", "0\n1\n", "contents are other ones"),
    ],
)
def test_tables_of_something_else_are_refused(mirror, tmp_path, data, features, why):
    origin = tmp_path / "origin" / "uci" / "bostonHousing" / "data"
    origin.mkdir(parents=True)
    for name, text in (("data", data), ("index_features", features), ("index_target", "2\n")):
        (origin / f"{name}.txt").write_text(text)
    with pytest.raises(DataError, match=rf"bostonHousing/data/data\.txt, .*not the data of 'uci'.*{why}"):
        fetch.fetch("uci")
    assert everything(tmp_path / "data") == []


def test_rows_of_something_else_are_refused(tmp_path):
    part, out = tmp_path / "a.amat", tmp_path / "a.npz"
    for text, why in ((b"", "not rows of 784"), (b"0 1\n", "not rows of 784"), (b"2 " * 784, "zeros and ones")):
        part.write_bytes(text)
        with pytest.raises(ValueError, match=why):
            conversion.pack_rows([part] * 3, out)
    assert not out.exists()


def test_a_file_that_is_not_there(toys, tmp_path):
    (tmp_path / "origin" / "toy" / "a.gz").unlink()
    with pytest.raises(
        DataError, match=rf"cannot download {toys.url}/toy/a\.gz: the server answers 404 .*ERGODIC_MIRROR"
    ):
        fetch.fetch("toy")
    assert everything(tmp_path / "data") == []


def test_no_connection(toys, monkeypatch):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # not listening
        monkeypatch.setenv("ERGODIC_MIRROR", f"http://127.0.0.1:{unused.getsockname()[1]}")
        with pytest.raises(DataError, match=r"cannot download .*/toy/a\.gz: no connection"):
            fetch.fetch("toy")


@pytest.mark.parametrize("mirror_url", ["nowhere", "ftp://127.0.0.1", "http://"])
def test_a_mirror_that_is_no_address(toys, monkeypatch, mirror_url):
    monkeypatch.setenv("ERGODIC_MIRROR", mirror_url)
    with pytest.raises(DataError, match=r"cannot download .*toy/a\.gz.*\((MissingSchema|InvalidSchema|InvalidURL)\)"):
        fetch.fetch("toy")


def test_a_server_that_says_nothing(toys, monkeypatch):
    monkeypatch.setattr(fetch, "TIMEOUT", 0.1)
    heard = threading.Event()
    toys.misbehave = lambda handler: heard.wait(5)
    with pytest.raises(DataError, match="no connection, or it broke"):
        fetch.fetch("toy")
    heard.set()


def half(handler):
    """Half of the file, announced as the whole."""
    whole = Path(handler.translate_path(handler.path)).read_bytes()
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(whole)))
    handler.end_headers()
    handler.wfile.write(whole[: len(whole) // 2])
    handler.wfile.flush()
    return True


def test_a_connection_that_breaks(toys, tmp_path):
    toys.misbehave = half
    with pytest.raises(
        DataError, match=r"cannot download .*/toy/a\.gz: no connection, or it broke .* nothing was kept"
    ):
        fetch.fetch("toy")
    assert everything(tmp_path / "data") == []
    toys.misbehave = lambda handler: False
    assert fetch.fetch("toy")[0].new


def test_an_interruption_leaves_nothing(toys, tmp_path):
    def interrupt(handler):
        half(handler)
        os.kill(os.getpid(), signal.SIGINT)
        return True

    toys.misbehave = interrupt
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            fetch.fetch("toy")
    finally:
        signal.signal(signal.SIGINT, before)
    assert everything(tmp_path / "data") == []


def test_a_place_that_cannot_be_written(toys, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("ERGODIC_DATA", str(tmp_path / "file"))
    with pytest.raises(DataError, match=r"cannot write .*file/toy/a\.gz \(.*\); make room for it, or set ERGODIC_DATA"):
        fetch.fetch("toy")
    assert toys.asked == []


def test_origins_are_public_addresses_with_known_digests(monkeypatch):
    monkeypatch.delenv("ERGODIC_MIRROR", raising=False)
    for name, collection in registry.COLLECTIONS.items():
        for file in collection.files:
            algorithm, _, sum_ = file.digest.partition(":")
            assert len(sum_) == {"sha256": 64, "md5": 32}[algorithm]
            for origin in file.origins:
                assert fetch.address(name, origin).startswith(("https://", "http://"))
    origin = registry.COLLECTIONS["uci"].files[3].origins[0]
    assert fetch.address("uci", origin) == origin.base + "yacht/data/data.txt"
    monkeypatch.setenv("ERGODIC_MIRROR", "https://example.org/data/")
    assert fetch.address("uci", origin) == "https://example.org/data/uci/yacht/data/data.txt"


def test_names_are_checked():
    with pytest.raises(ConfigError, match=r"no collection to fetch 'mnits'; did you mean 'mnist'\?"):
        fetch.fetch("mnits")
