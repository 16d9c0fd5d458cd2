"""A mirror of data sets on this machine: what `ergodic data fetch` talks to in tests."""

import gzip
import hashlib
import threading
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

from ergodic.runtime.data_registry import Collection, File, Origin


class _Handler(SimpleHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append(self.path)
        if not self.server.misbehave(self):
            super().do_GET()

    def log_message(self, *words):
        pass


class Mirror(ThreadingHTTPServer):
    """Serves a folder; remembers what was asked for; does as ``misbehave`` says where that returns True."""

    daemon_threads = False  # joined when the mirror closes, so that no socket outlives its test

    def __init__(self, folder):
        super().__init__(("127.0.0.1", 0), partial(_Handler, directory=str(folder)))
        self.asked = []
        self.misbehave = lambda handler: False

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"


@contextmanager
def serving(folder):
    with Mirror(folder) as mirror:
        thread = threading.Thread(target=mirror.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield mirror
        finally:
            mirror.shutdown()
            thread.join()


@contextmanager
def at_home(monkeypatch, tmp_path):
    """A mirror of ``tmp_path/origin`` that is used for fetching, an empty ERGODIC_DATA and an empty cache."""
    from ergodic.runtime import data_files

    for name in ("origin", "data", "cache"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("ERGODIC_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(data_files, "cache_folder", lambda: tmp_path / "cache")
    with serving(tmp_path / "origin") as mirror:
        monkeypatch.setenv("ERGODIC_MIRROR", mirror.url)
        yield mirror


def toy(folder, content=b"some bytes" * 1000, checked_on_arrival=True):
    """A collection of one small gzip file, which is put on the mirror's ``folder``."""
    (folder / "toy").mkdir(exist_ok=True)
    zipped = gzip.compress(content, mtime=0)
    (folder / "toy" / "a.gz").write_bytes(zipped)
    arrival = f"sha256:{hashlib.sha256(zipped).hexdigest()}" if checked_on_arrival else None
    digest = f"md5:{hashlib.md5(content).hexdigest()}"
    return Collection("a toy", (File("a.gz", digest, (Origin("http://example.org/", "a.gz", arrival),)),))
