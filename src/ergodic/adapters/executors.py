"""What may be given as an executor: a number of processes, Dask's client or its address, or any that has ``submit``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from ..runtime.errors import ConfigError
from ..runtime.extras import require
from ..runtime.tasks import Executor, Workers
from ..runtime.validation import positive_int

_DASK = "dask://"


@contextmanager
def opened(executor: object) -> Iterator[Executor]:
    """The executor that is meant: a number of worker processes, ``"dask://HOST:PORT"``, a client, or itself."""
    if isinstance(executor, int):
        with Workers(positive_int(executor, "executor, the number of workers,")) as workers:
            yield workers
    elif isinstance(executor, str):
        if not executor.startswith(_DASK):
            raise ConfigError(f"an executor is a number of workers, {_DASK}HOST:PORT or an object, not {executor!r}")
        distributed = require("distributed", "cluster", f"an executor {_DASK}")
        with distributed.Client(f"tcp://{executor.removeprefix(_DASK)}", set_as_default=False) as client:
            yield client.get_executor(pure=False)
    elif _is_client(executor):
        yield executor.get_executor(pure=False)  # type: ignore[attr-defined]
    elif isinstance(executor, Executor):
        yield executor
    else:
        raise ConfigError(
            f"an executor is a number of workers, {_DASK}HOST:PORT, Dask's client or one of concurrent.futures; "
            f"{type(executor).__name__} has no submit"
        )


def _is_client(executor: object) -> bool:
    """Whether it is a client of Dask, which would take two tasks that are alike for one: its executor does not."""
    distributed = sys.modules.get("distributed")
    return distributed is not None and isinstance(executor, distributed.Client)
